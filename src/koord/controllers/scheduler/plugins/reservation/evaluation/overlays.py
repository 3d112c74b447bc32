# SPDX-License-Identifier: Apache-2.0
"""What of every row is held for a pod, by row or as columns for many rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.cycle import Overlays, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.cycle import Cycle, Overlay
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )
    from koord.controllers.scheduler.plugins.reservation.state.shape_matches import PodMatches

FEW = 32
"""Rows that are quicker looked at one by one."""


def show(cycle: Cycle, attempt: PodMatches) -> None:
    """Tells the cycle what of the nodes is held for its pod, and where."""
    table = cycle.table

    def overlay(row: int) -> NDArray[np.int64] | None:
        records = attempt.records(row)
        return _sum(table, records) if records else None

    def overlays(rows: NDArray[np.intp]) -> Overlays | None:
        if len(rows) <= FEW:
            return stacked(rows, overlay)
        return _of_many(attempt, rows, overlay)

    def reserved(rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        if len(rows) <= FEW:
            return np.array([bool(attempt.records(row)) for row in rows.tolist()], np.bool_)
        return attempt.mask(table.size)[rows]

    cycle.set_overlay(overlay, many=overlays)
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


def _sum(table: NodeTable, records: Sequence[ReservationInfo]) -> NDArray[np.int64]:
    if len(records) == 1:
        return records[0].given_vector(table)
    parts = [record.given_vector(table) for record in records]
    found = np.zeros(len(table.resources), np.int64)
    for part in parts:
        found[: len(part)] += part
    return found
