# SPDX-License-Identifier: Apache-2.0
"""The best node for a pod whose kind is not kept, in one native call: without a board.

What the kernels of a pod say of a block of nodes is bounded by the least and the most of each
column there. The native search looks at the nodes of a block only where one could be better than
the best so far, with what other plugins say of all nodes, if any has something to say. What comes
out is what a board would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.framework.feasibility.kept_entries import SearchCost
from koord.controllers.scheduler.framework.feasibility.row_answers import RowAnswers
from koord.kernels.placement_board import RowBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.changed_rows import Rows
    from koord.controllers.scheduler.framework.cycle import ViewedColumns
    from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels

    Columns: TypeAlias = NodeTable | ViewedColumns

_READ = int(Aspect.NODE | Aspect.PODS | Aspect.RESERVATIONS | Aspect.LOAD)
# In the time in which one row of a board is brought up to date blocks of so many rows are bounded,
# and so many rows beside each other are looked at. On 5,000 rows it was measured to be 0.05 us.
_BOUNDED, _LOOKED_AT = 64, 8
# A new entry, which is memory that nobody has touched, costs what it costs to bring one of so many
# rows up to date, apart.
_OF_ENTRY = 2
# What searches look at is followed with the weight of one in so many.
_SEARCHES = 8
_NOTHING = RowAnswers.where()


class ColumnBounds:
    """Bounds of the nodes' columns, a table's own or as somebody sees them.

    Args:
        table: the nodes.
        keeps_order: rows are never ordered by how much of them is taken, as it has to be where a
            pod's reservations are asked about.
    """

    def __init__(self, table: NodeTable, *, keeps_order: bool = False) -> None:
        self._table, self._keeps_order = table, keeps_order
        self._rows = RowBounds(keeps_order)
        self._layout = -1
        self._rank: NDArray[np.int64] | None = None
        self._looked_at = 0
        self._cost = SearchCost(0, 0, 0)

    @property
    def cost(self) -> SearchCost:
        """Of a search where kernels and bounds say it all, by what the last ones looked at."""
        # Before the first search, too: else no entry would ever be found new enough.
        size = self._table.size
        rows, of_entry = size // _BOUNDED + self._looked_at // _LOOKED_AT, size // _OF_ENTRY
        if rows != self._cost.rows or of_entry != self._cost.of_entry:
            self._cost = SearchCost(rows, rows, of_entry)
        return self._cost

    def read(self, columns: Columns, rows: Rows | None) -> None:
        """Reads rows again.

        Args:
            columns: the same as before, but for these rows, unless the table's layout has changed.
            rows: which; None for all.
        """
        table, rank = self._table, self._table.rank
        if self._layout != table.layout or self._rank is not rank:
            # Of other columns nothing is known.
            rows, self._layout, self._rank = None, table.layout, rank
            self._rows = RowBounds(self._keeps_order)
        due = slice(0, table.size) if rows is None else rows
        if not isinstance(due, slice) and not len(due):
            return
        seen = columns.allocatable, columns.requested, columns.nonzero
        self._rows.update(*seen, due, table.open, rank)

    def search(
        self,
        kernels: FitKernels,
        weights: list[int],
        answers: RowAnswers | None,
        reserved: tuple[Any, ...] | None = None,
    ) -> int:
        """The row that a board with these answers, and the columns as they were read, would choose.

        -1 where there is none.

        Args:
            kernels: of those who have any.
            weights: of their scores, in order.
            answers: what others say by row of the table; None where they have nothing to say.
            reserved: the pod's reservations, as :data:`RowBounds` takes them.
        """
        bounds = self._rows
        if answers is None and reserved is None:
            row = bounds.best(kernels.rooms, weights)
        else:
            masks, ratings, bits, preferences, load_checks, loads = answers or _NOTHING
            row = bounds.best(
                kernels.rooms, weights, masks, ratings, reserved, bits, preferences,
                load_checks, loads,
            )  # fmt: skip
        if answers is None:
            self._looked_at += (bounds.looked_at - self._looked_at) // _SEARCHES
        return row


class NodeBounds(ColumnBounds):
    """Those of a table's own columns; follows the table."""

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        self._version = -1

    def best(
        self,
        kernels: FitKernels,
        weights: list[int],
        answers: RowAnswers | None,
    ) -> int:
        """:meth:`search` in the table as it is."""
        table = self._table
        since, version = self._version, table.version
        if since != version:
            self._version = version
            changes = table.changed_rows(since) if since >= 0 else None
            if changes is None:
                self.read(table, None)
            elif changes[2] & _READ:
                self.read(table, changes[0])
        if self._layout != table.layout:
            # One more resource is no change of a row.
            self.read(table, None)
        return self.search(kernels, weights, answers)
