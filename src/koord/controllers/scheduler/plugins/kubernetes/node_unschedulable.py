# SPDX-License-Identifier: Apache-2.0
"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.kinds.constraints import Taint
from koord.api.tolerations import tolerates
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.queueing_hints import is_own
from koord.controllers.scheduler.queue.events import (
    NODE,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Rows

REASON = "node(s) were unschedulable"
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """``spec.unschedulable`` counts as a taint ``node.kubernetes.io/unschedulable:NoSchedule``."""

    name = "NodeUnschedulable"
    reads = PodField.TOLERATIONS
    depends = Aspect.NODE
    filter_at_once = True
    applies_by_shape = True

    def applies(self, cycle: Cycle) -> bool:
        """To pods that do not tolerate it."""
        return self._keeps_out(cycle.shape)

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Where no node is cordoned."""
        return () if self.handle.table.taints.unschedulable.any() else ("filter",)

    def _keeps_out(self, shape: PodShape) -> bool:
        memo = shape.memo
        if self.name not in memo:
            memo[self.name] = not tolerates(shape.pod.spec.tolerations, _CORDONED)
        return bool(memo[self.name])

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where the node is not cordoned."""
        return np.logical_not(cycle.table.taints.unschedulable[rows])

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """One reason."""
        return [Rejection(self.name, (REASON,), unresolvable=True)] * len(rows)

    def events(self) -> Sequence[HintedEvent]:
        """Nodes that come or are uncordoned; tolerations that are added."""
        actions = Action.ADD | Action.UPDATE_NODE_TAINT
        return (
            HintedEvent(ClusterEvent(NODE, actions), _uncordoned, per_shape=True),
            HintedEvent(ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION), is_own),
        )


def _uncordoned(info: PodInfo, old: Node | None, new: Node | None) -> bool:
    if new is None:
        return False
    if new.spec.unschedulable:
        return tolerates(info.shape.pod.spec.tolerations, _CORDONED)
    return old is None or old.spec.unschedulable
