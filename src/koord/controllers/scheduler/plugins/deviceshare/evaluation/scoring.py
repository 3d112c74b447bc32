# SPDX-License-Identifier: Apache-2.0
"""What nodes and reservations are worth by LeastAllocated or MostAllocated.

Rule: docs/reference/devices.md#node-score.

A node's score counts all its cards of a type as one, with one instance of the request added;
scores of types add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare.allocation.allocator import DeviceAllocator
from koord.controllers.scheduler.plugins.deviceshare.allocation.reservation_pools import (
    NodeDeviceAllocator,
)
from koord.kernels.devices_assign import Demand, offered_score, score_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import DevicePool
    from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions
    from koord.controllers.scheduler.plugins.deviceshare.evaluation.node_evaluator import (
        DeviceNodeEvaluator,
    )
    from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )


class DeviceScorer:
    """Score: what nodes and reservations are worth by the share of their cards that is used.

    Args:
        evaluator: the cache, and who matches which reservations.
        options: of the plugin.

    Attributes:
        by_type: how cards of each device type are scored.
    """

    def __init__(self, evaluator: DeviceNodeEvaluator, options: DeviceShareOptions) -> None:
        self.by_type = options.by_type()
        self._evaluator = evaluator
        self._cache = evaluator.cache
        self._columns = evaluator.tracker.columns

    def score(self, cycle_state: DeviceCycleState, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """By row, the raw score; 0 for nodes without a Device."""
        by_count = cycle_state.request.by_count and not cycle_state.designated
        known = self._columns.known[rows]
        if by_count:
            scores = self._by_count(cycle_state, rows, known)
            places = self._evaluator.reserved_places(cycle_state, rows)
        else:
            scores, places = np.zeros(len(rows), np.int64), np.flatnonzero(known).tolist()
        for place in places:
            if known[place]:
                scores[place] = self._of_row(cycle_state, int(rows[place]))
        return scores

    def score_with(
        self, cycle_state: DeviceCycleState, row: int, matched: MatchedReservation
    ) -> int:
        """A node's worth, 0..100 a type, with what one reservation has left."""
        base = self._evaluator.base(cycle_state, row)
        allocator = NodeDeviceAllocator(self._cache, row, cycle_state.request, [matched], base)
        if not allocator.reservations:
            return 0
        return self._score_of_pool(cycle_state, row, allocator.pool_with(matched))

    def _by_count(
        self, cycle_state: DeviceCycleState, rows: NDArray[np.intp], known: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        if known.all():
            return self._summed(cycle_state, rows)
        scores = np.zeros(len(rows), np.int64)
        if known.any():
            # Rows without a Device may lie beyond the end of the device tables.
            scores[known] = self._summed(cycle_state, rows[known])
        return scores

    def _summed(self, cycle_state: DeviceCycleState, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        total: NDArray[np.int64] | None = None
        for kind in cycle_state.request.requests:
            demand = cycle_state.request.demand(kind)
            scores = score_rows(self._cache.tables[kind], rows, demand, self.by_type[kind])
            if cycle_state.request.secondary(kind):
                scores[self._columns.well_planned[rows]] = 0  # they are left for Reserve
            total = scores if total is None else total + scores
        return np.zeros(len(rows), np.int64) if total is None else total

    def _of_row(self, cycle_state: DeviceCycleState, row: int) -> int:
        matched = self._evaluator.reservations(cycle_state, row)
        base = self._evaluator.base(cycle_state, row)
        allocator = NodeDeviceAllocator(self._cache, row, cycle_state.request, matched, base)
        return self._score_of_pool(cycle_state, row, allocator.combined_pool())

    def _score_of_pool(self, cycle_state: DeviceCycleState, row: int, pool: DevicePool) -> int:
        allocator = DeviceAllocator(self._cache, row, cycle_state.request, pool)
        wanted = allocator.demands()
        if isinstance(wanted, Rejection):
            return 0
        # Cards that this pod cannot have count too, as they do where numbers of cards decide.
        return sum(
            offered_score(
                self._cache.tables[kind], row, Demand(demand.each),
                allocator.offer(kind, by_function=False), self.by_type[kind],
            )
            for kind, demand in wanted.items()
        )  # fmt: skip
