# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that was refused.

CPUs that a node no longer has to give are as those that a pod takes: that helps nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.nodenumaresource.state.cache import LABELS
from koord.controllers.scheduler.plugins.queueing_hints import pod_of
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
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest
    from koord.controllers.scheduler.plugins.nodenumaresource.state.cache import NUMACache

_SAME = (
    "layout", "max_ref_count", "kubelet_policy", "bind_policy", "strategy", "numa_policy", "ratios",
    "zone_ratio", "node_ratio", "invalid_ratio",
)  # fmt: skip


class _NUMAHints:
    """Whether an event may give a waiting pod CPUs or zones of a node."""

    def __init__(
        self,
        cache: NUMACache,
        wants: Callable[[PodShape], NUMARequest | None],
    ) -> None:
        self._cache = cache
        self._wants = wants

    def pod_deleted(self, info: PodInfo, old: Any, new: object) -> bool:
        if self._wants(info.shape) is None:
            return False
        # On amplified nodes plain requests count as well.
        gone = pod_of(old)
        held = gone is None or keys.RESOURCE_STATUS in gone.metadata.annotations
        return held or self._cache.constrained

    def node_added(self, info: PodInfo, old: object, new: Node) -> bool:
        request = self._wants(info.shape)
        # If its CPUs come to be known later, that event wakes: what they were is noted now.
        self._cache.sync()
        return request is not None and not (
            request.bound and self._cache.unknown(new.metadata.name)
        )

    def node_updated(self, info: PodInfo, old: Node, new: Node) -> bool:
        if self._wants(info.shape) is None:
            return False
        had, has = old.metadata, new.metadata
        ratio = keys.RESOURCE_AMPLIFICATION_RATIO
        if any(had.labels.get(key) != has.labels.get(key) for key in LABELS):
            return True
        if had.annotations.get(ratio) != has.annotations.get(ratio):
            return True
        # How much CPU a node has matters here only where it is amplified.
        cpu = old.status.allocatable.get(CPU) != new.status.allocatable.get(CPU)
        return cpu and self._cache.constrained

    def nrt_changed(self, info: PodInfo, old: NodeTopology, new: NodeTopology) -> bool:
        request = self._wants(info.shape)
        if request is None or (request.bound and new.cpu_topology is None):
            return False
        return not _only_less(old, new)


def events(
    cache: NUMACache, nrt_event: str, wants: Callable[[PodShape], NUMARequest | None]
) -> Sequence[HintedEvent]:
    """The registrations.

    Args:
        cache: whether nodes count CPUs in a way that any pod matters for.
        nrt_event: the resource name of NodeResourceTopology events, of which the objects are the
            topology that the node had, and the one that it has.
        wants: what pods of a shape ask for; None where no node could give that.
    """
    hints = _NUMAHints(cache, wants)
    node_actions = (
        Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ANNOTATION | Action.UPDATE_NODE_ALLOCATABLE
    )
    return (
        HintedEvent(ASSIGNED_POD_DELETE, hints.pod_deleted, True),
        HintedEvent(NODE_ADD, hints.node_added, True),
        HintedEvent(ClusterEvent(NODE, node_actions), hints.node_updated, True),
        HintedEvent(ClusterEvent(nrt_event, Action.ALL), hints.nrt_changed, True),
    )


def _only_less(old: NodeTopology, new: NodeTopology) -> bool:
    """Whether a node is what it was, with fewer CPUs or smaller zones to give."""
    if any(getattr(old, name) != getattr(new, name) for name in _SAME):
        return False
    if old.amounts.keys() != new.amounts.keys() or len(old.reserved - new.reserved):
        return False
    return all(
        amount <= old.amounts[zone].get(name, 0)
        for zone, row in new.amounts.items()
        for name, amount in row.items()
    )
