# SPDX-License-Identifier: Apache-2.0
"""A table of what was worked out lately, bounded by how many entries it has and by their size.

A count alone bounds nothing where tenants choose how large an entry is: a pod may have a megabyte.
And what bounds each of several tables lets them have it several times: they share a budget.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LARGE_SIZE = 32 << 10
"""From which on an entry of a :class:`TieredTable` is a large one."""

# Who gives, gives one in so many of what all may have: who has most is not asked for each entry.
_GIVEN = 256
# After so many identities of which none was found again one in so many is remembered.
_UNFOUND, _SAMPLED = 256, 16


class SizeBudget:
    """What some tables may have together: the one that has most gives, its oldest entry first.

    Args:
        most: in the unit of :meth:`BoundedTable.put`; each table may keep one entry all the same.

    Attributes:
        most: the same.
        size: what they have; the tables count it.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self._tables: list[BoundedTable[Any, Any]] = []

    def join(self, table: BoundedTable[Any, Any]) -> None:
        """One more table has its entries from this."""
        self._tables.append(table)

    def giver(self) -> BoundedTable[Any, Any] | None:
        """The table that is to give an entry; None where none has to, or can."""
        if self.size <= self.most:
            return None
        # Asked for each entry that is put once the budget is spent: a plain loop.
        most, found = -1, None
        for table in self._tables:
            if table.size > most and len(table._entries) > 1:
                most, found = table.size, table
        return found


class BoundedTable(Generic[K, V]):
    """Remembers the entries that were put last; the oldest go first.

    Args:
        entries: how many there may be.
        size: what they may have together, in the unit of :meth:`put`. One entry may have more.
    """

    def __init__(self, entries: int, size: int | SizeBudget) -> None:
        self._most = entries
        self._budget = SizeBudget(size) if isinstance(size, int) else size
        self._budget.join(self)
        # In order: to find the first key of a dict after many have gone takes a walk past them.
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value of a key, None where it is not remembered."""
        found = self._entries.get(key)
        return found[0] if found is not None else None

    def put(self, key: K, value: V, size: int) -> V | None:
        """Remembers a value as the newest one.

        Returns:
            The last of this table's values that had to go for it, None where none had to.
        """
        entries, budget = self._entries, self._budget
        before = entries.pop(key, None)
        entries[key] = value, size
        if before is not None:
            size -= before[1]
        self.size += size
        budget.size += size
        dropped: V | None = None
        if budget.size <= budget.most and len(entries) <= self._most:
            return dropped
        while len(entries) > self._most:
            dropped = self._drop()
        while (table := budget.giver()) is not None:
            gone = table._give(budget.most - budget.most // _GIVEN)
            if table is self:
                dropped = gone
        return dropped

    def _give(self, most: int) -> V:
        """Drops the oldest entries until all tables have no more, or this one has a single one."""
        dropped = self._drop()
        while self._budget.size > most and len(self._entries) > 1:
            dropped = self._drop()
        return dropped

    def _drop(self) -> V:
        _, (value, size) = self._entries.popitem(last=False)
        self.size -= size
        self._budget.size -= size
        return value


class TieredTable(Generic[K, V]):
    """Two tables in one: whoever brings large entries pushes out nobody's usual ones.

    Args:
        entries: how many of each there may be.
        usual: what those below :data:`LARGE_SIZE` have.
        large: what the others have.
    """

    def __init__(self, entries: int, usual: SizeBudget, large: SizeBudget) -> None:
        self.usual: BoundedTable[K, V] = BoundedTable(entries, usual)
        self.large: BoundedTable[K, V] = BoundedTable(entries, large)
        # Five of these are asked for each pod: without a call more.
        self._usual, self._large = self.usual._entries, self.large._entries

    def __len__(self) -> int:
        return len(self.usual) + len(self.large)

    def get(self, key: K) -> V | None:
        """The value of a key, None where it is not remembered."""
        found = self._usual.get(key)
        if found is None and self._large:
            found = self._large.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Remembers a value as the newest one of its tier; a key always has the same size."""
        (self.usual if size < LARGE_SIZE else self.large).put(key, value, size)


class IdentityTable(TieredTable[K, V]):
    """A table by the identity of objects, of use only where the same objects come again.

    Whether they do is up to who makes them. Where they don't, nothing that is put is ever found,
    and it keeps alive what nobody else needs: then only a sample is put, from which it is seen when
    that changes.
    """

    def __init__(self, entries: int, usual: SizeBudget, large: SizeBudget) -> None:
        super().__init__(entries, usual, large)
        # How many more are taken as they come, and the place in the sample after that.
        self._left, self._sample = _UNFOUND, 0

    def get(self, key: K) -> V | None:
        """The value of a key, None where it is not remembered."""
        found = self._usual.get(key)
        if found is None and self._large:
            found = self._large.get(key)
        if found is None:
            return None
        self._left = _UNFOUND
        return found[0]

    def takes_next(self) -> bool:
        """Whether the next entry is worth :meth:`put`; to be asked once for each."""
        if self._left:
            self._left -= 1
            return True
        self._sample = (self._sample + 1) % _SAMPLED
        return not self._sample
