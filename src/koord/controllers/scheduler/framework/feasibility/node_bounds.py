# SPDX-License-Identifier: Apache-2.0
"""The best node for a pod whose kind is not kept, in one native call: without a board.

What the kernels of a pod say of a block of nodes is bounded by the least and the most of each
column there. The native search looks at the nodes of a block only where one could be better than
the best so far, with what other plugins say of all nodes, if any has something to say. What comes
out is what a board would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.framework.feasibility.kept_entries import SearchCost
from koord.kernels.placement_board import RowBounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels

_READ = int(Aspect.NODE) | int(Aspect.PODS) | int(Aspect.RESERVATIONS)
# In the time in which one row of a board is brought up to date blocks of so many rows are bounded,
# and so many rows beside each other are looked at. On 5,000 rows it was measured to be 0.05 us.
_BOUNDED, _LOOKED_AT = 64, 8
# A new entry, which is memory that nobody has touched, costs what it costs to bring one of so many
# rows up to date, apart.
_OF_ENTRY = 2
# What searches look at is followed with the weight of one in so many.
_SEARCHES = 8


class NodeBounds:
    """Follows a table.

    Args:
        table: the nodes.

    Attributes:
        cost: of a search where kernels say it all, by what the last ones looked at.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._bounds = RowBounds()
        self._version = self._layout = -1
        self._rank: NDArray[np.int64] | None = None
        self._looked_at = 0
        self.cost = SearchCost(0, 0, 0)

    def best(
        self,
        kernels: FitKernels,
        weights: list[int],
        masks: Sequence[NDArray[np.bool_]],
        ratings: Sequence[tuple[int, int, NDArray[np.int64]]],
    ) -> int:
        """The row that a board with these answers would choose.

        Args:
            kernels: of those who have any.
            weights: of their scores, in order.
            masks: what others say by row of the table: False refuses.
            ratings: weight, native normalisation and raw scores by row of others.

        Returns:
            -1 where there is none.
        """
        table, rank = self._table, self._table.rank
        columns = table.allocatable, table.requested, table.nonzero
        since, version = self._version, table.version
        if self._layout != table.layout or self._rank is not rank:
            # Of other columns nothing is known.
            since, self._layout, self._rank = -1, table.layout, rank
            self._bounds = RowBounds()
        if since != version:
            changes = table.changed_rows(since) if since >= 0 else None
            if changes is None:
                self._bounds.update(*columns, slice(0, table.size), table.open, rank)
            elif changes[2] & _READ:
                self._bounds.update(*columns, changes[0], table.open, rank)
            self._version = version
        row = self._bounds.best(kernels.rooms, weights, masks, ratings)
        if not masks and not ratings:
            self._looked_at += (self._bounds.looked_at - self._looked_at) // _SEARCHES
            self._follow_cost()
        return row

    def _follow_cost(self) -> None:
        size = self._table.size
        rows, of_entry = size // _BOUNDED + self._looked_at // _LOOKED_AT, size // _OF_ENTRY
        if rows != self.cost.rows or of_entry != self.cost.of_entry:
            self.cost = SearchCost(rows, rows, of_entry)
