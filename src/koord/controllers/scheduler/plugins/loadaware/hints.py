# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that was refused for the load of nodes.

The filter looks at one row at a time, so an event helps if it turns a row that refuses the pod into
one that lets it pass; nothing else about the cluster matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.hinting import pod_of
from koord.controllers.scheduler.plugins.reservation.reservepod import stands_for_reservation
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
    from koord.controllers.scheduler.plugins.loadaware.ledger import Standing

    Lets = Callable[[PodShape, "Standing | str"], bool]

NODE_METRICS: Final = "nodemetrics.v1alpha1.slo.koordinator.sh"
_READ = (keys.RAW_ALLOCATABLE, keys.USAGE_THRESHOLDS)


class Turn(NamedTuple):
    """The load of a node is another one than it was.

    Attributes:
        node: its name.
        before: how it stood until then.
    """

    node: str
    before: Standing


def events(
    lets: Lets, guessed: Callable[[PodShape], bool], names: Sequence[str], *, lenient: bool
) -> Sequence[HintedEvent]:
    """The registrations.

    Args:
        lets: whether the filter lets pods of a shape pass a node as it once stood, or, by name, as
            it stands now; True for a node of which nothing is known yet.
        guessed: whether what the pods are expected to use may fall with any report.
        names: the resources that count.
        lenient: nodes whose NodeMetric expires let pods pass, which no event tells of.
    """

    def turned(info: PodInfo, turns: Sequence[Turn], new: object) -> bool:
        shape = info.shape
        if lenient or guessed(shape):
            return True
        return any(lets(shape, each.node) and not lets(shape, each.before) for each in turns)

    def left(info: PodInfo, old: Any, new: object) -> bool:
        pod = pod_of(old)
        if pod is None or not pod.spec.node_name:
            return True  # it was on its way to some node
        return not stands_for_reservation(pod) and lets(info.shape, pod.spec.node_name)

    def changed(info: PodInfo, old: PodInfo, new: PodInfo) -> bool:
        # What is expected of a pod is said by its shape.
        return old.shape is not new.shape and lets(info.shape, new.pod.spec.node_name)

    def came(info: PodInfo, old: object, new: Node) -> bool:
        return lets(info.shape, new.metadata.name)

    def offers(info: PodInfo, old: Node, new: Node) -> bool:
        before, now = old.metadata.annotations, new.metadata.annotations
        had, has = old.status.allocatable, new.status.allocatable
        return any(before.get(key) != now.get(key) for key in _READ) or any(
            had.get(name) != has.get(name) for name in names
        )

    written = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_OTHER
    said = Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_ANNOTATION
    return (
        HintedEvent(ASSIGNED_POD_DELETE, left, True),
        HintedEvent(ClusterEvent(ASSIGNED_POD, written), changed, True),
        HintedEvent(ClusterEvent(NODE_METRICS, Action.UPDATE), turned, True),
        HintedEvent(ClusterEvent(NODE, Action.ADD), came, True),
        HintedEvent(ClusterEvent(NODE, said), offers, True),
    )
