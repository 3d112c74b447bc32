# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-manager: one field a flag, under the original's names and with its defaults.

Rules: docs/reference/manager.md#flags, docs/reference/manager.md#controllers,
docs/reference/admission.md#profiles-on-pods-that-wait. Those of koord-webhook are among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from koord.api.duration import Duration
from koord.base import log
from koord.base.errors import KoordError, nearest
from koord.controllers.webhook.program_options import WebhookProgramOptions, flag_of

if TYPE_CHECKING:
    from collections.abc import Collection

CONTROLLERS = ("colocationprofile", "nodemetric", "noderesource", "nodeslo", "quotaprofile")
"""The controllers' names."""

NODERESOURCE_PLUGINS = (
    "BatchResource",
    "CPUNormalization",
    "GPUDeviceResource",
    "MidResource",
    "RDMADeviceResource",
    "ResourceAmplification",
)
"""The plugins of the controller ``noderesource``."""


@dataclass(frozen=True)
class ManagerOptions(WebhookProgramOptions):
    """What koord-manager is told, each with the text of ``--help``; floats are durations in
    seconds.
    """

    metrics_addr: Annotated[str, "serve metrics and explanations on HOST:PORT"] = "127.0.0.1:8080"
    dry_run: Annotated[bool, "lead nobody and write nothing; say what would be written"] = False
    enable_leader_election: Annotated[bool, "of several, one acts"] = True
    leader_elect_resource_lock: Annotated[str, "what the lead is held on"] = "leases"
    namespace: Annotated[str, "look at objects of this namespace alone; all by default"] = ""
    sync_period: Annotated[str, "look at every object again so often; 0 for never"] = ""
    controllers: Annotated[str, "which run: names, * for all, -name for not that one"] = ",".join(
        CONTROLLERS
    )
    noderesource_plugins: Annotated[str, "which run in noderesource, in the same way"] = ",".join(
        NODERESOURCE_PLUGINS
    )
    colocation_profile_reconcile_by_default: Annotated[
        bool, "profiles without the label controller-managed change pods, too"
    ] = False
    colocation_profile_reconcile_interval: Annotated[float, "between rounds of a profile"] = 30.0
    colocation_profile_force_update_pod_duration: Annotated[
        float, "look at a pod again that a profile has changed"
    ] = 300.0
    colocation_profile_expire_pod_cache_duration: Annotated[
        float, "forget that a profile has changed a pod"
    ] = 600.0
    colocation_profile_update_pod_qps: Annotated[int | float, "pods changed a second"] = 10
    colocation_profile_update_pod_qps_burst: Annotated[int, "pods changed at once"] = 100

    def check(self) -> None:
        """Refuses what cannot be meant.

        Raises:
            KoordError: the flag, its value and what would be right.
        """
        super().check()
        if self.leader_elect_resource_lock != "leases":
            flag = flag_of("leader_elect_resource_lock")
            raise KoordError(flag, "", self.leader_elect_resource_lock, "leases")
        self.enabled_controllers()
        self.enabled_noderesource_plugins()

    def enabled_controllers(self) -> list[str]:
        """The controllers that run, sorted.

        Raises:
            KoordError: an unknown name.
        """
        return enabled("--controllers", self.controllers, CONTROLLERS)

    def enabled_noderesource_plugins(self) -> list[str]:
        """The plugins of noderesource that run, sorted.

        Raises:
            KoordError: an unknown name.
        """
        return enabled("--noderesource-plugins", self.noderesource_plugins, NODERESOURCE_PLUGINS)

    def resync_seconds(self) -> float:
        """How often informers tell of every object again.

        The original's default of ten hours guards against missed events; informers here cannot
        miss one, so that the default is never. What is no duration is ignored, as there.
        """
        try:
            return max(0.0, Duration.parse(self.sync_period).nanoseconds / 1e9)
        except ValueError:
            if self.sync_period:
                told = log.fields(flag="--sync-period", got=self.sync_period)
                log.get("manager").warning("no duration; ignored", extra=told)
            return 0.0


def enabled(flag: str, text: str, known: Collection[str]) -> list[str]:
    """Which names a list lets through, sorted.

    The first item that fits a name decides: ``name`` says yes, ``-name`` no; if none fits, a ``*``
    anywhere says yes.

    Args:
        flag: for errors.
        text: items separated by commas.
        known: all names.

    Raises:
        KoordError: an item names nothing that is known.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    for item in items:
        name = item.removeprefix("-")
        if item != "*" and name not in known:
            guess = nearest(name, list(known))
            names = ", ".join(sorted(known))
            expected = f"a known name, such as {guess}" if guess else f"*, or one of {names}"
            raise KoordError(flag, "", item, expected)
    return sorted(name for name in known if _lets_through(items, name))


def _lets_through(items: list[str], name: str) -> bool:
    for item in items:
        if item in (name, f"-{name}"):
            return item == name
    return "*" in items
