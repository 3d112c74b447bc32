# SPDX-License-Identifier: Apache-2.0
"""The columns that a pod sees: the table's, less what reservations hold for it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.controllers.cluster.node_table import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle

    Rows = NDArray[np.intp] | slice
    Kernel = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Rows], NDArray[Any]]

_SERIAL = count()
_FIRST = slice(0, 1)
_MANY = 64
_SCORED = 2  # CPU and MEMORY, the first columns


def memo_key(name: str) -> str:
    """A key of ``shape.memo`` that no other object of the plugin uses: profiles differ in args."""
    return f"{name}#{next(_SERIAL)}"


class RequestColumns(NamedTuple):
    """``[resource, row]`` as :class:`koord.kernels.placement_board.RoomCheck` reads it."""

    allocatable: NDArray[np.int64]
    requested: NDArray[np.int64]
    nonzero: NDArray[np.int64]


def evaluate_rows(cycle: Cycle, rows: Rows, kernel: Kernel) -> NDArray[Any]:
    """A kernel's answers for rows, with what reservations hold for the pod taken off.

    Args:
        cycle: the attempt.
        rows: of the table.
        kernel: a kernel's method over columns and rows.
    """
    table = cycle.table
    if not cycle.has_overlay:
        return kernel(table.allocatable, table.requested, table.nonzero, rows)
    if cycle.seen_columns is not None and (isinstance(rows, slice) or len(rows) > _MANY):
        seen = cycle.seen_columns()
        return kernel(seen.allocatable, seen.requested, seen.nonzero, rows)
    at = np.arange(table.size)[rows] if isinstance(rows, slice) else rows
    if len(at) == 1:
        columns = columns_beside_reservations(cycle, int(at[0]))
        if columns is not None:
            return kernel(*columns, _FIRST)
    overlays = cycle.overlays(at)
    if overlays is None:
        return kernel(table.allocatable, table.requested, table.nonzero, rows)
    places = overlays.places
    columns = _gathered(cycle, at[places], overlays.given)
    beside = kernel(*columns, slice(0, len(places)))
    if len(places) == len(at) and (places == np.arange(len(at))).all():
        return beside
    answers = kernel(table.allocatable, table.requested, table.nonzero, rows)
    answers[places] = beside
    return answers


def _gathered(cycle: Cycle, rows: NDArray[np.intp], given: NDArray[np.int64]) -> RequestColumns:
    """The columns of some rows with overlays taken off."""
    table = cycle.table
    requested = table.requested.take(rows, 1)
    nonzero = table.nonzero.take(rows, 1)
    requested[: len(given)] -= given
    nonzero[0] -= given[CPU]
    nonzero[1] -= given[MEMORY]
    return RequestColumns(table.allocatable.take(rows, 1), requested, nonzero)


def columns_beside_reservations(cycle: Cycle, row: int) -> RequestColumns | None:
    """The columns of one row with its overlay taken off, None where there is no overlay."""
    given = cycle.overlay(row)
    if given is None:
        return None
    table = cycle.table
    requested = table.requested[:, row].copy()
    requested[: len(given)] -= given
    nonzero = table.nonzero[:, row] - given[:_SCORED]
    one = slice(row, row + 1)
    return RequestColumns(
        table.allocatable[:, one], requested[:, np.newaxis], nonzero[:, np.newaxis]
    )
