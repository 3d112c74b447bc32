# SPDX-License-Identifier: Apache-2.0
"""The entries of pods that came lately, under keys of which equal ones have the same answers.

A key gets an entry of its own with its second pod. Where no two pods are alike an entry is used
once. All such pods share one, whose columns are still in the processor's cache from the pod before,
and memory is asked for only where answers will be used again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle

    RulesOf = Callable[[PodShape], Sequence[tuple[int, int]]]

# What all entries may have together; and what one has a row: 16 bytes of the board, and 8 to 12 for
# each score that applies, of which pods of the shipped profile have up to four.
_BYTES, _ROW_BYTES = 128 << 20, 64
# A generator of full period (Numerical Recipes' constants, with 1 for what is added).
_FACTOR, _MODULUS = 1_664_525, 1 << 32
# Of so many keys it is remembered that they came once.
_SEEN = 1 << 14


class KeptEntries:
    """By key.

    Args:
        limit: how many keys have one of their own. Fewer are kept on a table of many rows. Which
            one goes for a new one is drawn among the half that is longest unused: were it the
            first of these, then of one key more than are kept, that come in turn, none would ever
            be found.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_key: dict[int, FeasibilityEntry] = {}
        self._draw = 0
        self._seen: set[int] = set()
        # The entry of the last key that came for the first time, and that attempt.
        self._first: FeasibilityEntry | None = None
        self._first_key = 0
        self._first_cycle: Cycle | None = None

    def get(self, key: int) -> FeasibilityEntry | None:
        """The entry of a key as it was left; None if there is none."""
        if self._first_cycle is not None and self._first_key == key:
            return self._first
        return self._by_key.get(key)

    def entry(
        self, cycle: Cycle, key: int, table: NodeTable, filters: int, rules_of: RulesOf
    ) -> FeasibilityEntry:
        """The entry of an attempt as it was left, or an empty one.

        Args:
            cycle: the attempt.
            key: its key.
            table: the nodes.
            filters: how many there are.
            rules_of: by score plugin, its weight and how it is normalised for pods of a shape;
                asked for an empty one alone.
        """
        entry = self._by_key.pop(key, None)
        if entry is not None and entry.layout == table.layout:
            self._by_key[key] = entry
            return entry
        if entry is None:
            if key not in self._seen:
                self._seen_first(key)
                return self._begin(cycle, table, filters, rules_of(cycle.shape))
            if self._first_cycle is not None and self._first_key == key:
                entry, self._first, self._first_cycle = self._first, None, None
        if entry is None or entry.layout != table.layout:
            entry = FeasibilityEntry(table, filters, rules_of(cycle.shape))
        self._put(key, entry, self._most(table))
        return entry

    def keeps(self, key: int, table: NodeTable) -> bool:
        """Whether a key has an entry, or gets one for which no other goes."""
        if key in self._by_key:
            return True
        return key in self._seen and len(self._by_key) < self._most(table)

    def remember(self, key: int) -> None:
        """Takes note of a pod that was decided without an entry."""
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(key)

    def _most(self, table: NodeTable) -> int:
        of_one = _ROW_BYTES * max(1, len(table.open))
        return min(self._limit, max(16, _BYTES // of_one))

    def _put(self, key: int, entry: FeasibilityEntry, limit: int) -> None:
        while len(self._by_key) >= limit:
            # Numbers of a fixed sequence: the same histories keep the same.
            self._draw = (self._draw * _FACTOR + 1) % _MODULUS
            place = self._draw * ((len(self._by_key) + 1) // 2) // _MODULUS
            del self._by_key[next(islice(self._by_key, place, None))]
        self._by_key[key] = entry

    def _seen_first(self, key: int) -> None:
        self.remember(key)
        self._first_key = key

    def _begin(
        self, cycle: Cycle, table: NodeTable, filters: int, rules: Sequence[tuple[int, int]]
    ) -> FeasibilityEntry:
        """The entry that first pods share, emptied."""
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
