# SPDX-License-Identifier: Apache-2.0
"""Nodes of large clusters in classes of equal state: for pods whose kind is not kept.

On a large table few kinds of pods can have a board each, and to fill one takes a look at all rows.
But a cluster has few kinds of machines, and what stands on them is many times the same. Where
nothing but the table's columns decides, rows of which all columns are equal are one class, and the
kernels are asked once a class. What comes out is what a board would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.kernels.placement_board import RowClasses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels

# A look at a class costs what one at a row does and keeping rows in classes some more, so there
# have to be many rows in one.
_ROWS_A_CLASS, _MOST = 16, 1 << 14
# When there were too many classes: after how many looks at all rows it is tried again.
_PAUSE = 256
_READ = int(Aspect.NODE) | int(Aspect.PODS) | int(Aspect.RESERVATIONS)


class NodeClasses:
    """Follows a table.

    Args:
        table: the nodes.
        least: how many rows a table has at least for which classes are kept.
    """

    def __init__(self, table: NodeTable, least: int) -> None:
        self._table = table
        self._least = least
        self._classes: RowClasses | None = None
        self._version = self._layout = -1
        self._rank: NDArray[np.int64] | None = None
        self._pause = 0

    @property
    def is_large(self) -> bool:
        """Whether the table has as many rows."""
        return self._table.size >= self._least

    def best(self, kernels: FitKernels, weights: list[int]) -> int:
        """The row that a board with nothing but these kernels' answers would choose.

        Args:
            kernels: of those who take part, and there is nobody else.
            weights: of their scores, in order.

        Returns:
            -1 where there is none, or where there are no classes that would be of use.
        """
        if not self.is_large or not self._follow():
            return -1
        assert self._classes is not None
        return self._classes.best(kernels.rooms, weights)

    def _follow(self) -> bool:
        """Takes over what has changed; whether there are few enough classes."""
        if self._pause:
            self._pause -= 1
            return False
        table = self._table
        version, rank = table.version, table.rank
        rows: NDArray[np.int64] | slice = slice(0, table.size)
        changes = None
        if self._classes is None or self._layout != table.layout:
            self._classes = RowClasses(min(_MOST, max(1, table.size // _ROWS_A_CLASS)))
        elif self._rank is not rank:
            self._classes.clear()
        else:
            changes = table.changes(self._version)
        if changes is not None:
            rows = np.array([row for row, of in changes.items() if of & _READ], np.int64)
        self._version, self._layout, self._rank = version, table.layout, rank
        if not isinstance(rows, slice) and not len(rows):
            return True
        columns = table.allocatable, table.requested, table.nonzero
        if self._classes.update(*columns, rows, table.open, rank):
            return True
        self._classes, self._pause = None, _PAUSE
        return False
