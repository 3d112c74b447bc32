# SPDX-License-Identifier: Apache-2.0
"""Scores of many rows: columns where the whole node counts, the evaluator where zones do."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from koord.api.protocol.resources import CPU as CPU_NAME
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.score_formula import (
    ALWAYS,
    columns_score,
    score,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import MILLI
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import amplify
from koord.controllers.scheduler.plugins.nodenumaresource.state.columns import (
    amplified,
    amplified_use,
)
from koord.kernels.numa import Strategy, TopologyPolicy
from koord.kernels.placement_board import LEAST, MOST, RoomScore

if TYPE_CHECKING:
    from collections.abc import Container

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.node_evaluator import (
        NUMANodeEvaluator,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest
    from koord.controllers.scheduler.plugins.nodenumaresource.state.columns import NUMAColumns
    from koord.kernels.numa import Scorer

    # With the columns that it was made for.
    _KeptKernel = tuple[object, RoomScore]

FEW = 8
"""Up to how many rows are rated one by one."""


class NUMAScorer:
    """Score: how well the CPUs and zones of rows suit a pod.

    Args:
        table: the nodes.
        evaluator: scores rows where zones count.
        scorer: weights and direction.
    """

    def __init__(self, table: NodeTable, evaluator: NUMANodeEvaluator, scorer: Scorer) -> None:
        self._table = table
        self._evaluator = evaluator
        self._scorer = scorer
        self._kernels: WeakKeyDictionary[NUMARequest, tuple[object, RoomScore]] = (
            WeakKeyDictionary()
        )

    def scores(
        self, cycle: Cycle, request: NUMARequest, columns: NUMAColumns, rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """0 to 100 by row."""
        if len(rows) <= FEW:
            one_by_one = [self._score(cycle, request, columns, row) for row in rows.tolist()]
            return np.array(one_by_one, np.int64)
        scores = self._of_nodes(cycle, request, columns, rows)
        aligned = (columns.policy[rows] != 0) | (request.numa_policy is not TopologyPolicy.NONE)
        for place in np.flatnonzero(aligned).tolist():
            scores[place] = self._evaluator.score(cycle, request, int(rows[place]))
        return scores

    def fit_kernel(self, request: NUMARequest) -> RoomScore:
        """The kernel of :meth:`scores` on nodes without amplification, policy or bound CPUs."""
        columns = self._table.resources_key
        kept = self._kernels.get(request)
        if kept is None or kept[0] is not columns:
            weights = self._scorer.weights
            counted = [
                (self._table.resource(name), request.amounts.get(name, 0), weights[name], False)
                for name in self.counted(request.amounts)
            ]
            most = self._scorer.strategy is Strategy.MOST_ALLOCATED
            kernel = RoomScore(MOST if most else LEAST, counted, [])
            kept = self._kernels[request] = columns, kernel
        return kept[1]

    def counted(self, names: Container[str]) -> list[str]:
        """The resources that count for pods that ask for some, as :meth:`fit_kernel` has them."""
        return [name for name in self._scorer.weights if name in ALWAYS or name in names]

    def _score(self, cycle: Cycle, request: NUMARequest, columns: NUMAColumns, row: int) -> int:
        """The same for one row: after a placement that is all that is asked about."""
        if request.numa_policy is not TopologyPolicy.NONE or columns.policy[row]:
            return self._evaluator.score(cycle, request, row)
        rules = self._evaluator.rules(request, row)
        if isinstance(rules, Rejection):
            return 0
        bound, ratio = rules.binding.bound, float(columns.ratio[row])
        if ratio != ratio or (bound and not columns.threads[row]):
            return 0
        table, overlay = self._table, cycle.overlay(row)
        total = weight = 0
        for name, factor in self._scorer.weights.items():
            requested_amounts = request.amounts.get(name, 0)
            index = table.resource(name)
            capacity = int(table.allocatable[index, row])
            if not capacity or (not requested_amounts and name not in ALWAYS):
                continue
            used = int(table.requested[index, row])
            if overlay is not None and index < len(overlay):
                used -= int(overlay[index])
            if name == CPU_NAME and ratio > 1 and requested_amounts:
                used = amplified(used, int(columns.bound[row]), ratio)
                requested_amounts = (
                    amplify(requested_amounts, ratio) if bound else requested_amounts
                )
            total += score(self._scorer.strategy, used + requested_amounts, capacity) * factor
            weight += factor
        return total // weight if weight else 0

    def _of_nodes(
        self, cycle: Cycle, request: NUMARequest, columns: NUMAColumns, rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        table = self._table
        names = [name for name in self._scorer.weights if name in ALWAYS or name in request.amounts]
        at = {name: table.resource(name) for name in names}
        allocatable = {name: table.allocatable[index, rows] for name, index in at.items()}
        requested = {name: table.requested[index, rows] for name, index in at.items()}
        self._give_back(cycle, at, requested, rows)
        requested_amounts: dict[str, NDArray[np.int64] | int] = dict(request.amounts)
        bound = (columns.binds[rows] != 0) & (request.cpu_milli > 0)
        if request.bound:
            bound[:] = True
        if request.cpu_milli and CPU_NAME in at:
            ratio = columns.ratio[rows]
            if (ratio > 1).any():
                used = amplified_use(requested[CPU_NAME], columns.bound[rows], ratio)
                requested[CPU_NAME] = np.where(ratio > 1, used, requested[CPU_NAME])
                more = np.ceil(request.cpu_milli * np.where(ratio > 1, ratio, 1.0))
                requested_amounts[CPU_NAME] = np.where(bound, more, request.cpu_milli).astype(
                    np.int64
                )
        scores = columns_score(self._scorer, requested_amounts, requested, allocatable)
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
