# SPDX-License-Identifier: Apache-2.0
"""The columns that a pod sees: the table's, less what reservations hold for it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.controllers.cluster.nodes import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle

    Rows = NDArray[np.intp] | slice
    Asks = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Rows], NDArray[Any]]

_SERIAL = count()


def memo_key(name: str) -> str:
    """A key of ``shape.memo`` that no other object of the plugin uses: profiles differ in args."""
    return f"{name}#{next(_SERIAL)}"


class Columns(NamedTuple):
    """``[resource, row]`` as :class:`koord.kernels.placement_board.RoomCheck` reads it."""

    allocatable: NDArray[np.int64]
    requested: NDArray[np.int64]
    nonzero: NDArray[np.int64]


def ask(cycle: Cycle, rows: Rows, answers: Asks) -> NDArray[Any]:
    """What a kernel says of rows, overlays respected.

    Args:
        cycle: the attempt.
        rows: of the table.
        answers: a kernel's method over columns and rows.
    """
    table = cycle.table
    found = answers(table.allocatable, table.requested, table.nonzero, rows)
    if cycle.has_overlay:
        at = np.arange(table.size)[rows] if isinstance(rows, slice) else rows
        for place, row in enumerate(at.tolist()):
            columns = seen(cycle, row)
            if columns is not None:
                found[place] = answers(*columns, slice(0, 1))[0]
    return found


def seen(cycle: Cycle, row: int) -> Columns | None:
    """The columns of one row with its overlay taken off, None where there is no overlay."""
    given = cycle.overlay(row)
    if given is None:
        return None
    table = cycle.table
    allocatable = table.allocatable[:, row : row + 1].copy()
    requested = table.requested[:, row : row + 1].copy()
    nonzero = table.nonzero[:, row : row + 1].copy()
    requested[: len(given), 0] -= given
    nonzero[0, 0] -= given[CPU]
    nonzero[1, 0] -= given[MEMORY]
    return Columns(allocatable, requested, nonzero)
