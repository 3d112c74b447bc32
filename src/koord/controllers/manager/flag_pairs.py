# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-manager that have no effect beside others, or without them.

All are the original's. Rule: docs/reference/manager.md#flags.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from koord.base.flag_pairs import Pair
from koord.controllers.webhook.options import WebhookOptions
from koord.kube.daemon.secure_port_options import BESIDE_SECURE_PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.manager.options import ManagerOptions

_LEASE = ("leader_election_namespace", "leader_elect_resource_lock")
_PROFILES = (
    "colocation_profile_reconcile_by_default", "colocation_profile_reconcile_interval",
    "colocation_profile_force_update_pod_duration", "colocation_profile_expire_pod_cache_duration",
    "colocation_profile_update_pod_qps", "colocation_profile_update_pod_qps_burst",
)  # fmt: skip
# Where the ConfigMap is: read by admission and by these controllers.
_PLACE = ("slo_config_name", "config_namespace")
_CONFIGURED = ("nodemetric", "noderesource", "nodeslo")
_ADMISSION = tuple(each.name for each in fields(WebhookOptions) if each.name not in _PLACE)


def _without(*controllers: str) -> Callable[[ManagerOptions], bool]:
    return lambda options: not set(controllers) & set(options.enabled_controllers())


def _without_admission(options: ManagerOptions) -> bool:
    return not options.gates().enabled("WebhookFramework")


PAIRS = (
    # Not where it says the same: no election.
    Pair(("enable_leader_election",), "--dry-run", False,
         lambda options: options.dry_run and options.enable_leader_election),
    Pair(_LEASE, "--dry-run", False, lambda options: options.dry_run),
    Pair(_LEASE, "--enable-leader-election=false", False,
         lambda options: not options.enable_leader_election),
    Pair(("noderesource_plugins",), "--controllers=noderesource", True, _without("noderesource")),
    Pair(_PROFILES, "--controllers=colocationprofile", True, _without("colocationprofile")),
    Pair(_PROFILES, "--feature-gates=ColocationProfileController=true", True,
         lambda options: not options.gates().enabled("ColocationProfileController")),
    Pair(_PLACE, f"--controllers={_CONFIGURED[0]} (or {', '.join(_CONFIGURED[1:])})", True,
         lambda options: _without(*_CONFIGURED)(options) and _without_admission(options)),
    Pair(_ADMISSION, "--feature-gates=WebhookFramework=true", True, _without_admission),
    Pair(BESIDE_SECURE_PORT, "--secure-port", True, lambda options: not options.secure_port),
)  # fmt: skip
"""Of several that apply to a flag, the first is told."""
