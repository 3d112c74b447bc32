# SPDX-License-Identifier: Apache-2.0
"""Labels and taints of nodes as columns of small numbers, so that equal nodes are looked at once.

A column is built when a key is first asked for, and follows the node table from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.kernels.placement_board import row_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.constraints import Taint
    from koord.api.kinds.node import Node

_NONE: dict[str, str] = {}
# Numbers that no node uses any more may be these and as many as two a row; then all are new ones.
_UNUSED = 64
# Of labels with no more values than these it is kept by value which rows have it.
_FEW_VALUES = 64


class LabelColumn:
    """One label of all nodes.

    Attributes:
        ids: int32 by row: the number of the node's value, -1 where it has none.
        values: texts by number; numbers are never used again.
        changes: counts rows whose number changed, and growths.
    """

    __slots__ = (
        "_bits", "_having", "_masks", "_numbers", "_rows", "_sums", "changes", "ids", "values",
    )  # fmt: skip

    def __init__(self, rows: int) -> None:
        self.changes = 0
        self.ids = np.full(rows, -1, np.int32)
        self.values: list[str] = []
        self._numbers: dict[str, int] = {}
        # By number, how many rows have it, and the sum of these: which is the row where it is one.
        self._having: list[int] = []
        self._sums: list[int] = []
        self._rows: dict[int, NDArray[np.intp]] = {}
        self._masks: dict[int, NDArray[np.bool_]] = {}
        self._bits: dict[int, NDArray[np.uint64]] = {}

    def number(self, value: str) -> int:
        """The number of a value, -1 if no node ever had it."""
        return self._numbers.get(value, -1)

    def only_row(self, number: int) -> int:
        """The one row that has a value; -1 where it is not one."""
        return self._sums[number] if number >= 0 and self._having[number] == 1 else -1

    def rows(self, number: int) -> NDArray[np.intp]:
        """The rows that have a value, ascending."""
        found = self._rows.get(number)
        if found is None:
            found = self._rows[number] = np.flatnonzero(self.ids == number)
        return found

    def has(self, number: int) -> NDArray[np.bool_]:
        """By row, whether it has a value. Not to be changed."""
        found = self._masks.get(number)
        if found is None:
            found = np.equal(self.ids, number)
            if len(self.values) <= _FEW_VALUES:
                found.flags.writeable = False
                self._masks[number] = found
        return found

    def bits(self, number: int) -> NDArray[np.uint64]:
        """The same as :func:`koord.kernels.placement_board.row_bits` of it; -1 for no value."""
        found = self._bits.get(number)
        if found is None:
            found = row_bits(np.equal(self.ids, number))
            if number < 0 or len(self.values) <= _FEW_VALUES:
                found.flags.writeable = False
                self._bits[number] = found
        return found

    def set(self, row: int, value: str | None) -> None:
        """Takes over a node's value."""
        before = int(self.ids[row])
        number = -1 if value is None else self._numbers.get(value, -1)
        if value is not None and number < 0:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
            self._having.append(0)
            self._sums.append(0)
        if number != before:
            self.changes += 1
            self._count(before, row, -1)
            self._count(number, row, 1)
            self.ids[row] = number
            self._rows.pop(before, None)
            self._rows.pop(number, None)
            self._masks.pop(before, None)
            self._masks.pop(number, None)
            self._bits.pop(before, None)
            self._bits.pop(number, None)

    def _count(self, number: int, row: int, sign: int) -> None:
        if number >= 0:
            self._having[number] += sign
            self._sums[number] += sign * row

    def grow(self, rows: int) -> None:
        """Makes room for more rows."""
        self.changes += 1
        self._masks.clear()
        self._bits.clear()
        self.ids = np.concatenate([self.ids, np.full(rows - len(self.ids), -1, np.int32)])


