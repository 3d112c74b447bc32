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
from koord.controllers.scheduler.framework.feasibility.node_bounds import ColumnBounds
from koord.kernels.placement_board import ReservedBounds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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
    beside: ColumnsBesideReservations

    @property
    def bounds(self) -> ColumnBounds:
        """Theirs by block of rows, as they were when these were read last."""
        return self.beside.bounds

    def read_bounds(self) -> None:
        """Brings :attr:`bounds` up to date, with those of the reservations of who sees them."""
        self.beside.read_bounds()


class ColumnsBesideReservations:
    """One copy of the columns of a table.

    Args:
        table: the nodes.
        columns: what reservations have left.

    Attributes:
        bounds: of the copy, and ``reservations`` of what its viewer may use, as of the last call of
            :meth:`read_bounds`.
    """

    def __init__(self, table: NodeTable, columns: ReservationColumns) -> None:
        self._table, self._columns = table, columns
        self._requested = np.zeros((0, 0), np.int64)
        self._nonzero = np.zeros((0, 0), np.int64)
        self._key: object = None
        self._version = -1
        self._viewer: MatchedRows | None = None
        # Rows that stand there as the viewer sees them, or did.
        self._written: set[int] = set()
        self.bounds, self.reservations = ColumnBounds(table, keeps_order=True), ReservedBounds()
        # How many resources and rows these know of, and the rows that they have still to be told
        # of; None for all.
        self._known = 0, 0
        self._unread: set[int] | None = None

    def seen_by(self, viewer: MatchedRows) -> SeenColumns:
        """The columns as pods see them that may use some reservations."""
        viewer.update()
        table = self._table
        changes = self._changes()
        self._version = table.version
        if changes is None:
            self._requested, self._nonzero = table.requested.copy(), table.nonzero.copy()
            self._key, self._viewer, self._unread = table.resources_key, None, None
        else:
            for row in changes:
                self._restore(row)
            self._note_unread(changes)
        if viewer is not self._viewer:
            if self._viewer is not None:
                self._restore(np.fromiter(self._written, np.intp, len(self._written)))
                self._note_unread(self._written)
            self._write_all(viewer)
            self._note_unread(self._written)
        else:
            self._write(row for row in changes or () if row in viewer.by_row)
        return SeenColumns(table.allocatable, self._requested, self._nonzero, viewer, self)

    def read_bounds(self) -> None:
        """Brings the bounds up to date with the copy and its viewer."""
        viewer, table, unread = self._viewer, self._table, self._unread
        assert viewer is not None, "columns that nobody has asked for"
        rows = None if unread is None else np.array(sorted(unread), np.intp)
        self._unread = set()
        reserved, slots = self._columns.all(), viewer.slots()
        known = len(reserved[0]), len(slots)
        if rows is None or known != self._known:
            self._known, self.reservations = known, ReservedBounds()
            self.reservations.update(reserved, slots, slice(0, len(slots)))
        else:
            self.reservations.update(reserved, slots, rows)
        seen = SeenColumns(table.allocatable, self._requested, self._nonzero, viewer, self)
        self.bounds.read(seen, rows)

    def _note_unread(self, rows: Collection[int]) -> None:
        """Notes rows that bounds are still to be told of."""
        if self._unread is not None:
            self._unread.update(rows)

    def _changes(self) -> Collection[int] | None:
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
        self._viewer, self._written = viewer, set(viewer.by_row)
        given = self._columns.given_back(flat.slots)
        self._requested[: len(given), flat.rows] -= given
        self._nonzero[:, flat.rows] -= given[_SCORED]
        self._write(flat.others)

    def _write(self, rows: Iterable[int]) -> None:
        assert self._viewer is not None
        for row in rows:
            self._written.add(row)
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
