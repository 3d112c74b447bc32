# SPDX-License-Identifier: Apache-2.0
"""What the Filter and Score plugins say of every node, kept by pod shape and brought up to date.

The first pod of a shape asks every plugin about every node. After it, only rows that changed in an
aspect a plugin depends on are asked about again: mostly the one row that the last pod went to. So a
decision costs little more than the choice of the best row, however dear a plugin's answer is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework.plugin import Normalization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.rejection import Rejection

# The bit of rows that have no node; no profile has so many filters.
_CLOSED = np.uint64(1 << 63)
_SKIPPED = object()


class Verdict:
    """The answers for one shape.

    Attributes:
        rejected: by row, the filters that refuse it, a bit each in the profile's order.
        feasible: ``rejected == 0``; rows with ``unknown`` filters count as feasible until asked.
        raw: by score plugin, raw scores by row; None where it does not apply.
    """

    __slots__ = (
        "feasible", "filter_stamps", "layout", "raw", "rejected", "score_stamps", "unasked",
        "unscored", "version",
    )  # fmt: skip

    def __init__(self, table: NodeTable, filters: int, scores: int) -> None:
        rows = len(table.open)
        self.layout = table.layout
        self.version = -1
        self.rejected = np.zeros(rows, np.uint64)
        self.feasible = np.zeros(rows, np.bool_)
        self.filter_stamps: list[Any] = [_SKIPPED] * filters
        self.unasked: dict[int, NDArray[np.bool_]] = {}
        self.raw: list[NDArray[np.int64] | None] = [None] * scores
        self.score_stamps: list[Any] = [_SKIPPED] * scores
        self.unscored: dict[int, NDArray[np.bool_]] = {}


class Evaluator:
    """Keeps verdicts by shape.

    Args:
        table: the nodes.
        filters: the profile's Filter and PerNodeFilter plugins in order, at most 63.
        scores: the profile's Score and PerNodeScore plugins, with their weights.
        limit: how many shapes are kept; the one longest unused goes first.
    """

    def __init__(
        self,
        table: NodeTable,
        filters: Sequence[Any],
        scores: Sequence[tuple[Any, int]],
        limit: int = 512,
    ) -> None:
        self.table = table
        self.filters = list(filters)
        self.scores = list(scores)
        self._columnar = [i for i, f in enumerate(filters) if hasattr(f, "filter")]
        self._per_node = [i for i, f in enumerate(filters) if not hasattr(f, "filter")]
        self._kept: dict[int, Verdict] = {}
        self._limit = limit

    def verdict(self, cycle: Cycle) -> Verdict:
        """The verdict on the cycle's shape, up to date but for per-node answers."""
        table, key = self.table, cycle.shape.id
        verdict = self._kept.pop(key, None)
        if verdict is None or verdict.layout != table.layout:
            verdict = Verdict(table, len(self.filters), len(self.scores))
            if len(self._kept) >= self._limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = verdict
        changes = table.changes(verdict.version) if verdict.version >= 0 else None
        stale = _Stale(table, changes)
        self._filter(cycle, verdict, stale)
        self._score(cycle, verdict, stale)
        verdict.version = table.version
        return verdict

    def _filter(self, cycle: Cycle, verdict: Verdict, stale: _Stale) -> None:
        dirty = self._mark_closed(verdict, stale)
        for number in self._columnar:
            plugin = self.filters[number]
            rows = self._due(cycle, plugin, verdict.filter_stamps, number, stale)
            if rows is None:
                continue
            bit = np.uint64(1 << number)
            if verdict.filter_stamps[number] is _SKIPPED:
                verdict.rejected &= ~bit
            else:
                passes = plugin.filter(cycle, rows)
                kept = verdict.rejected[rows] & ~bit
                verdict.rejected[rows] = np.where(passes, kept, kept | bit)
            dirty = True
        for number in self._per_node:
            rows = self._due(cycle, self.filters[number], verdict.filter_stamps, number, stale)
            if rows is None:
                continue
            unasked = verdict.unasked.setdefault(number, np.zeros(len(verdict.rejected), np.bool_))
            bit = np.uint64(1 << number)
            if verdict.filter_stamps[number] is _SKIPPED:
                unasked[:] = False
                verdict.rejected &= ~bit
            else:
                unasked[rows] = True
                verdict.rejected[rows] &= ~bit
            dirty = True
        if dirty:
            np.equal(verdict.rejected, 0, out=verdict.feasible)
            self._ask(cycle, verdict)

    def _ask(self, cycle: Cycle, verdict: Verdict) -> None:
        """Puts per-node filters' questions about rows that all others let pass."""
        for number in self._per_node:
            unasked = verdict.unasked.get(number)
            if unasked is None:
                continue
            plugin, bit = self.filters[number], np.uint64(1 << number)
            for row in np.flatnonzero(unasked & verdict.feasible).tolist():
                unasked[row] = False
                if plugin.filter_node(cycle, row) is not None:
                    verdict.rejected[row] |= bit
                    verdict.feasible[row] = False

    def _mark_closed(self, verdict: Verdict, stale: _Stale) -> bool:
        table = self.table
        if stale.all:
            verdict.rejected[:] = _CLOSED
            verdict.rejected[table.rows] = 0
            return True
        rows = stale.rows(1)  # Aspect.NODE
        if rows is None:
            return False
        verdict.rejected[rows] &= ~_CLOSED
        verdict.rejected[rows[~table.open[rows]]] |= _CLOSED
        return True

    def _due(
        self, cycle: Cycle, plugin: Any, stamps: list[Any], number: int, stale: _Stale
    ) -> NDArray[np.intp] | slice | None:
        """The rows to ask a plugin about; None for none. Leaves the new stamp behind."""
        before = stamps[number]
        now = plugin.stamp(cycle) if plugin.applies(cycle) else _SKIPPED
        stamps[number] = now
        if now is _SKIPPED:
            return None if before is _SKIPPED and not stale.all else self.table.rows
        if stale.all or now is None or before is None or now != before:
            return self.table.rows
        return stale.rows(plugin.depends)

    def _score(self, cycle: Cycle, verdict: Verdict, stale: _Stale) -> None:
        for number, (plugin, _) in enumerate(self.scores):
            rows = self._due(cycle, plugin, verdict.score_stamps, number, stale)
            if rows is None:
                continue
            if verdict.score_stamps[number] is _SKIPPED:
                verdict.raw[number] = None
                continue
            raw = verdict.raw[number]
            if raw is None:
                raw = verdict.raw[number] = np.zeros(len(verdict.rejected), np.int64)
            if hasattr(plugin, "score"):
                raw[rows] = plugin.score(cycle, rows)
            else:
                unscored = verdict.unscored.setdefault(number, np.zeros(len(raw), np.bool_))
                unscored[rows] = True
        for number, unscored in verdict.unscored.items():
            raw = verdict.raw[number]
            if raw is None:
                continue
            plugin = self.scores[number][0]
            for row in np.flatnonzero(unscored & verdict.feasible).tolist():
                unscored[row] = False
                raw[row] = plugin.score_node(cycle, row)

    def check(self, cycle: Cycle, row: int) -> Rejection | None:
        """Asks all filters about one row, nothing kept: for what-ifs and nominated nodes.

        Returns:
            The first refusal in the profile's order.
        """
        rows = np.array([row], np.intp)
        for plugin in self.filters:
            if not plugin.applies(cycle):
                continue
            if hasattr(plugin, "filter"):
                if not plugin.filter(cycle, rows)[0]:
                    found: Rejection = plugin.diagnose(cycle, rows)[0]
                    return found
            else:
                refused: Rejection | None = plugin.filter_node(cycle, row)
                if refused is not None:
                    return refused
        return None

    def refusals(self, cycle: Cycle, verdict: Verdict) -> dict[int, Rejection]:
        """By refused row of an open node, the first refusal in the profile's order."""
        table = self.table
        rejected = np.where(table.open[: table.size], verdict.rejected[: table.size], 0)
        found: dict[int, Rejection] = {}
        left = rejected != 0
        for number, plugin in enumerate(self.filters):
            rows = np.flatnonzero(left & ((rejected >> np.uint64(number)) & np.uint64(1) == 1))
            if not len(rows):
                continue
            left[rows] = False
            if hasattr(plugin, "filter"):
                found.update(zip(rows.tolist(), plugin.diagnose(cycle, rows), strict=True))
            else:
                for row in rows.tolist():
                    refusal = plugin.filter_node(cycle, row)
                    if refusal is not None:
                        found[row] = refusal
        return found


