# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that was refused.

CPUs that a node no longer has to give are as those that a pod takes: that helps nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.hinting import pod_of
from koord.controllers.scheduler.plugins.numa.ledger import LABELS
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.numa.ledger import Ledger
    from koord.controllers.scheduler.plugins.numa.machine import Machine
    from koord.controllers.scheduler.plugins.numa.request import Request

_SAME = (
    "layout", "max_ref_count", "kubelet_policy", "bind_policy", "strategy", "numa_policy", "ratios",
    "zone_ratio", "node_ratio", "bad_ratio",
)  # fmt: skip


def events(
    ledger: Ledger, topology: str, wants: Callable[[PodShape], Request | None]
) -> Sequence[HintedEvent]:
    """The registrations.

    Args:
        ledger: tells whether nodes count CPUs in a way that any pod matters for.
        topology: the resource name of NodeResourceTopology events, of which the objects are the
            machine that the node was, and the one that it is.
        wants: what pods of a shape ask for; None where no node could give that.
    """

    def frees(info: PodInfo, old: Any, new: object) -> bool:
        if wants(info.shape) is None:
            return False
        # On amplified nodes plain requests count as well.
        gone = pod_of(old)
        held = gone is None or keys.RESOURCE_STATUS in gone.metadata.annotations
        return held or ledger.special

    def came(info: PodInfo, old: object, new: Node) -> bool:
        request = wants(info.shape)
        # If its CPUs come to be known later, that will tell: what they were is noted now.
        ledger.sync()
        return request is not None and not (request.bound and ledger.unknown(new.metadata.name))

    def written(info: PodInfo, old: Node, new: Node) -> bool:
        if wants(info.shape) is None:
            return False
        had, has = old.metadata, new.metadata
        ratio = keys.RESOURCE_AMPLIFICATION_RATIO
        if any(had.labels.get(key) != has.labels.get(key) for key in LABELS):
            return True
        if had.annotations.get(ratio) != has.annotations.get(ratio):
            return True
        # How much CPU a node has matters here only where it is amplified.
        cpu = old.status.allocatable.get(CPU) != new.status.allocatable.get(CPU)
        return cpu and ledger.special

    def reported(info: PodInfo, old: Machine, new: Machine) -> bool:
        request = wants(info.shape)
        if request is None or (request.bound and new.topology is None):
            return False
        return not _only_less(old, new)

    said = Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ANNOTATION | Action.UPDATE_NODE_ALLOCATABLE
    return (
        HintedEvent(ASSIGNED_POD_DELETE, frees, True),
        HintedEvent(NODE_ADD, came, True),
        HintedEvent(ClusterEvent(NODE, said), written, True),
        HintedEvent(ClusterEvent(topology, Action.ALL), reported, True),
    )


def _only_less(old: Machine, new: Machine) -> bool:
    """Whether a machine is what it was, with fewer CPUs or smaller zones to give."""
    if any(getattr(old, name) != getattr(new, name) for name in _SAME):
        return False
    if old.amounts.keys() != new.amounts.keys() or len(old.reserved - new.reserved):
        return False
    return all(
        amount <= old.amounts[zone].get(name, 0)
        for zone, row in new.amounts.items()
        for name, amount in row.items()
    )
