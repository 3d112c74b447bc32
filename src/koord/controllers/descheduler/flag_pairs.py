# SPDX-License-Identifier: Apache-2.0
"""Flags of koord-descheduler that have no effect beside others, or without them.

Rule: docs/reference/descheduling.md#flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.flag_pairs import Pair
from koord.kube.daemon.secure_port_options import BESIDE_SECURE_PORT

if TYPE_CHECKING:
    from koord.controllers.descheduler.options import DeschedulerOptions

_LEASE = (
    "leader_elect_lease_duration", "leader_elect_renew_deadline", "leader_elect_retry_period",
    "leader_elect_resource_lock", "leader_elect_resource_name", "leader_elect_resource_namespace",
)  # fmt: skip


def _has_file(options: DeschedulerOptions) -> bool:
    return bool(options.file)


PAIRS = (
    Pair(("address", "port"), "--config", False, _has_file),
    Pair((*_LEASE, "leader_elect"), "--dry-run", False, lambda options: options.dry_run),
    Pair(_LEASE, "--leader-elect=false", False, lambda options: not options.leader_elect),
    Pair(BESIDE_SECURE_PORT, "--secure-port", True, lambda options: not options.secure_port),
)  # fmt: skip
"""Of several that apply to a flag, the first is told."""
