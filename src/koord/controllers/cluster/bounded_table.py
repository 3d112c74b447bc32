# SPDX-License-Identifier: Apache-2.0
"""A table of what was worked out lately, bounded by how many entries it has and by their size.

A count alone bounds nothing where tenants choose how large an entry is: a pod may have a megabyte.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedTable(Generic[K, V]):
    """Remembers the entries that were put last; the oldest go first.

    Args:
        entries: how many there may be.
        size: what they may have together, in the unit of :meth:`put`. One entry may have more.
    """

    def __init__(self, entries: int, size: int) -> None:
        self._most, self._most_size = entries, size
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
            The last of the values that had to go for it, None where none had to.
        """
        entries = self._entries
        before = entries.pop(key, None)
        if before is not None:
            self.size -= before[1]
        entries[key] = value, size
        self.size += size
        dropped: V | None = None
        while len(entries) > self._most or (self.size > self._most_size and len(entries) > 1):
            _, (dropped, gone) = entries.popitem(last=False)
            self.size -= gone
        return dropped
