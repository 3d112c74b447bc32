# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that was rejected for the load of nodes.

The filter looks at one row at a time, so an event helps if it turns a row that rejects the pod into
one that takes it; nothing else about the cluster matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.queueing_hints import pod_of
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD,
    ASSIGNED_POD_DELETE,
    NODE,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.loadaware.cache import NodeLoad

    WouldPass = Callable[[PodShape, "NodeLoad | str"], bool]

NODE_METRICS: Final = "nodemetrics.v1alpha1.slo.koordinator.sh"
_ANNOTATIONS_READ = (keys.RAW_ALLOCATABLE, keys.USAGE_THRESHOLDS)


class LoadChange(NamedTuple):
    """The load of a node changed.

    Attributes:
        node: its name.
        before: its load until then.
    """

    node: str
    before: NodeLoad


class _LoadHints:
    """Whether an event may turn a node that rejects a waiting pod into one that takes it."""

    def __init__(
        self,
        would_pass: WouldPass,
        is_learned: Callable[[PodShape], bool],
        names: Sequence[str],
        lenient: bool,
    ) -> None:
        self._would_pass = would_pass
        self._is_learned = is_learned
        self._names = names
        self._lenient = lenient

    def load_changed(self, info: PodInfo, changes: Sequence[LoadChange], new: object) -> bool:
        shape = info.shape
        if self._lenient or self._is_learned(shape):
            return True
        return any(
            self._would_pass(shape, change.node) and not self._would_pass(shape, change.before)
            for change in changes
        )

    def pod_deleted(self, info: PodInfo, old: Any, new: object) -> bool:
        pod = pod_of(old)
        if pod is None or not pod.spec.node_name:
            return True  # it was on its way to some node
        return not stands_for_reservation(pod) and self._would_pass(info.shape, pod.spec.node_name)

    def pod_updated(self, info: PodInfo, old: PodInfo, new: PodInfo) -> bool:
        # What a pod is expected to use depends on its shape alone.
        return old.shape is not new.shape and self._would_pass(info.shape, new.pod.spec.node_name)

    def node_added(self, info: PodInfo, old: object, new: Node) -> bool:
        return self._would_pass(info.shape, new.metadata.name)

    def node_updated(self, info: PodInfo, old: Node, new: Node) -> bool:
        before, now = old.metadata.annotations, new.metadata.annotations
        had, has = old.status.allocatable, new.status.allocatable
        return any(before.get(key) != now.get(key) for key in _ANNOTATIONS_READ) or any(
            had.get(name) != has.get(name) for name in self._names
        )


def events(
    would_pass: WouldPass,
    is_learned: Callable[[PodShape], bool],
    names: Sequence[str],
    *,
    lenient: bool,
) -> Sequence[HintedEvent]:
    """The registrations.

    Args:
        would_pass: whether pods of a shape pass the filter on a node, given the node's load at some
            moment, or by name with its load now; True for a node of which nothing is known yet.
        is_learned: whether what the pods are expected to use may fall with any report.
        names: the resources that count.
        lenient: nodes whose NodeMetric expires let pods pass, and no event comes of that.
    """
    hints = _LoadHints(would_pass, is_learned, names, lenient)
    pod_actions = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_OTHER
    node_actions = Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_ANNOTATION
    return (
        HintedEvent(ASSIGNED_POD_DELETE, hints.pod_deleted, True),
        HintedEvent(ClusterEvent(ASSIGNED_POD, pod_actions), hints.pod_updated, True),
        HintedEvent(ClusterEvent(NODE_METRICS, Action.UPDATE), hints.load_changed, True),
        HintedEvent(ClusterEvent(NODE, Action.ADD), hints.node_added, True),
        HintedEvent(ClusterEvent(NODE, node_actions), hints.node_updated, True),
    )
