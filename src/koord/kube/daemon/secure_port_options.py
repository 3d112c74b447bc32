# SPDX-License-Identifier: Apache-2.0
"""What a daemon is told of its secure port: one field a flag, with kube-scheduler's names.

Rule: docs/reference/scheduling.md#who-may-ask. Nothing is imported here that a program without a
secure port would not need.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from koord.base.errors import KoordError

_HIGHEST_PORT = 65_535
_OPEN_PATHS = "/healthz,/readyz,/livez"


@dataclass(frozen=True)
class SecurePortOptions:
    """Of the port that is served over TLS, to whom the cluster's RBAC lets; floats are durations in
    seconds.
    """

    secure_port: Annotated[int, "serve over TLS on it, to whom RBAC lets; 0 for no such port"] = 0
    tls_cert_file: Annotated[str, "certificate of --secure-port; PEM, read again if renewed"] = ""
    tls_private_key_file: Annotated[str, "key of that certificate"] = ""
    client_ca_file: Annotated[str, "authority of certificates that clients may show"] = ""
    authentication_kubeconfig: Annotated[
        str, "whom to ask for TokenReviews; the daemon's own cluster by default"
    ] = ""
    authorization_kubeconfig: Annotated[
        str, "whom to ask for SubjectAccessReviews; the daemon's own cluster by default"
    ] = ""
    authorization_always_allow_paths: Annotated[
        str, "what anybody may get of --secure-port; * at the end for all below"
    ] = _OPEN_PATHS
    authentication_token_webhook_cache_ttl: Annotated[float, "keep what a token stands for"] = 10.0
    authorization_webhook_cache_authorized_ttl: Annotated[float, "keep that one may"] = 10.0
    authorization_webhook_cache_unauthorized_ttl: Annotated[float, "keep that one may not"] = 10.0

    def check_secure_port(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            KoordError: the flag, its value and what would be right.
        """
        if not 0 <= self.secure_port <= _HIGHEST_PORT:
            expected = f"a whole number from 0 to {_HIGHEST_PORT}"
            raise KoordError("--secure-port", "", self.secure_port, expected)
        for path in self.open_paths():
            if not path.startswith("/"):
                flag = "--authorization-always-allow-paths"
                raise KoordError(flag, "", path, "paths that begin with /, separated by commas")
        if not self.secure_port:
            return
        if not (self.tls_cert_file and self.tls_private_key_file):
            expected = "--tls-cert-file and --tls-private-key-file beside it"
            raise KoordError("--secure-port", "", self.secure_port, expected)
        for name in ("tls_cert_file", "tls_private_key_file", "client_ca_file"):
            path = getattr(self, name)
            if path and not Path(path).is_file():
                raise KoordError(f"--{name.replace('_', '-')}", "", Path(path), "a file of PEM")

    def open_paths(self) -> list[str]:
        """What anybody may get."""
        return [each.strip() for each in self.authorization_always_allow_paths.split(",") if each]


BESIDE_SECURE_PORT = tuple(
    each.name for each in fields(SecurePortOptions) if each.name != "secure_port"
)
"""The fields that have no effect without ``secure_port``."""
