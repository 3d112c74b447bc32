# SPDX-License-Identifier: Apache-2.0
"""What may let a pod in that would have made the spread too uneven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.queueing_hints import is_own, pod_of
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
    from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.constraints import (
        SpreadConstraint,
    )

    ConstraintsOf = Callable[[PodInfo], Sequence[SpreadConstraint]]


class _SpreadHints:
    """Whether an event may change the counts by which a waiting pod was rejected."""

    def __init__(
        self,
        constraints_of: ConstraintsOf,
    ) -> None:
        self._constraints_of = constraints_of

    def _counted(self, info: PodInfo, pod: Pod | None) -> list[bool]:
        meta = pod.metadata if pod is not None else None
        return [
            meta is not None
            and meta.namespace == info.shape.namespace
            and constraint.matches(meta.labels)
            for constraint in self._constraints_of(info)
        ]

    def after_pod(
        self, info: PodInfo, before: PodInfo | Pod | None, now: PodInfo | Pod | None
    ) -> bool:
        old, new = pod_of(before), pod_of(now)
        if new is not None and new.metadata.uid == info.uid:
            return old is None or old.metadata.labels != new.metadata.labels
        if old is None or new is None:
            return any(self._counted(info, old or new))
        ends = new.metadata.deletion_timestamp is not None
        if ends and old.metadata.deletion_timestamp is None:
            return any(self._counted(info, old))
        return self._counted(info, old) != self._counted(info, new)

    def tolerates_more(self, info: PodInfo, old: object, new: PodInfo | Pod | None) -> bool:
        # With other taints tolerated, other nodes are domains.
        return is_own(info, old, new) and any(
            constraint.honors_taints for constraint in self._constraints_of(info)
        )

    def after_node(self, info: PodInfo, old: Node | None, new: Node | None) -> bool:
        keys = [constraint.key for constraint in self._constraints_of(info)]

        def values(node: Node | None) -> list[str | None] | None:
            labels = [node.metadata.labels.get(key) if node is not None else None for key in keys]
            return labels if None not in labels else None

        if old is not None and new is not None:
            # A taint may make a domain count; labels must have changed one.
            same = old.metadata.labels == new.metadata.labels
            return values(new) is not None if same else values(old) != values(new)
        return values(old or new) is not None


def of(constraints_of: ConstraintsOf) -> Sequence[HintedEvent]:
    """Registrations of PodTopologySpread.

    Args:
        constraints_of: the DoNotSchedule constraints of a pod.
    """
    hints = _SpreadHints(constraints_of)
    pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_OTHER
    nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
    return (
        HintedEvent(ClusterEvent(POD, pods), hints.after_pod),
        HintedEvent(
            ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION), hints.tolerates_more
        ),
        HintedEvent(ClusterEvent(NODE, nodes), hints.after_node, per_shape=True),
    )
