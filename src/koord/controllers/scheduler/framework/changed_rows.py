# SPDX-License-Identifier: Apache-2.0
"""Which rows of the node table have changed since answers were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from koord.kernels.placement_board import changed_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable

Rows: TypeAlias = "NDArray[np.intp] | slice"
"""Rows of the node table, as an index of its columns."""

Changes: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], int, int]"
"""Rows, ascending, the aspects of each, those that any has and those that all have."""


class ChangedRows:
    """Which rows changed since an entry was brought up to date, by aspect.

    Args:
        table: the nodes.
        changes: as :meth:`koord.controllers.cluster.node_table.NodeTable.changed_rows` gives them;
            None if all must be looked at anew.

    Attributes:
        all: whether that is so.
        union: the aspects in which any row changed.
    """

    __slots__ = ("_aspects", "_by_mask", "_common", "_rows", "all", "table", "union")

    def __init__(self, table: NodeTable, changes: Changes | None) -> None:
        self.table = table
        self.all = changes is None
        self._by_mask: dict[int, NDArray[np.intp]] = {}
        if changes is not None:
            self._rows, self._aspects, self.union, self._common = changes
        else:
            self.union = -1

    def rows(self, mask: int) -> NDArray[np.intp] | None:
        """The rows that changed in any of the aspects, None for none."""
        aspects = mask & self.union
        if not aspects or self.all:
            return None
        if aspects & self._common:
            return self._rows
        rows = self._by_mask.get(aspects)
        if rows is None:
            rows = self._by_mask[aspects] = self._rows[(self._aspects & aspects) != 0]
        return rows


def with_rows(changes: Changes, rows: Iterable[int], aspects: int) -> Changes:
    """Changes, and further rows that count as changed in some aspects and no others."""
    known = dict(zip(changes[0].tolist(), changes[1].tolist(), strict=True))
    known.update(dict.fromkeys(rows, aspects))
    journal = [row << 8 | its for row, its in known.items()]
    return changed_rows(journal, 0)
