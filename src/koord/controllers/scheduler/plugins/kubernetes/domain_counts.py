# SPDX-License-Identifier: Apache-2.0
"""Tallies added up by topology domain: by the values of one node label, or by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.kernels.placement_board import row_bits

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_labels import LabelColumn
    from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts
    from koord.kernels.placement_board import RowBits


# Row counts on more rows than this are added up once for all who count by the same domains, of
# which so many ways are kept.
_MANY_ROWS, _SUMS = 64, 4
# The rows of so many domains are joined one after the other.
_FEW_DOMAINS = 16
# By place in a word, its bit.
_BITS = [np.uint64(1 << place) for place in range(64)]


class TopologyDomains:
    """Which domain each row is in.

    Attributes:
        ids: by row of the table, all its capacity; -1 for none.
        count: domains are numbered below it.
    """

    __slots__ = ("_column", "count", "ids")

    def __init__(self, column: LabelColumn | None, capacity: int) -> None:
        self._column = column
        if column is None:
            self.ids: NDArray[np.int32] = np.arange(capacity, dtype=np.int32)
            self.count = capacity
        else:
            self.ids = column.ids
            self.count = len(column.values)

    @property
    def key(self) -> Hashable:
        """Equal for domains that are made of the same rows as long as both exist."""
        column = self._column
        return self.count if column is None else (id(column), column.changes)

    def bits(self, admits: NDArray[np.bool_]) -> RowBits:
        """The rows of domains that are admitted, as bits; those of closed rows mean nothing.

        Args:
            admits: by domain; the last, for rows without one, is False.
        """
        column = self._column
        if column is not None:
            if admits[:-1].all():
                return ~column.bits(-1)
            if self.count <= _FEW_DOMAINS:
                joined = np.zeros((len(self.ids) + 63) // 64, np.uint64)
                for domain in np.flatnonzero(admits).tolist():
                    joined |= column.bits(domain)
                return joined
        return row_bits(admits[self.ids])

    def turn(self, bits: RowBits, domain: int) -> None:
        """Turns over the bits of a domain's rows."""
        column = self._column
        row = domain if column is None else column.only_row(domain)
        if row >= 0:
            bits[row >> 6] ^= _BITS[row & 63]
        elif column is not None and self.count <= _FEW_DOMAINS:
            bits ^= column.bits(domain)
        else:
            rows = self.rows(domain)
            np.bitwise_xor.at(bits, rows >> 6, np.uint64(1) << (rows & 63).astype(np.uint64))

    def rows(self, domain: int) -> NDArray[np.intp]:
        """The rows of a domain."""
        if self._column is None:
            return np.array([domain], np.intp)
        return self._column.rows(domain)


class DomainCounts:
    """Weighted row counts summed by domain, brought up to date when asked to.

    Valid until the labels of some node change.

    Args:
        domains: the domains.
        sources: row counts with weights.
        eligible: bool by row: count these rows only; None for all.

    Attributes:
        counts: int64 by domain, and one 0 more for rows without a domain: ``counts[ids]``.
    """

    __slots__ = ("_eligible", "_seen", "_sources", "counts", "domains")

    def __init__(
        self,
        domains: TopologyDomains,
        sources: Sequence[tuple[RowCounts, int]],
        eligible: NDArray[np.bool_] | None = None,
    ) -> None:
        self.domains = domains
        self._eligible = eligible
        self._sources: list[tuple[RowCounts, int]] = []
        self._seen: list[int] = []
        self.counts = np.zeros(domains.count + 1, np.int64)
        for row_counts, weight in sources:
            self.add(row_counts, weight)

    def add(self, row_counts: RowCounts, weight: int) -> None:
        """Adds other pods."""
        self._sources.append((row_counts, weight))
        self._seen.append(row_counts.version)
        if len(row_counts.by_row) > _MANY_ROWS:
            self.counts += weight * _sum_of(row_counts, self.domains, self._eligible)
        else:
            self._count_all(row_counts, weight)

    def sync(self) -> dict[int, int] | None:
        """Takes over what happened.

        Returns:
            What domains had before that have changed; None if it was too much to follow, and all
            was counted anew.
        """
        before: dict[int, int] = {}
        for place, (row_counts, weight) in enumerate(self._sources):
            if row_counts.version == self._seen[place]:
                continue
            changes = row_counts.since(self._seen[place])
            self._seen[place] = row_counts.version
            if changes is None:
                self._recount()
                return None
            for row, change in changes:
                self._move(row, change * weight, before)
        return before

    def _move(self, row: int, change: int, before: dict[int, int]) -> None:
        if self._eligible is not None and not self._eligible[row]:
            return
        domain = int(self.domains.ids[row])
        if domain < 0:
            return
        count = int(self.counts[domain])
        before.setdefault(domain, count)
        self.counts[domain] = count + change

    def _recount(self) -> None:
        self.counts[:] = 0
        for place, (row_counts, weight) in enumerate(self._sources):
            self._seen[place] = row_counts.version
            self._count_all(row_counts, weight)

    def _count_all(self, row_counts: RowCounts, weight: int) -> None:
        if not row_counts.by_row:
            return
        rows = np.fromiter(row_counts.by_row.keys(), np.intp, len(row_counts.by_row))
        counts = np.fromiter(row_counts.by_row.values(), np.int64, len(row_counts.by_row)) * weight
        if self._eligible is not None:
            kept = self._eligible[rows]
            rows, counts = rows[kept], counts[kept]
        np.add.at(self.counts, self.domains.ids[rows], counts)
        self.counts[-1] = 0


def _sum_of(
    row_counts: RowCounts, domains: TopologyDomains, eligible: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Row counts by domain, as :attr:`DomainCounts.counts`; not to be changed."""
    sums = row_counts.sums
    key = (domains.key, None if eligible is None else id(eligible))
    found: DomainCounts | None = sums.get(key)
    if found is None:
        if len(sums) >= _SUMS:
            del sums[next(iter(sums))]
        # It holds on to the column and the rows, so that no others get their identity.
        found = sums[key] = DomainCounts(domains, (), eligible)
        found._sources.append((row_counts, 1))
        found._seen.append(row_counts.version)
        found._recount()
    else:
        found.sync()
    return found.counts


class RowLog:
    """Which rows' answers changed, by generation.

    Entries are the domains that changed; None stands for all rows.
    """

    __slots__ = ("_entries", "_start")

    _LIMIT = 1 << 12

    def __init__(self) -> None:
        self._entries: list[tuple[TopologyDomains, int] | None] = []
        self._start = 0

    @property
    def generation(self) -> int:
        """How many entries there were."""
        return self._start + len(self._entries)

    def add(self, domains: TopologyDomains, domain: int) -> None:
        """A domain changed."""
        self._entries.append((domains, domain))
        if len(self._entries) > self._LIMIT:
            del self._entries[: self._LIMIT // 2]
            self._start += self._LIMIT // 2

    def add_all(self) -> None:
        """Everything changed."""
        self._start += len(self._entries) + 1
        self._entries.clear()

    def rows(self, since: int) -> NDArray[np.intp] | None:
        """The rows of what changed after a generation; None for all."""
        start = since - self._start
        if start < 0:
            return None
        entries = {(id(e[0]), e[1]): e for e in self._entries[start:] if e is not None}
        if not entries:
            return np.zeros(0, np.intp)
        rows = [domains.rows(domain) for domains, domain in entries.values()]
        return rows[0] if len(rows) == 1 else np.concatenate(rows)
