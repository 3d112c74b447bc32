# SPDX-License-Identifier: Apache-2.0
"""What may let a pod in that would have made the spread too uneven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.hinting import is_own, pod_of
from koord.controllers.scheduler.queue.events import (
    NODE,
    POD,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.podtopologyspread.constraints import Constraint

    Wished = Callable[[PodInfo], Sequence[Constraint]]


def of(wished: Wished) -> Sequence[HintedEvent]:
    """Registrations of PodTopologySpread.

    Args:
        wished: the DoNotSchedule constraints of a pod.
    """

    def counted(info: PodInfo, pod: Pod | None) -> list[bool]:
        meta = pod.metadata if pod is not None else None
        return [
            meta is not None
            and meta.namespace == info.shape.namespace
            and each.matches(meta.labels)
            for each in wished(info)
        ]

    def after_pod(info: PodInfo, before: PodInfo | Pod | None, now: PodInfo | Pod | None) -> bool:
        old, new = pod_of(before), pod_of(now)
        if new is not None and new.metadata.uid == info.uid:
            return old is None or old.metadata.labels != new.metadata.labels
        if old is None or new is None:
            return any(counted(info, old or new))
        ends = new.metadata.deletion_timestamp is not None
        if ends and old.metadata.deletion_timestamp is None:
            return any(counted(info, old))
        return counted(info, old) != counted(info, new)

    def tolerates_more(info: PodInfo, old: object, new: PodInfo | Pod | None) -> bool:
        # With other taints tolerated, other nodes are domains.
        return is_own(info, old, new) and any(each.honors_taints for each in wished(info))

    def after_node(info: PodInfo, old: Node | None, new: Node | None) -> bool:
        keys = [each.key for each in wished(info)]

        def values(node: Node | None) -> list[str | None] | None:
            found = [node.metadata.labels.get(key) if node is not None else None for key in keys]
            return found if None not in found else None

        if old is not None and new is not None:
            # A taint may make a domain count; labels must have changed one.
            same = old.metadata.labels == new.metadata.labels
            return values(new) is not None if same else values(old) != values(new)
        return values(old or new) is not None

    pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_OTHER
    nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
    return (
        HintedEvent(ClusterEvent(POD, pods), after_pod),
        HintedEvent(ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION), tolerates_more),
        HintedEvent(ClusterEvent(NODE, nodes), after_node, per_shape=True),
    )
