# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFit: whether a node has room for the pod, and how full it would be then.

Rule: docs/reference/stock-plugins.md#noderesourcesfit. Extended resources may be ignored by the
filter; scores take CPU and memory as ``nonzero`` counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from koord.base.errors import KoordError
from koord.controllers.cluster.nodes import CPU, MEMORY, PODS, Aspect
from koord.controllers.scheduler.config.args_stock import NodeResourcesFitArgs
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.noderesources import events, names
from koord.controllers.scheduler.plugins.noderesources.room import ask, memo_key, seen
from koord.kernels.placement_board import LEAST, MOST, RATIO, RoomCheck, RoomScore

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

STRATEGIES = {"LeastAllocated": LEAST, "MostAllocated": MOST, "RequestedToCapacityRatio": RATIO}
TOO_MANY_PODS = "Too many pods"


class Asks(NamedTuple):
    """What a shape asks of rows: columns with amounts, and kernels over them."""

    amounts: list[tuple[int, int]]
    check: RoomCheck
    score: RoomScore


class NodeResourcesFit(Plugin):
    """See the head of this file.

    Raises:
        KoordError: an argument is not what it should be.
    """

    name = "NodeResourcesFit"
    depends = Aspect.NODE | Aspect.PODS | Aspect.RESERVATIONS
    by_columns = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        super().__init__(args or NodeResourcesFitArgs(), handle)
        self._ignored = frozenset(self.args.ignored_resources)
        self._groups = frozenset(self.args.ignored_resource_groups)
        self._strategy, self._corners = _strategy(self.args)
        self._key = memo_key(self.name)

    def stamp(self, cycle: Cycle) -> Hashable:
        """Overlays that differ between pods of a shape."""
        return cycle.overlay_stamp

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where all that is asked for is free."""
        return ask(cycle, rows, self._asks(cycle.shape).check.check)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100 by the strategy."""
        return ask(cycle, rows, self._asks(cycle.shape).score.score)

    def room_check(self, shape: PodShape) -> RoomCheck | None:
        """All that :meth:`filter` asks."""
        return self._asks(shape).check

    def room_score(self, shape: PodShape) -> RoomScore | None:
        """All that :meth:`score` asks."""
        return self._asks(shape).score

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """All resources that are short. Unresolvable where even the empty node has not enough."""
        return [self._diagnose(cycle, row) for row in rows.tolist()]

    def events(self) -> Sequence[HintedEvent]:
        """Pods that go, requests and nodes that change."""
        return events.of(self.handle, self._fits_empty)

    def _diagnose(self, cycle: Cycle, row: int) -> Rejection:
        table = cycle.table
        columns = seen(cycle, row)
        used = table.requested[:, row] if columns is None else columns.requested[:, 0]
        reasons: list[str] = []
        unresolvable = False
        for index, amount in self._asks(cycle.shape).amounts:
            has = int(table.allocatable[index, row])
            if amount <= has - int(used[index]):
                continue
            if index == PODS:
                reasons.append(TOO_MANY_PODS)
                continue
            reasons.append(f"Insufficient {table.resources[index]}")
            unresolvable |= amount > has
        return Rejection(self.name, tuple(reasons), unresolvable=unresolvable)

    def _fits_empty(self, shape: PodShape, offered: dict[str, int]) -> bool:
        """Whether a node that offers this could take a pod of the shape if it were empty."""
        resources = self.handle.table.resources
        return all(
            amount <= offered.get(resources[index], 0)
            for index, amount in self._asks(shape).amounts
        )

    def _asks(self, shape: PodShape) -> Asks:
        asks: Asks | None = shape.memo.get(self._key)
        if asks is None:
            asks = shape.memo[self._key] = self._work_out(shape)
        return asks

    def _work_out(self, shape: PodShape) -> Asks:
        table = self.handle.table
        index, amounts = shape.vector(table)
        asked = [
            (i, amount)
            for i, amount in zip(index.tolist(), amounts.tolist(), strict=True)
            if amount > 0 and not self._is_ignored(table.resources[i])
        ]
        asked.sort(key=lambda pair: _place(pair[0], table.resources[pair[0]]))
        counted = [
            (table.resource(each.name), *_counted(shape, each.name), each.weight or 1)
            for each in self.args.scoring_strategy.resources
            if shape.request.get(each.name) or not names.is_scalar(each.name)
        ]
        score = RoomScore(
            self._strategy,
            [(i, request, weight, nonzero) for i, request, nonzero, weight in counted],
            self._corners,
        )
        return Asks(asked, RoomCheck(asked), score)

    def _is_ignored(self, resource: str) -> bool:
        if not names.is_extended(resource):
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._groups


def _place(index: int, resource: str) -> tuple[bool, int, str]:
    """Reasons name pods first, then CPU, memory and storage, then the others by name."""
    return index != PODS, min(index, PODS), resource if index > PODS else ""


def _counted(shape: PodShape, resource: str) -> tuple[int, bool]:
    """The pod's part in a score, and whether it is one of the two that ``nonzero`` counts."""
    if resource == "cpu":
        return shape.nonzero[CPU], True
    if resource == "memory":
        return shape.nonzero[MEMORY], True
    return shape.request.get(resource, 0), False


def _strategy(args: NodeResourcesFitArgs) -> tuple[int, list[tuple[int, int]]]:
    strategy = args.scoring_strategy
    where = "NodeResourcesFitArgs"
    if strategy.type not in STRATEGIES:
        expected = "one of " + ", ".join(STRATEGIES)
        raise KoordError(where, "scoringStrategy.type", strategy.type, expected)
    if strategy.type != "RequestedToCapacityRatio":
        return STRATEGIES[strategy.type], []
    param: Any = strategy.requested_to_capacity_ratio
    corners = [(point.utilization, point.score * 10) for point in param.shape] if param else []
    field = "scoringStrategy.requestedToCapacityRatio.shape"
    if not corners:
        raise KoordError(where, field, None, "one point or more")
    used = [corner[0] for corner in corners]
    if used != sorted(set(used)) or not 0 <= used[0] <= used[-1] <= 100:
        raise KoordError(where, field, used, "utilization of 0 to 100, ascending")
    if not all(0 <= score <= 100 for _, score in corners):
        raise KoordError(where, field, [score // 10 for _, score in corners], "scores of 0 to 10")
    return RATIO, corners
