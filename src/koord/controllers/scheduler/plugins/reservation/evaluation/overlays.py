# SPDX-License-Identifier: Apache-2.0
"""What of every row is held for a pod, by row or as columns for many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.cycle import Overlays, stacked
from koord.controllers.scheduler.plugins.reservation.state.columns_beside import given_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle, Overlay
    from koord.controllers.scheduler.plugins.reservation.state.columns_beside import SeenColumns
    from koord.controllers.scheduler.plugins.reservation.state.shape_matches import PodMatches

FEW = 32
"""Rows that are quicker looked at one by one."""


def show(cycle: Cycle, attempt: PodMatches) -> None:
    """Tells the cycle what of the nodes is held for its pod, and where."""
    table = cycle.table

    def overlay(row: int) -> NDArray[np.int64] | None:
        records = attempt.records(row)
        return given_by(table, records) if records else None

    def overlays(rows: NDArray[np.intp]) -> Overlays | None:
        if len(rows) <= FEW:
            return stacked(rows, overlay)
        return _of_many(attempt, rows, overlay)

    def reserved(rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        if len(rows) <= FEW:
            return np.array([bool(attempt.records(row)) for row in rows.tolist()], np.bool_)
        return attempt.mask(table.size)[rows]

    def seen() -> SeenColumns:
        matches = attempt.matches
        return matches.book.beside.seen_by(matches.rows)

    # What is held for this pod alone no other sees.
    cycle.set_overlay(overlay, many=overlays, seen=None if attempt.own else seen)
    cycle.reserved_at = reserved


def _of_many(attempt: PodMatches, rows: NDArray[np.intp], overlay: Overlay) -> Overlays | None:
    flat = attempt.flat()
    place = flat.place[rows]
    at = np.flatnonzero(place >= 0)
    columns = attempt.matches.book.ledger.columns
    given = Overlays(at, columns.given_back(flat.slots[place[at]]))
    if not flat.others:
        return given if len(at) else None
    other = np.flatnonzero(np.isin(rows, flat.others))
    more = stacked(rows[other], overlay)
    if more is None:
        return given if len(at) else None
    return given.joined(Overlays(other[more.places], more.given))
