# SPDX-License-Identifier: Apache-2.0
"""Rows whose reservation has gone are not first by order any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from koord.controllers.scheduler.plugins.reservation.state.shape_matches import (
    OrderedRows,
    ShapeMatches,
)


def test_a_row_without_reservations_has_no_order() -> None:
    matches = ShapeMatches.__new__(ShapeMatches)
    matches.book = cast("Any", SimpleNamespace(table=SimpleNamespace(size=3)))
    matches.by_row, matches.orders = {}, OrderedRows()
    matches.mask = np.zeros(3, np.bool_)
    record = cast("Any", object())
    feasible, rank = np.ones(3, np.bool_), np.arange(3)
    matches._set(1, [record])
    matches.orders.put(1, 100)
    matches._set(2, [record])
    matches.orders.put(2, 200)
    assert matches.orders.first(feasible, rank) == 1
    matches._set(1, [])
    assert matches.orders.first(feasible, rank) == 2
