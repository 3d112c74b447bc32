# SPDX-License-Identifier: Apache-2.0
"""The entries of shapes that came lately; a shape gets one of its own with its second pod.

Where no two pods are alike an entry is used once. All such pods share one, whose columns are still
in the processor's cache from the pod before, and memory is asked for only where answers will be
used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle

    RulesOf = Callable[[PodShape], Sequence[tuple[int, int]]]

_ROWS = 2_000_000
"""How many rows all entries have together, at some 60 bytes a row."""
# Of so many shapes it is remembered that they came once.
_SEEN = 1 << 14


class KeptEntries:
    """By shape.

    Args:
        limit: how many shapes have one of their own; the one longest unused goes first. Fewer are
            kept on a table of many rows.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_shape: dict[int, FeasibilityEntry] = {}
        self._seen: set[int] = set()
        # The entry of the last shape that came for the first time, and that attempt.
        self._first: FeasibilityEntry | None = None
        self._first_cycle: Cycle | None = None

    def get(self, shape: int) -> FeasibilityEntry | None:
        """The entry of a shape as it was left, by the shape's id; None if there is none."""
        if self._first_cycle is not None and self._first_cycle.shape.id == shape:
            return self._first
        return self._by_shape.get(shape)

    def entry(
        self, cycle: Cycle, table: NodeTable, filters: int, rules_of: RulesOf
    ) -> FeasibilityEntry:
        """The entry of an attempt's shape as it was left, or an empty one.

        Args:
            cycle: the attempt.
            table: the nodes.
            filters: how many there are.
            rules_of: by score plugin, its weight and how it is normalised for pods of a shape;
                asked for an empty one alone.
        """
        shape = cycle.shape.id
        entry = self._by_shape.pop(shape, None)
        if entry is not None and entry.layout == table.layout:
            self._by_shape[shape] = entry
            return entry
        if entry is None:
            if shape not in self._seen:
                return self._begin(cycle, table, filters, rules_of(cycle.shape))
            if self._first_cycle is not None and self._first_cycle.shape.id == shape:
                entry, self._first, self._first_cycle = self._first, None, None
        if entry is None or entry.layout != table.layout:
            entry = FeasibilityEntry(table, filters, rules_of(cycle.shape))
        limit = min(self._limit, max(16, _ROWS // max(1, len(table.open))))
        while len(self._by_shape) >= limit:
            del self._by_shape[next(iter(self._by_shape))]
        self._by_shape[shape] = entry
        return entry

    def _begin(
        self, cycle: Cycle, table: NodeTable, filters: int, rules: Sequence[tuple[int, int]]
    ) -> FeasibilityEntry:
        """The entry that first pods share, emptied."""
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(cycle.shape.id)
        if self._first_cycle is not None:
            # Whoever still has that attempt must not read what is said of another pod.
            self._first_cycle.board = None
        entry = self._first
        if entry is None or entry.layout != table.layout:
            entry = self._first = FeasibilityEntry(table, filters, rules)
        else:
            entry.reset(table, rules)
        self._first_cycle = cycle
        return entry
