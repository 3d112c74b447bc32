# SPDX-License-Identifier: Apache-2.0
"""TaintToleration: taints keep pods out, or make their nodes the second choice.

Rule: docs/reference/stock-plugins.md#filters. Nodes with equal taints are looked at once a shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from koord.api.tolerations import (
    KEEPS_OUT,
    PREFERS_NOT,
    tolerates,
    untolerated,
)
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
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

    from koord.api.kinds.constraints import Taint, Toleration
    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Rows

UNTOLERATED = "node(s) had untolerated taint(s)"


class TaintMatches(NamedTuple):
    """By number of a list of taints: whether it admits the shape, and how many cost score.

    Attributes:
        lists: the lists that are meant, by number.
        idle: the points at which that is the same for all lists.
    """

    lists: Sequence[Sequence[Taint]]
    admitted: NDArray[np.bool_]
    intolerable: NDArray[np.int64]
    idle: tuple[str, ...]


class TaintToleration(Plugin):
    """NoSchedule and NoExecute refuse; each PreferNoSchedule that is not tolerated costs score."""

    name = "TaintToleration"
    reads = PodField.TOLERATIONS
    idle_score: ClassVar[int] = 100
    depends = Aspect.NODE
    filter_at_once: ClassVar[bool] = True
    score_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.REVERSED

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Filter where all nodes' taints let the pod in, Score where none costs any."""
        return self._matches(shape).idle

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where all NoSchedule and NoExecute taints are tolerated."""
        return self._matches(cycle.shape).admitted[cycle.table.taints.ids[rows]]

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """How many PreferNoSchedule taints are not tolerated."""
        return self._matches(cycle.shape).intolerable[cycle.table.taints.ids[rows]]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """In the words of kube-scheduler 1.35, which no longer name the taint."""
        return [Rejection(self.name, (UNTOLERATED,), unresolvable=True)] * len(rows)

    def events(self) -> Sequence[HintedEvent]:
        """Nodes that come or lose a taint; tolerations that are added."""
        actions = Action.ADD | Action.UPDATE_NODE_TAINT
        return (
            HintedEvent(ClusterEvent(NODE, actions), _is_admitted, per_shape=True),
            HintedEvent(ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION), is_own),
        )

    def _matches(self, shape: PodShape) -> TaintMatches:
        lists = self.handle.table.taints.lists
        kept: TaintMatches | None = shape.memo.get(self.name)
        if kept is None or kept.lists is not lists or len(kept.admitted) != len(lists):
            kept = shape.memo[self.name] = _match(shape, lists)
        return kept


def _match(shape: PodShape, lists: Sequence[Sequence[Taint]]) -> TaintMatches:
    tolerations = shape.pod.spec.tolerations
    # Only those without an effect, or with this one, soften a preference.
    soft = [t for t in tolerations if t.effect in ("", "PreferNoSchedule")]
    admitted = [untolerated(taints, tolerations, KEEPS_OUT) is None for taints in lists]
    intolerable = [_intolerable(taints, soft) for taints in lists]
    # No score at all and 100 everywhere put the same node first.
    idle = (("filter", all(admitted)), ("score", not any(intolerable)))
    return TaintMatches(
        lists,
        np.array(admitted, np.bool_),
        np.array(intolerable, np.int64),
        tuple(point for point, alike in idle if alike),
    )


def _intolerable(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    return sum(
        taint.effect in PREFERS_NOT and not tolerates(tolerations, taint) for taint in taints
    )


def _is_admitted(info: PodInfo, old: Node | None, new: Node | None) -> bool:
    if new is None:
        return False
    tolerations = info.shape.pod.spec.tolerations
    if untolerated(new.spec.taints, tolerations, KEEPS_OUT) is not None:
        return False
    return old is None or untolerated(old.spec.taints, tolerations, KEEPS_OUT) is not None
