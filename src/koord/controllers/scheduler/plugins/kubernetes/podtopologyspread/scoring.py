# SPDX-License-Identifier: Apache-2.0
"""ScheduleAnyway constraints of one shape: how crowded each row's domains are.

A row scores ``sum of (pods of its domain * ln(domains + 2) + maxSkew - 1)``, rounded; the fewer the
better. Domains are those of feasible nodes. By hostname every node is a domain of its own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.plugins.kubernetes.domain_counts import (
    DomainCounts,
    RowLog,
    TopologyDomains,
)
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.constraints import HOSTNAME
from koord.kernels.placement_board import spread_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_labels import LabelColumn
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts
    from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.constraints import (
        SpreadConstraint,
    )

    Rows = NDArray[np.intp] | slice


class SoftConstraintCounts:
    """One constraint.

    Args:
        constraint: the constraint.
        column: of its label.
        eligible: bool by row: nodes whose pods count.
        pods: those that match, as row counts with weights.
    """

    def __init__(
        self,
        constraint: SpreadConstraint,
        column: LabelColumn,
        eligible: NDArray[np.bool_],
        pods: Sequence[tuple[RowCounts, int]],
    ) -> None:
        self.by_node = constraint.key == HOSTNAME
        self.labels = column.ids
        self.values = len(column.values)
        rows = len(eligible)
        self.domains = TopologyDomains(None if self.by_node else column, rows)
        # Pods beside the candidate count whatever the policies say of their node.
        self._sum = DomainCounts(self.domains, pods, None if self.by_node else eligible)
        self._bias = constraint.max_skew - 1

    def sync(self, log: RowLog) -> None:
        """Takes over which pods came and went; logs domains that changed."""
        before = self._sum.sync()
        if before is None:
            log.add_all()
            return
        for domain in before:
            log.add(self.domains, domain)

    def size(self, feasible: NDArray[np.bool_]) -> int:
        """How many domains feasible rows have; those without the label are one domain together."""
        if self.by_node:
            return int(np.count_nonzero(feasible))
        found = np.bincount(self.labels[: len(feasible)][feasible] + 1, minlength=1)
        return int(np.count_nonzero(found))

    def native(self, weight: float) -> tuple[Any, ...]:
        """The part of :func:`koord.kernels.placement_board.spread_scores`."""
        domain = None if self.by_node else self.domains.ids
        return self.labels, domain, self._sum.counts, weight, self._bias


class SoftConstraints:
    """The ScheduleAnyway constraints of one shape, with their counts.

    Args:
        parts: by constraint.
        rated: bool by row: nodes that are compared; the others lack a label they need.

    Attributes:
        log: which rows' scores have changed, weights aside.
    """

    def __init__(self, parts: Sequence[SoftConstraintCounts], rated: NDArray[np.bool_]) -> None:
        self.parts = parts
        self.log = RowLog()
        self._rated = rated
        self._synced = -1
        self._weighed: tuple[int, int] = (0, -1)
        self._weights: tuple[float, ...] = ()

    def sync(self, changes: int) -> None:
        """Takes over which pods came and went, unless it has at this number of changes."""
        if changes == self._synced:
            return
        self._synced = changes
        for part in self.parts:
            part.sync(self.log)

    def weights(self, cycle: Cycle) -> tuple[float, ...]:
        """By constraint, how much a pod counts: the more domains, the more."""
        board = cycle.board
        assert board is not None
        at = (id(board), board.flips)
        if cycle.allowed is not None:
            self._weighed = (0, -1)
        elif at == self._weighed:
            return self._weights
        else:
            self._weighed = at
        feasible = np.equal(board.refused, 0)
        if cycle.allowed is not None:
            feasible[: len(cycle.allowed)] &= cycle.allowed
        feasible &= self._rated[: len(feasible)]
        self._weights = tuple(math.log(part.size(feasible) + 2) for part in self.parts)
        return self._weights

    def scores(self, rows: Rows, weights: tuple[float, ...]) -> NDArray[np.int64]:
        """By row, the pods in its domains, weighed; -1 for rows that are not compared."""
        parts = [part.native(weight) for part, weight in zip(self.parts, weights, strict=True)]
        return spread_scores(parts, self._rated, rows)
