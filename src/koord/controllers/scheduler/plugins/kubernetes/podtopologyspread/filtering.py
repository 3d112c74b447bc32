# SPDX-License-Identifier: Apache-2.0
"""DoNotSchedule constraints of one shape: which domains still take a pod.

A domain refuses where ``its pods + (1 if the pod matches itself) - the fewest of any domain`` would
be more than maxSkew. Rows are only looked at again when their domain's answer turns.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.plugins.kubernetes.domain_counts import (
    DomainCounts,
    RowLog,
    TopologyDomains,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_labels import LabelColumn
    from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts
    from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.constraints import (
        SpreadConstraint,
    )
    from koord.kernels.placement_board import RowBits

    Rows = NDArray[np.intp] | slice

# The fewest of no domain at all (Kubernetes: math.MaxInt32).
_NO_DOMAIN = (1 << 31) - 1
_MANY = 64


class EligibleNodes:
    """The nodes that count for a constraint; not to be changed.

    Args:
        rows: bool by row: which.
        column: of the constraint's label.

    Attributes:
        rows: the same.
        present: bool by domain: which domains they make up; one False more.
    """

    __slots__ = ("present", "rows")

    def __init__(self, rows: NDArray[np.bool_], column: LabelColumn) -> None:
        self.rows = rows
        self.present = np.zeros(len(column.values) + 1, np.bool_)
        self.present[column.ids[rows]] = True
        self.present[-1] = False


class HardConstraintCounts:
    """One constraint.

    Args:
        constraint: the constraint.
        matches_self: whether it counts the pod itself.
        column: of its label.
        eligible: the nodes that make up domains.
        pods: those that match, as row counts with weights.
    """

    def __init__(
        self,
        constraint: SpreadConstraint,
        matches_self: bool,
        column: LabelColumn,
        eligible: EligibleNodes,
        pods: Sequence[tuple[RowCounts, int]],
    ) -> None:
        self.domains = TopologyDomains(column, len(eligible.rows))
        self._sum = DomainCounts(self.domains, pods, eligible.rows)
        self._limit = 0
        self._slack = constraint.max_skew - int(matches_self)
        self._min_domains = constraint.min_domains
        self._present = eligible.present
        # By domain whether it takes the pod; the last, for rows without the label, never does.
        self.admits = np.zeros(self.domains.count + 1, np.bool_)
        self._bits: RowBits | None = None
        self._recount()

    def bits(self) -> RowBits:
        """The rows whose domains take the pod, as bits; not to be changed."""
        if self._bits is None:
            self._bits = self.domains.bits(self.admits)
        return self._bits

    def sync(self, log: RowLog) -> None:
        """Takes over which pods came and went; logs domains whose answer has turned."""
        before = self._sum.sync()
        if before is None:
            self._recount()
            log.add_all()
            return
        if not before:
            return
        counts = self._sum.counts
        for domain, old in before.items():
            if self._present[domain]:
                self._move(old, int(counts[domain]))
        limit = self._limit_now()
        if limit != self._limit:
            self._limit = limit
            self._turn_all(log)
            return
        for domain in before:
            admits = bool(counts[domain] <= limit)
            if admits != self.admits[domain]:
                self.admits[domain] = admits
                if self._bits is not None:
                    self.domains.turn(self._bits, domain)
                log.add(self.domains, domain)

    def _turn_all(self, log: RowLog) -> None:
        admits = self._sum.counts <= self._limit
        admits[-1] = False
        turned = np.flatnonzero(admits != self.admits)
        if not len(turned):
            return
        self.admits, self._bits = admits, None
        if len(turned) > _MANY:
            log.add_all()
            return
        for domain in turned.tolist():
            log.add(self.domains, domain)

    def _recount(self) -> None:
        present = self._sum.counts[self._present]
        self._domains_by_count = _occurrences(present)
        self._fewest = int(present.min()) if len(present) else _NO_DOMAIN
        self._number = len(present)
        self._limit = self._limit_now()
        self.admits, self._bits = self._sum.counts <= self._limit, None
        self.admits[-1] = False

    def _move(self, old: int, new: int) -> None:
        by_count = self._domains_by_count
        by_count[old] -= 1
        if not by_count[old]:
            del by_count[old]
        by_count[new] += 1
        self._fewest = min(self._fewest, new)
        if self._fewest not in by_count:
            self._fewest = min(by_count)

    def _limit_now(self) -> int:
        fewest = 0 if self._number < self._min_domains else self._fewest
        return self._slack + fewest


class HardConstraints:
    """The DoNotSchedule constraints of one shape, with their counts.

    Attributes:
        parts: by constraint.
        log: which rows' answers have changed.
    """

    def __init__(self, parts: Sequence[HardConstraintCounts]) -> None:
        self.parts = parts
        self.log = RowLog()
        self._synced = -1

    def sync(self, changes: int) -> None:
        """Takes over which pods came and went, unless it has at this number of changes."""
        if changes == self._synced:
            return
        self._synced = changes
        for part in self.parts:
            part.sync(self.log)

    def passes(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether all constraints let the pod in."""
        found: NDArray[np.bool_] | None = None
        for part in self.parts:
            ids = part.domains.ids[rows]
            admits = ids >= 0 if part.admits[:-1].all() else part.admits[ids]
            found = admits if found is None else found & admits
        assert found is not None
        return found

    def bits(self) -> RowBits:
        """The same of all rows, as bits."""
        first, *others = self.parts
        found = first.bits()
        for part in others:
            found = found & part.bits()
        return found

    def misses_label(self, row: int) -> bool:
        """Whether the first constraint that refuses a row does so for want of its label."""
        for part in self.parts:
            domain = int(part.domains.ids[row])
            if not part.admits[domain]:
                return domain < 0
        return False


def _occurrences(counts: NDArray[np.int64]) -> Counter[int]:
    """How often each number is there."""
    if len(counts) <= _MANY:
        return Counter(counts.tolist())
    numbers, often = np.unique(counts, return_counts=True)
    return Counter(dict(zip(numbers.tolist(), often.tolist(), strict=True)))
