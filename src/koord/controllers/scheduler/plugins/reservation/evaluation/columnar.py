# SPDX-License-Identifier: Apache-2.0
"""Filter and Score for all rows at once: by columns where a pod has one reservation to choose from.

Rows on which there are more, or one with an order, are left to the functions for one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.reservation.evaluation.cycle_state import (
        ReservationCycleState,
    )
    from koord.controllers.scheduler.plugins.reservation.evaluation.nominator import (
        ReservationNominator,
    )
    from koord.controllers.scheduler.plugins.reservation.state.shape_matches import PodMatches


def passes(
    chooser: ReservationNominator, cycle: Cycle, attempt: PodMatches, note: Callable[[int], None]
) -> NDArray[np.bool_]:
    """Bool by row: whether the node and what is held there for the pod have room.

    Args:
        chooser: knows the rules.
        cycle: the attempt.
        attempt: what is held for its pod.
        note: called with rows whose reservation may have an order.
    """
    flat = attempt.flat()
    found = np.ones(cycle.table.size, np.bool_)
    found[flat.rows] = chooser.passes(cycle, attempt, flat)
    for row in flat.others:
        found[row] = chooser.rejection(cycle, attempt, row) is None
        note(row)
    if attempt.matches.orders:
        attempt.matches.orders.keep(flat.others)
    return found


def scores(
    chooser: ReservationNominator,
    cycle: Cycle,
    state: ReservationCycleState,
    score: Callable[[int], int],
) -> NDArray[np.int64]:
    """By row, how well the pod fills the reservation it would get.

    Args:
        chooser: knows the rules.
        cycle: the attempt.
        state: of the attempt.
        score: the same of one row.
    """
    flat = state.attempt.flat()
    found = np.zeros(cycle.table.size, np.int64)
    found[flat.rows] = chooser.scores(cycle, state.attempt, flat)
    for row in (*flat.others, *((state.first,) if state.first >= 0 else ())):
        found[row] = score(row)
    return found
