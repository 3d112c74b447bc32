# SPDX-License-Identifier: Apache-2.0
"""Which rows of the node table have changed since answers were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable

Rows: TypeAlias = "NDArray[np.intp] | slice"
"""Rows of the node table, as an index of its columns."""


class ChangedRows:
    """Which rows changed since an entry was brought up to date, by aspect.

    Args:
        table: the nodes.
        changes: aspects by row; None if all must be looked at anew.

    Attributes:
        all: whether that is so.
        union: the aspects in which any row changed.
    """

    __slots__ = ("_by_mask", "_changes", "all", "table", "union")

    def __init__(self, table: NodeTable, changes: dict[int, int] | None) -> None:
        self.table = table
        self.all = changes is None
        self._changes = changes or {}
        self._by_mask: dict[int, NDArray[np.intp]] = {}
        self.union = 0 if changes is not None else -1
        for aspects in self._changes.values():
            self.union |= aspects

    def rows(self, mask: int) -> NDArray[np.intp] | None:
        """The rows that changed in any of the aspects, None for none."""
        aspects = mask & self.union
        if not aspects or self.all:
            return None
        rows = self._by_mask.get(aspects)
        if rows is None:
            rows = self._by_mask[aspects] = self._find(aspects)
        return rows

    def _find(self, wanted: int) -> NDArray[np.intp]:
        if len(self._changes) == 1:
            return self.table.index(next(iter(self._changes)))
        rows = [row for row, aspects in self._changes.items() if aspects & wanted]
        return np.array(rows, np.intp)