class NodeLabels:
    """All labels, and the names, of a table's nodes.

    Attributes:
        version: counts changes of any node's labels, and nodes that came and went.
    """

    def __init__(self) -> None:
        self.version = 0
        self._by_row: list[Mapping[str, str]] = []
        self._capacity = 0
        self._columns: dict[str, LabelColumn] = {}
        self._carriers: dict[str, int] = {}
        self._absent = LabelColumn(0)

    def column(self, key: str) -> LabelColumn:
        """The column of a key. Valid until :attr:`version` changes.

        A key that no node has is not kept, so that pods cannot fill the memory with keys.
        """
        column = self._columns.get(key)
        if column is not None:
            return column
        if key not in self._carriers:
            return self._absent
        column = self._columns[key] = LabelColumn(self._capacity)
        for row, labels in enumerate(self._by_row):
            column.set(row, labels.get(key))
        return column

    def set(self, row: int, node: Node | None, capacity: int) -> None:
        """Takes over a node's labels; None closes its row."""
        labels = node.metadata.labels if node is not None else _NONE
        if capacity > self._capacity:
            self._grow(capacity)
        before = self._by_row[row]
        if before == labels and node is not None and before is not _NONE:
            return
        self.version += 1
        for key in before:
            self._carriers[key] -= 1
            if not self._carriers[key]:
                del self._carriers[key]
        for key in labels:
            self._carriers[key] = self._carriers.get(key, 0) + 1
        self._by_row[row] = labels
        for key, column in self._columns.items():
            column.set(row, labels.get(key))
        for key in [key for key in before if key not in self._carriers]:
            self._columns.pop(key, None)
        # Whoever asks for the key next gets a column of the values that there are.
        for key in [k for k, c in self._columns.items() if len(c.values) > self._most]:
            del self._columns[key]

    @property
    def _most(self) -> int:
        """How many values of a key are numbered, those that no node has any more included."""
        return _UNUSED + 2 * self._capacity

    def _grow(self, capacity: int) -> None:
        self._by_row.extend([_NONE] * (capacity - len(self._by_row)))
        for column in (*self._columns.values(), self._absent):
            column.grow(capacity)
        self._capacity = capacity


class NodeTaints:
    """What keeps pods away from nodes: each different list of taints has a number.

    Attributes:
        ids: int32 by row; closed rows have 0, the number of no taints.
        lists: taints by number; another list once numbers stand for others than before.
        unschedulable: bool by row, ``spec.unschedulable``.
        version: counts changes of any node's taints.
    """

    def __init__(self) -> None:
        self.ids = np.zeros(0, np.int32)
        self.unschedulable = np.zeros(0, np.bool_)
        self.lists: list[list[Taint]] = [[]]
        self.version = 0
        self._numbers: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}

    def set(self, row: int, node: Node | None, capacity: int) -> None:
        """Takes over a node's taints; None closes its row."""
        if capacity > len(self.ids):
            more = capacity - len(self.ids)
            self.ids = np.concatenate([self.ids, np.zeros(more, np.int32)])
            self.unschedulable = np.concatenate([self.unschedulable, np.zeros(more, np.bool_)])
        taints = node.spec.taints if node is not None else []
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            if len(self.lists) > _UNUSED + 2 * len(self.ids):
                self._renumber()
            number = self._numbers[key] = len(self.lists)
            self.lists.append(taints)
        if self.ids[row] != number:
            self.ids[row] = number
            self.version += 1
        self.unschedulable[row] = node is not None and node.spec.unschedulable

    def _renumber(self) -> None:
        """Forgets the lists that no row has."""
        used, places = np.unique(np.append(self.ids, 0), return_inverse=True)
        self.ids = places[:-1].astype(np.int32)
        self.lists = [self.lists[number] for number in used.tolist()]
        renumbered = {number: place for place, number in enumerate(used.tolist())}
        self._numbers = {
            key: renumbered[number] for key, number in self._numbers.items() if number in renumbered
        }
        self.version += 1
