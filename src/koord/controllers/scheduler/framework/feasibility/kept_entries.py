# SPDX-License-Identifier: Apache-2.0
"""The entries of pods that came lately, under keys of which equal ones have the same answers.

A key gets an entry of its own with its second pod, or where a search does without, once searches
have cost as much. Where no two pods are alike an entry is used once. All such pods share one, whose
columns are still in the processor's cache from the pod before, and memory is asked for only where
answers will be used again.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle

    RulesOf = Callable[[PodShape], Sequence[tuple[int, int]]]

# What the boards of all entries may have together. A row takes 8 bytes, and 8 to 12 for each score
# that applies, of which pods of the shipped profile have up to four.
_BYTES = 128 << 20
# So many stay, however large they are.
_LEAST = 16
# Where nodes are known by classes of equal ones a pod is judged anew by one look a class: that
# costs less than to bring up to date the board of a kind after pods of many others, but not of few.
_BESIDE_CLASSES = 64
# To rate all rows by their load takes that part of what an entry costs: 12 us on 5,000 rows.
_LOAD_OF = 10
# A generator of full period (Numerical Recipes' constants, with 1 for what is added).
_FACTOR, _MODULUS = 1_664_525, 1 << 32
# Where as many are kept as may be, one of so many pods of other kinds takes another one's place.
_EVERY = 16
# Of so many keys it is remembered that they came once.
_SEEN = 1 << 14


class SearchCost(NamedTuple):
    """What the search for one pod costs that an entry would have spared.

    Attributes:
        rows: as many rows of an entry are brought up to date in that time.
        most_behind: after how many changes of the table an entry is of no use any more.
        of_entry: what a new entry costs, in rows.
    """

    rows: int
    most_behind: float
    of_entry: int

    def rating_load(self) -> SearchCost:
        """The cost where all rows are rated by their load."""
        rows = self.rows + self.of_entry // _LOAD_OF
        return SearchCost(rows, rows, self.of_entry)

    def asking(self, *, stays: bool, by_node: bool = False) -> SearchCost:
        """The cost where plugins without kernels are asked about all rows too, which is dear.

        Args:
            stays: what they say of a row stays until the row changes, so that an entry is of use
                however far behind.
            by_node: it stays until the node itself changes, so that an entry spares the question,
                but what pods have changed costs what it costs kernels.
        """
        rows = self.rows + self.of_entry // 2
        most = self.most_behind if not stays else rows if by_node else math.inf
        return SearchCost(rows, most, self.of_entry)


class KeptEntries:
    """By key.

    Args:
        limit: how many keys have one of their own. Fewer are kept where their boards have more
            than ``size``. Which one goes for a new one is drawn among the half that is longest
            unused: were it the first of these, then of one key more than are kept, that come in
            turn, none would ever be found.
        size: in bytes.

    Attributes:
        size: how many bytes the boards have. An entry is measured when the next one comes: it is
            empty at first.
    """

    def __init__(self, limit: int, size: int = _BYTES) -> None:
        self._limit, self._most = limit, size
        self.size = 0
        # By key, what has been counted of its board; of the latest one nothing.
        self._sizes: dict[int, int] = {}
        self._by_key: dict[int, FeasibilityEntry] = {}
        self._draw = self._waiting = 0
        self._seen: set[int] = set()
        # Of keys that came more than once without an entry, the table's version when they did last,
        # and what searches have cost.
        self._searches: dict[int, tuple[int, int]] = {}
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
        if entry is not None:
            if entry.layout == table.layout:
                self._by_key[key] = entry
                return entry
            self.size -= self._sizes.pop(key)
        else:
            if key not in self._seen:
                self._seen_first(key)
                return self._begin(cycle, table, filters, rules_of(cycle.shape))
            if self._first_cycle is not None and self._first_key == key:
                entry, self._first, self._first_cycle = self._first, None, None
        if entry is None or entry.layout != table.layout:
            entry = FeasibilityEntry(table, filters, rules_of(cycle.shape))
        self._put(key, entry)
        return entry

    def behind(self, key: int, version: int) -> float:
        """How many changes of the table an entry has not taken over; infinite for none.

        Args:
            key: its key.
            version: the table's.
        """
        entry = self._by_key.get(key)
        return math.inf if entry is None else version - entry.version

    def keeps(self, key: int, version: int, search: SearchCost) -> bool:
        """Whether a key has an entry that is of use, or gets one now.

        It does once searches for its pods, those that an entry would have spared, have cost as much
        as an entry, while there is room. Where one had to go for it, the pods of all such keys get
        one every sixteenth time, and whose pods are many comes to one soon.

        Args:
            key: the key.
            version: the table's.
            search: what it costs to do without.
        """
        if key in self._by_key:
            return self.behind(key, version) <= search.most_behind
        known = self._searches.get(key)
        if known is None or known[1] < search.of_entry or version - known[0] > search.most_behind:
            return False
        if not self._is_full():
            return True
        self._waiting = (self._waiting + 1) % _EVERY
        return self._waiting == 0

    def keeps_beside_classes(self, key: int) -> bool:
        """Whether a key has an entry, or gets one of the few that are kept beside classes."""
        few = len(self._by_key) < _BESIDE_CLASSES and not self._is_full()
        return key in self._by_key or (key in self._seen and few)

    def remember(self, key: int, version: int, search: SearchCost) -> None:
        """Takes note of a pod that was decided without an entry, at a version of the table."""
        known = self._searches.get(key)
        if known is not None:
            at, spent = known
            spared = version - at <= search.most_behind
            self._searches[key] = version, search.rows + spent * spared
        elif key in self._seen:
            self._searches[key] = version, 2 * search.rows
        else:
            self._note(key)

    def _note(self, key: int) -> None:
        if len(self._seen) >= _SEEN:
            self._seen.clear()
            self._searches.clear()
        self._seen.add(key)

    def _put(self, key: int, entry: FeasibilityEntry) -> None:
        latest = next(reversed(self._sizes), None)
        if latest is not None:
            self.size += self._by_key[latest].board.bytes - self._sizes[latest]
            self._sizes[latest] = self._by_key[latest].board.bytes
        while self._is_full():
            # Numbers of a fixed sequence: the same histories keep the same.
            self._draw = (self._draw * _FACTOR + 1) % _MODULUS
            place = self._draw * ((len(self._by_key) + 1) // 2) // _MODULUS
            gone = next(islice(self._by_key, place, None))
            del self._by_key[gone]
            self.size -= self._sizes.pop(gone)
        self._by_key[key], self._sizes[key] = entry, 0

    def _is_full(self) -> bool:
        """Whether one has to go before another one comes, which may have what these have."""
        kept = len(self._by_key)
        if kept >= self._limit:
            return True
        return kept >= _LEAST and self.size + self.size // kept > self._most

    def _seen_first(self, key: int) -> None:
        self._note(key)
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
