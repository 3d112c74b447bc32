# SPDX-License-Identifier: Apache-2.0
"""Scores of many rows: columns where the whole node counts, the judge where zones do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from koord.api.protocol.resources import CPU as CPU_NAME
from koord.controllers.scheduler.plugins.numa.amounts import MILLI
from koord.controllers.scheduler.plugins.numa.columns import amplified, amplified_use
from koord.controllers.scheduler.plugins.numa.machine import amplify
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.numa.scoring import ALWAYS, columns_score, score
from koord.kernels.numa import Strategy, TopologyPolicy
from koord.kernels.placement_board import LEAST, MOST, RoomScore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.numa.columns import Columns
    from koord.controllers.scheduler.plugins.numa.judge import Judge
    from koord.controllers.scheduler.plugins.numa.request import Request
    from koord.kernels.numa import Scorer

FEW = 8
"""Up to how many rows are rated one by one."""


class Rating:
    """Rates rows for pods.

    Args:
        table: the nodes.
        judge: rates rows where zones count.
        scorer: weights and direction.
    """

    def __init__(self, table: NodeTable, judge: Judge, scorer: Scorer) -> None:
        self._table = table
        self._judge = judge
        self._scorer = scorer
        self._rooms: WeakKeyDictionary[Request, RoomScore] = WeakKeyDictionary()

    def scores(
        self, cycle: Cycle, request: Request, columns: Columns, rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """0 to 100 by row."""
        if len(rows) <= FEW:
            found = [self._score(cycle, request, columns, row) for row in rows.tolist()]
            return np.array(found, np.int64)
        scores = self._of_nodes(cycle, request, columns, rows)
        aligned = (columns.policy[rows] != 0) | (request.numa_policy is not TopologyPolicy.NONE)
        for place in np.flatnonzero(aligned).tolist():
            scores[place] = self._judge.score(cycle, request, int(rows[place]))
        return scores

    def of_room(self, request: Request) -> RoomScore:
        """What :meth:`scores` says on nodes without amplification, policy or bound CPUs."""
        kernel = self._rooms.get(request)
        if kernel is None:
            counted = [
                (self._table.resource(name), request.amounts.get(name, 0), weight, False)
                for name, weight in self._scorer.weights.items()
                if name in ALWAYS or request.amounts.get(name, 0)
            ]
            most = self._scorer.strategy is Strategy.MOST_ALLOCATED
            kernel = self._rooms[request] = RoomScore(MOST if most else LEAST, counted, [])
        return kernel

    def _score(self, cycle: Cycle, request: Request, columns: Columns, row: int) -> int:
        """The same for one row: after a placement that is all that is asked about."""
        if request.numa_policy is not TopologyPolicy.NONE or columns.policy[row]:
            return self._judge.score(cycle, request, row)
        terms = self._judge.terms(request, row)
        if isinstance(terms, Refusal):
            return 0
        bound, ratio = terms.binding.bound, float(columns.ratio[row])
        if ratio != ratio or (bound and not columns.threads[row]):
            return 0
        table, overlay = self._table, cycle.overlay(row)
        total = weight = 0
        for name, factor in self._scorer.weights.items():
            asked = request.amounts.get(name, 0)
            index = table.resource(name)
            capacity = int(table.allocatable[index, row])
            if not capacity or (not asked and name not in ALWAYS):
                continue
            used = int(table.requested[index, row])
            if overlay is not None and index < len(overlay):
                used -= int(overlay[index])
            if name == CPU_NAME and ratio > 1 and asked:
                used = amplified(used, int(columns.bound[row]), ratio)
                asked = amplify(asked, ratio) if bound else asked
            total += score(self._scorer.strategy, used + asked, capacity) * factor
            weight += factor
        return total // weight if weight else 0

    def _of_nodes(
        self, cycle: Cycle, request: Request, columns: Columns, rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        table = self._table
        names = [name for name in self._scorer.weights if name in ALWAYS or name in request.amounts]
        at = {name: table.resource(name) for name in names}
        allocatable = {name: table.allocatable[index, rows] for name, index in at.items()}
        requested = {name: table.requested[index, rows] for name, index in at.items()}
        self._give_back(cycle, at, requested, rows)
        asked: dict[str, NDArray[np.int64] | int] = dict(request.amounts)
        bound = (columns.binds[rows] != 0) & (request.cpu_milli > 0)
        if request.bound:
            bound[:] = True
        if request.cpu_milli and CPU_NAME in at:
            ratio = columns.ratio[rows]
            if (ratio > 1).any():
                used = amplified_use(requested[CPU_NAME], columns.bound[rows], ratio)
                requested[CPU_NAME] = np.where(ratio > 1, used, requested[CPU_NAME])
                more = np.ceil(request.cpu_milli * np.where(ratio > 1, ratio, 1.0))
                asked[CPU_NAME] = np.where(bound, more, request.cpu_milli).astype(np.int64)
        scores = columns_score(self._scorer, asked, requested, allocatable)
        scores[bound & ((columns.threads[rows] == 0) | (request.cpu_milli % MILLI != 0))] = 0
        scores[np.isnan(columns.ratio[rows])] = 0
        return scores

    def _give_back(
        self,
        cycle: Cycle,
        at: dict[str, int],
        requested: dict[str, NDArray[np.int64]],
        rows: NDArray[np.intp],
    ) -> None:
        overlays = cycle.overlays(rows)
        if overlays is None:
            return
        for name, index in at.items():
            if index < len(overlays.given):
                requested[name][overlays.places] -= overlays.given[index]
