# SPDX-License-Identifier: Apache-2.0
"""Pods on nodes that the terms of one shape match, or whose terms match it, by topology domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.plugins.kubernetes.domain_counts import (
    DomainCounts,
    RowLog,
    TopologyDomains,
)
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.existing_terms import TermRole
from koord.kernels.placement_board import row_bits

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.existing_terms import (
        ExistingTerm,
    )
    from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts
    from koord.kernels.placement_board import RowBits

    Rows = NDArray[np.intp] | slice
    WeightedPods = Sequence[tuple[RowCounts, int]]


_NOWHERE: NDArray[np.bool_] = np.zeros(1, np.bool_)


class DomainPresence:
    """Whether there are any pods, by domain.

    Nothing is laid out by domain while there are none: terms that match nobody yet are many.

    Attributes:
        number: in how many domains there are.
    """

    def __init__(self, table: NodeTable, key: str) -> None:
        self.domains = TopologyDomains(table.labels.column(key), len(table.open))
        self.number = 0
        self._pods: list[tuple[RowCounts, int]] = []
        self._sum: DomainCounts | None = None
        # Bool by domain; the last, for rows without a domain, is False.
        self._some = _NOWHERE
        self._bits: RowBits | None = None

    def add(self, pods: WeightedPods) -> None:
        """Counts other pods too."""
        self._pods += pods
        if self._sum is not None:
            for row_counts, weight in pods:
                self._sum.add(row_counts, weight)
            self._read()
        else:
            self._begin()

    def sync(self, log: RowLog) -> None:
        """Takes over which pods came and went; logs domains that emptied or ceased to be empty."""
        if self._sum is None:
            self._begin()
            if self.number:
                log.add_all()
            return
        before = self._sum.sync()
        if before is None:
            self._read()
            log.add_all()
            return
        for domain in before:
            now = bool(self._sum.counts[domain] > 0)
            if now != self._some[domain]:
                self._some[domain] = now
                if self._bits is not None:
                    self.domains.turn(self._bits, domain)
                self.number += 1 if now else -1
                log.add(self.domains, domain)

    def at(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether there are any in its domain."""
        ids = self.domains.ids[rows]
        present: NDArray[np.bool_]
        present = self._some[ids] if self._sum is not None else np.zeros(len(ids), np.bool_)
        return present

    def bits(self) -> RowBits:
        """The same of all rows, as bits, where there are any at all; not to be changed."""
        if self._bits is None:
            self._bits = self.domains.bits(self._some)
        return self._bits

    def _begin(self) -> None:
        if any(row_counts.by_row for row_counts, _ in self._pods):
            self._sum = DomainCounts(self.domains, self._pods)
            self._read()

    def _read(self) -> None:
        assert self._sum is not None
        self._some, self._bits = self._sum.counts > 0, None
        self.number = int(np.count_nonzero(self._some))


