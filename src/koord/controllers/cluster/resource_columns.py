# SPDX-License-Identifier: Apache-2.0
"""The resource columns of the node table: one for each name that a node offers.

Names that pods request make no column. Anybody who may create pods can write as many of them as he
likes, and every column costs every node and every decision something. A name that no node offers
is compared with :data:`ABSENT`, of which no row has anything, and what pods on a row request of it
is kept by name until a node offers it.

Indexes of columns hold as long as :attr:`ResourceColumns.key` is the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api import requests
from koord.controllers.cluster.pods import CountedColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import CountedRequests

CPU, MEMORY, STORAGE, PODS, ABSENT = range(5)
"""The columns that are always there. No row offers or counts anything in ``ABSENT``."""

_FIRST = ("cpu", "memory", "ephemeral-storage", requests.PODS, "")
# Columns that no node offers any more may stay until they are more than these and than the others,
# so that a device that comes and goes moves no column.
_UNUSED = 16


class ResourceColumns:
    """``[resource, row]`` of what nodes offer and what is requested there.

    Attributes:
        names: by column; "" for ``ABSENT``.
        key: another object as soon as a column stands for something else, or has come or gone.
        allocatable, requested: int64 ``[resource, row]``; other arrays after ``key`` has changed
            and after :meth:`grow`.
    """

    def __init__(self) -> None:
        self.names = list(_FIRST)
        self.key = object()
        self._index = _index_of(self.names)
        self._space = np.zeros((2, len(_FIRST), 0), np.int64)
        # By column, how many rows offer some of it.
        self._offering = np.zeros(len(_FIRST), np.intp)
        self._unoffered: dict[int, dict[str, int]] = {}
        self._show()

    def column(self, name: str) -> int:
        """The column of a resource, ``ABSENT`` for one that has none."""
        return self._index.get(name, ABSENT)

    def of(self, counted: CountedRequests) -> CountedColumns:
        """What a pod counts as, as columns; kept with it."""
        columns = counted.columns
        if columns is None or columns.key is not self.key:
            columns = counted.columns = self._of(counted.request)
        return columns

    def offer(self, row: int, amounts: Mapping[str, int]) -> bool:
        """Sets what a row offers.

        Returns:
            Whether columns came or went, and the arrays are others.
        """
        key = self.key
        missing = [name for name, amount in amounts.items() if amount and name not in self._index]
        if missing:
            self._add(missing)
        column = self.allocatable[:, row]
        before = column != 0
        column[:] = 0
        for name, amount in amounts.items():
            index = self._index.get(name)
            if index is not None:
                column[index] = amount
        self._offering += (column != 0).astype(np.intp) - before
        unused = int(np.count_nonzero(self._offering[len(_FIRST) :] == 0))
        if unused > max(_UNUSED, len(self.names) - len(_FIRST) - unused):
            self._drop_unused()
        return self.key is not key

    def close(self, row: int) -> bool:
        """Forgets a row; returns the same as :meth:`offer`."""
        self.requested[:, row] = 0
        self._unoffered.pop(row, None)
        return self.offer(row, {})

    def count_unoffered(self, row: int, amounts: Mapping[str, int], sign: int) -> None:
        """Adds what a row's pods request of resources without a column, or takes it off."""
        here = self._unoffered.setdefault(row, {})
        for name, amount in amounts.items():
            total = here.get(name, 0) + sign * amount
            if total:
                here[name] = total
            else:
                here.pop(name, None)
        if not here:
            del self._unoffered[row]

    def requested_by_name(self, row: int) -> dict[str, int]:
        """What is requested on a row of every resource with a column, and of others."""
        amounts = dict(zip(self.names, self.requested[:, row].tolist(), strict=True))
        del amounts[_FIRST[ABSENT]]
        return {**amounts, **self._unoffered.get(row, {})}

    def grow(self, rows: int) -> None:
        """Makes room for more rows."""
        self._resize(self._space.shape[1], rows)

    def _of(self, request: Mapping[str, int]) -> CountedColumns:
        index, amounts = [PODS], [1]
        unoffered = {}
        for name in sorted(request):
            column = self._index.get(name)
            if column is None:
                unoffered[name] = request[name]
            else:
                index.append(column)
                amounts.append(request[name])
        counted = required = _arrays(index, amounts)
        if unoffered:
            required = _arrays([*index, ABSENT], [*amounts, 1])
        return CountedColumns(self.key, counted, required, unoffered)

    def _add(self, names: Sequence[str]) -> None:
        """Gives all these names columns at once."""
        room, needed = self._space.shape[1], len(self.names) + len(names)
        for number, name in enumerate(names, len(self.names)):
            self._index[name] = number
        self.names += names
        self._offering = np.concatenate([self._offering, np.zeros(len(names), np.intp)])
        if needed > room:
            self._resize(max(needed, 2 * room), self._space.shape[2])
        self._show()
        for row, amounts in list(self._unoffered.items()):
            for name in names:
                self.requested[self._index[name], row] = amounts.pop(name, 0)
            if not amounts:
                del self._unoffered[row]

    def _drop_unused(self) -> None:
        """Gives back the columns that no node offers, all at once."""
        used = [i for i in range(len(self.names)) if i <= ABSENT or self._offering[i]]
        for index in sorted(set(range(len(self.names))) - set(used)):
            requested = self.requested[index]
            for row in np.flatnonzero(requested).tolist():
                self.count_unoffered(row, {self.names[index]: int(requested[row])}, 1)
        self._space = np.ascontiguousarray(self._space[:, used])
        self._offering = self._offering[used]
        self.names = [self.names[index] for index in used]
        self._index = _index_of(self.names)
        self._show()

    def _resize(self, resources: int, rows: int) -> None:
        grown = np.zeros((2, resources, rows), np.int64)
        _, had, wide = self._space.shape
        grown[:, :had, :wide] = self._space
        self._space = grown
        self._show()

    def _show(self) -> None:
        """Makes the columns in use visible; the others are room for more."""
        used = len(self.names)
        self.allocatable, self.requested = self._space[0, :used], self._space[1, :used]
        self.key = object()


def _index_of(names: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names) if name}


def _arrays(index: list[int], amounts: list[int]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    return np.array(index, np.intp), np.array(amounts, np.int64)
