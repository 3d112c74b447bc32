# SPDX-License-Identifier: Apache-2.0
"""The columns of pods under deltas: rows are taken, changed and given back."""

from __future__ import annotations

import numpy as np

from koord.controllers.manager.overcommit.amounts import CPU, MEMORY, zeros
from koord.controllers.manager.overcommit.column_groups import joined, take
from koord.controllers.manager.overcommit.objects.pod_terms import PodTerm, PodTerms

_FIRST = 256
NOWHERE = -1


class PodColumns:
    """Rows of :class:`PodTerms` that keep their number while they are in use."""

    def __init__(self) -> None:
        self._columns = _empty_columns(_FIRST)
        self._used = 0
        self._free: list[int] = []

    def add(self, node: int, term: PodTerm) -> int:
        """Takes a row, and returns its number."""
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._used
            self._used += 1
            if self._used > len(self._columns.node):
                self._grow()
        self._columns.node[slot] = node
        self.set(slot, term)
        return slot

    def set(self, slot: int, term: PodTerm) -> None:
        """Changes a row."""
        columns = self._columns
        columns.flags[slot] = term.flags
        # One number at a time: a pair is an array first, and that takes longer.
        columns.request[CPU, slot], columns.request[MEMORY, slot] = term.request
        columns.used[CPU, slot], columns.used[MEMORY, slot] = term.used
        columns.zones[slot] = term.zones

    def drop(self, slot: int) -> None:
        """Gives a row back."""
        self._columns.node[slot] = NOWHERE
        self._free.append(slot)

    def all(self) -> PodTerms:
        """Every row in use."""
        if not self._free:
            return take(self._columns, slice(0, self._used))
        return take(self._columns, np.flatnonzero(self._columns.node[: self._used] != NOWHERE))

    def some(self, slots: list[int], node: list[int]) -> PodTerms:
        """Some rows, with other numbers for their nodes."""
        found = take(self._columns, np.array(slots, np.intp))
        return found._replace(node=np.array(node, np.intp))

    def _grow(self) -> None:
        self._columns = joined(self._columns, _empty_columns(len(self._columns.node)))


def _empty_columns(rows: int) -> PodTerms:
    return PodTerms(
        np.full(rows, NOWHERE, np.intp),
        np.zeros(rows, np.uint8),
        zeros(rows),
        zeros(rows),
        np.zeros(rows, np.uint64),
    )
