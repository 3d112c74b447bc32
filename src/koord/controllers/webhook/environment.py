# SPDX-License-Identifier: Apache-2.0
"""What admission is told by environment variables, under the original's names.

Rule: docs/reference/admission.md#serving-and-certificates.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.controllers.webhook.certificates.certificate_keeper import ConfigurationNames
from koord.controllers.webhook.certificates.webhook_configuration import WebhookAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

_HIGHEST_PORT = 65_535
_WRITERS = ("", "fs", "secret")
_CONFIGURATIONS = ConfigurationNames(
    "koordinator-mutating-webhook-configuration", "koordinator-validating-webhook-configuration"
)


@dataclass(frozen=True)
class WebhookEnvironment:
    """Where admission is served, and where its certificate is kept.

    Attributes:
        namespace: of Service and Secret.
        port: to listen on; 0 for a free one.
        folder: of the certificate where it is kept in files.
        secret: where it is kept in one.
        service: in front of the server.
        host: how it is reached by URL; empty for the service.
        writer: ``fs`` for files, ``secret``, or empty: files where there is a host.
        configurations: the names of the two.
        listen: address to listen on.
    """

    namespace: str = "koordinator-system"
    port: int = 9876
    folder: Path = Path("/tmp/koordinator-webhook-certs")
    secret: str = "koordinator-webhook-certs"
    service: str = "koordinator-webhook-service"
    host: str = ""
    writer: str = ""
    configurations: ConfigurationNames = _CONFIGURATIONS
    listen: str = "0.0.0.0"

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> WebhookEnvironment:
        """What variables say; empty ones say nothing.

        Raises:
            KoordError: the variable, its value and what would be right.
        """
        default = cls()
        names = default.configurations

        def value_of(name: str, otherwise: str) -> str:
            return variables.get(name) or otherwise

        writer = value_of("WEBHOOK_CERT_WRITER", "")
        if writer not in _WRITERS:
            raise KoordError("WEBHOOK_CERT_WRITER", "", writer, "fs or secret, or nothing")
        return cls(
            value_of("POD_NAMESPACE", default.namespace),
            _port(value_of("WEBHOOK_PORT", str(default.port))),
            Path(value_of("WEBHOOK_CERT_DIR", str(default.folder))),
            value_of("SECRET_NAME", default.secret),
            value_of("SERVICE_NAME", default.service),
            value_of("WEBHOOK_HOST", default.host),
            writer,
            ConfigurationNames(
                value_of("MUTATING_WEBHOOK_NAME", names.mutating),
                value_of("VALIDATING_WEBHOOK_NAME", names.validating),
            ),
        )

    @property
    def in_files(self) -> bool:
        """Whether the certificate is kept in files."""
        return self.writer == "fs" or (not self.writer and bool(self.host))

    def address(self, port: int) -> WebhookAddress:
        """Where API servers call.

        Args:
            port: that is listened on.
        """
        return WebhookAddress(self.service, self.namespace, self.host, port)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _HIGHEST_PORT:
        expected = f"a whole number from 0 to {_HIGHEST_PORT}"
        raise KoordError("WEBHOOK_PORT", "", text, expected)
    return int(text)