class TermCounts:
    """The counts of one shape, kept while no node's labels change.

    Args:
        table: the nodes.
        serial: of this state among all.
        key: what it depends on.
        alone_ok: the pod matches all its own required terms: it may be the first.

    Attributes:
        affinity: by topology key, pods that all required affinity terms match.
        anti_affinity: by topology key, pods that a required anti-affinity term matches.
        existing_anti_affinity: by topology key, pods whose required anti-affinity matches this one.
        scores: by topology key, weighted pods.
        filter_log, score_log: which rows' answers have changed.
        seen: how many of the listed existing terms have been looked at.
        acquired: keys of row counts to give back.
    """

    def __init__(
        self, table: NodeTable, serial: int, key: tuple[Hashable, ...], alone_ok: bool
    ) -> None:
        self._table = table
        self.serial = serial
        self.key = key
        self._alone_ok = alone_ok
        self.affinity: dict[str, DomainPresence] = {}
        self.anti_affinity: dict[str, DomainPresence] = {}
        self.existing_anti_affinity: dict[str, DomainPresence] = {}
        self.scores: dict[str, DomainCounts] = {}
        self.filter_log = RowLog()
        self.score_log = RowLog()
        self.seen = 0
        self.acquired: list[Hashable] = []
        self._synced = -1

    @property
    def filters(self) -> bool:
        """Whether any node may be refused as pods are now."""
        if self.affinity:
            return True
        for presences in (self.anti_affinity, self.existing_anti_affinity):
            for presence in presences.values():
                if presence.number:
                    return True
        return False

    def watch(self, presences: dict[str, DomainPresence], key: str, pods: WeightedPods) -> None:
        """Adds pods to one of the three tables of presences."""
        presence = presences.get(key)
        if presence is None:
            presence = presences[key] = DomainPresence(self._table, key)
        presence.add(pods)

    def add_weighted(self, key: str, pods: WeightedPods, weight: int) -> None:
        """Adds pods to the scores."""
        if key not in self.scores:
            domains = TopologyDomains(self._table.labels.column(key), len(self._table.open))
            self.scores[key] = DomainCounts(domains, ())
        for row_counts, sign in pods:
            self.scores[key].add(row_counts, sign * weight)

    def add_existing_terms(self, existing_terms: Iterable[ExistingTerm]) -> None:
        """Takes in terms of pods on nodes that match the shape."""
        for existing_term in existing_terms:
            pods = ((existing_term.row_counts, 1),)
            if existing_term.role is TermRole.REQUIRED_ANTI_AFFINITY:
                self.watch(self.existing_anti_affinity, existing_term.term.key, pods)
                self.filter_log.add_all()
            else:
                self.add_weighted(existing_term.term.key, pods, existing_term.weight)
                self.score_log.add_all()

    def sync(self, changes: int) -> None:
        """Takes over which pods came and went, unless it has at this number of changes."""
        if changes == self._synced:
            return
        self._synced = changes
        alone = self._is_alone()
        for presences in (self.affinity, self.anti_affinity, self.existing_anti_affinity):
            for presence in presences.values():
                presence.sync(self.filter_log)
        if self._is_alone() != alone:
            self.filter_log.add_all()
        for counts in self.scores.values():
            before = counts.sync()
            if before is None:
                self.score_log.add_all()
            else:
                for domain in before:
                    self.score_log.add(counts.domains, domain)

    def meets_affinity(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether required affinity lets the pod in.

        The first of pods that want to be near each other may go to any node that has the labels.
        """
        passes = np.ones(self._table.size, np.bool_)[rows]
        first = self._alone_ok and self._is_alone()
        for presence in self.affinity.values():
            passes &= presence.domains.ids[rows] >= 0 if first else presence.at(rows)
        return passes

    def passes(self, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether the pod may go there."""
        passes = self.meets_affinity(rows)
        for presences in (self.anti_affinity, self.existing_anti_affinity):
            for presence in presences.values():
                if presence.number:
                    passes &= ~presence.at(rows)
        return passes

    def bits(self) -> RowBits | bool:
        """The same of all rows, as bits; True where the pod may go anywhere."""
        taken: RowBits | None = None
        for presences in (self.anti_affinity, self.existing_anti_affinity):
            for presence in presences.values():
                if presence.number:
                    its = presence.bits()
                    taken = its if taken is None else taken | its
        if not self.affinity:
            return True if taken is None else ~taken
        meets = row_bits(self.meets_affinity(slice(0, self._table.size)))
        return meets if taken is None else meets & ~taken[: len(meets)]

    def raw(self, rows: Rows) -> NDArray[np.int64]:
        """By row, the weights of pods in its domains."""
        total = np.zeros(self._table.size, np.int64)[rows]
        for domain_counts in self.scores.values():
            total += domain_counts.counts[domain_counts.domains.ids[rows]]
        return total

    def _is_alone(self) -> bool:
        return not any(presence.number for presence in self.affinity.values())
