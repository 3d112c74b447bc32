# SPDX-License-Identifier: Apache-2.0
"""The columns that pods see for which reservations hold something: less what is held for them.

A copy of the table's, in which the rows of one question (:class:`.matched_rows.MatchedRows`) are
written as its pods see them. Pods that differ in much else ask the same question, so mostly only
the rows that changed since are written again; those of the last question are put back for another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.cluster.node_table import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.reservation.state.columns import ReservationColumns
    from koord.controllers.scheduler.plugins.reservation.state.matched_rows import MatchedRows
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )

_SCORED = [CPU, MEMORY]  # the resources of NodeTable.nonzero


class SeenColumns(NamedTuple):
    """What :class:`koord.kernels.placement_board.Rooms` reads, ``[resource, row]``.

    Attributes:
        viewer: who sees them so; the same object for all that see the same.
    """

    allocatable: NDArray[np.int64]
    requested: NDArray[np.int64]
    nonzero: NDArray[np.int64]
    viewer: object


class ColumnsBesideReservations:
    """One copy of the columns of a table.

    Args:
        table: the nodes.
        columns: what reservations have left.
    """

    def __init__(self, table: NodeTable, columns: ReservationColumns) -> None:
        self._table, self._columns = table, columns
        self._requested = np.zeros((0, 0), np.int64)
        self._nonzero = np.zeros((0, 0), np.int64)
        self._key: object = None
        self._version = -1
        self._viewer: MatchedRows | None = None
        self._written = np.zeros(0, np.intp)

    def seen_by(self, viewer: MatchedRows) -> SeenColumns:
        """The columns as pods see them that may use some reservations."""
        viewer.update()
        table = self._table
        changes = self._changes()
        self._version = table.version
        if changes is None:
            self._requested, self._nonzero = table.requested.copy(), table.nonzero.copy()
            self._key, self._viewer = table.resources_key, None
        else:
            for row in changes:
                self._restore(row)
        if viewer is not self._viewer:
            if self._viewer is not None:
                self._restore(self._written)
            self._write_all(viewer)
        else:
            self._write(row for row in changes or () if row in viewer.by_row)
        return SeenColumns(table.allocatable, self._requested, self._nonzero, viewer)

    def _changes(self) -> Iterable[int] | None:
        table = self._table
        if self._version < 0 or self._key is not table.resources_key:
            return None
        if self._requested.shape != table.requested.shape:
            return None
        return table.changes(self._version)

    def _restore(self, rows: int | NDArray[np.intp]) -> None:
        self._requested[:, rows] = self._table.requested[:, rows]
        self._nonzero[:, rows] = self._table.nonzero[:, rows]

    def _write_all(self, viewer: MatchedRows) -> None:
        flat = viewer.flat()
        self._viewer, self._written = viewer, np.array(list(viewer.by_row), np.intp)
        given = self._columns.given_back(flat.slots)
        self._requested[: len(given), flat.rows] -= given
        self._nonzero[:, flat.rows] -= given[_SCORED]
        self._write(flat.others)

    def _write(self, rows: Iterable[int]) -> None:
        assert self._viewer is not None
        for row in rows:
            given = given_by(self._table, self._viewer.by_row[row])
            self._requested[: len(given), row] -= given
            self._nonzero[:, row] -= given[_SCORED]


def given_by(table: NodeTable, records: Sequence[ReservationInfo]) -> NDArray[np.int64]:
    """By resource column, what some reservations of a row hold for pods that may use all of them;
    not to be changed."""
    if len(records) == 1:
        return records[0].given_vector(table)
    parts = [record.given_vector(table) for record in records]
    total = np.zeros(len(table.resources), np.int64)
    for part in parts:
        total[: len(part)] += part
    return total
