# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-webhook, which koord-manager has too: of admission, and what a program needs.

Rules: docs/reference/admission.md#serving-and-certificates, docs/reference/manager.md#flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from koord.base.errors import KoordError
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.options import WebhookOptions
from koord.kube.daemon.secure_port_options import SecurePortOptions

if TYPE_CHECKING:
    from koord.base.feature_gates import FeatureGates


@dataclass(frozen=True)
class WebhookProgramOptions(WebhookOptions, SecurePortOptions):
    """What koord-webhook is told, each with the text of ``--help``; floats are durations in
    seconds.
    """

    metrics_addr: Annotated[str, "serve metrics on HOST:PORT"] = "127.0.0.1:8080"
    health_probe_addr: Annotated[str, "serve /healthz and /readyz on HOST:PORT"] = "127.0.0.1:8000"
    dry_run: Annotated[bool, "answer and write nothing; say what would be written"] = False
    enable_leader_election: Annotated[bool, "of several, one writes; all answer"] = True
    leader_election_namespace: Annotated[str, "of the Lease"] = "koordinator-system"
    rest_config_qps: Annotated[int, "requests a second; 0 for the client's default"] = 30
    rest_config_burst: Annotated[int, "requests at once; 0 for the client's default"] = 50
    feature_gates: Annotated[str, "switch features: A=true,B=false"] = ""

    def check(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            KoordError: the flag, its value and what would be right.
        """
        for name, value in vars(self).items():
            if isinstance(value, int | float) and value < 0:
                raise KoordError(flag_of(name), "", value, "0 or more")
        self.metrics_listen()
        self.health_listen()
        self.check_secure_port()
        self.check_scopes()
        self.gates()

    def gates(self) -> FeatureGates:
        """The feature gates.

        Raises:
            KoordError: an unknown one.
        """
        return feature_gates(self.feature_gates)

    def metrics_listen(self) -> tuple[str, int]:
        """Host and port of metrics and what else is told.

        Raises:
            KoordError: no such pair.
        """
        return listen("--metrics-addr", self.metrics_addr)

    def health_listen(self) -> tuple[str, int]:
        """Host and port of health.

        Raises:
            KoordError: no such pair.
        """
        return listen("--health-probe-addr", self.health_probe_addr)


def flag_of(field: str) -> str:
    """The flag of a field."""
    return f"--{field.replace('_', '-')}"


def listen(flag: str, address: str) -> tuple[str, int]:
    """Host and port of an address such as ``:8080`` or ``[::1]:8080``.

    Raises:
        KoordError: no such pair.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise KoordError(flag, "", address, "HOST:PORT or :PORT")
    return host.strip("[]") or "0.0.0.0", int(port)
