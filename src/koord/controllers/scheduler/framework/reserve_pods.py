# SPDX-License-Identifier: Apache-2.0
"""Pods that hold a reservation do not stand in the way of those that may use it.

A reservation's own pod has the labels, host ports and affinities of its template, mostly those of
its owners. Filters that look at other pods ask again without it, where it is all that refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows


def ask_without(
    handle: Handle,
    cycle: Cycle,
    rows: Rows,
    ask: Callable[[Cycle, Rows], NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """What a filter says of rows, the reservations offered to the pod there left out.

    Args:
        handle: of the plugin.
        cycle: the attempt.
        rows: of the table.
        ask: the filter itself.
    """
    passes = ask(cycle, rows)
    if not cycle.has_overlay or passes.all():
        return passes
    asked = np.arange(cycle.table.size)[rows]
    for place in np.flatnonzero(~passes).tolist():
        row = int(asked[place])
        # Pods that are taken over go on running: only reserve pods are left out.
        held = [each.reserve for each in cycle.reservations(row) if not each.pre_allocation]
        if held:
            passes[place] = _passes_without(handle, cycle, row, held, ask)
    return passes


def _passes_without(
    handle: Handle,
    cycle: Cycle,
    row: int,
    held: Sequence[PodInfo],
    ask: Callable[[Cycle, Rows], NDArray[np.bool_]],
) -> bool:
    with handle.accounts.what_if():
        for pod in held:
            if pod.row == row:
                handle.accounts.drop(pod)
        return bool(ask(cycle, np.array([row], np.intp))[0])