class _Stale:
    """Which rows changed since a verdict, by aspect."""

    __slots__ = ("_by_mask", "_changes", "all")

    def __init__(self, table: NodeTable, changes: dict[int, int] | None) -> None:
        self.all = changes is None
        self._changes = changes or {}
        self._by_mask: dict[int, NDArray[np.intp] | None] = {}

    def rows(self, mask: int) -> NDArray[np.intp] | None:
        """The rows that changed in any of the aspects, None for none."""
        if not self._changes:
            return None
        if mask not in self._by_mask:
            rows = [row for row, aspects in self._changes.items() if aspects & mask]
            self._by_mask[mask] = np.array(rows, np.intp) if rows else None
        return self._by_mask[mask]


def normalized(kind: Normalization, raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Raw scores of feasible rows as 0..100; see :class:`Normalization`."""
    if kind is Normalization.NONE:
        return raw
    most = int(raw.max(initial=0))
    if kind is Normalization.MIN_MAX:
        least = int(raw.min())
        most = int(raw.max())
        return (raw - least) * 100 // (most - least) if most > least else np.zeros_like(raw)
    if most == 0:
        return np.full_like(raw, 100 if kind is Normalization.REVERSED else 0)
    scaled = raw * 100 // most
    return 100 - scaled if kind is Normalization.REVERSED else scaled
