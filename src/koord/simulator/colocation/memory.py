# SPDX-License-Identifier: Apache-2.0
"""Whom the kernel kills where memory is more than full. Page cache is not modelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from koord.simulator.colocation.result import Floats, Ints


def overfull(held: Floats, capacity: Ints, machine: Ints, task_bytes: Ints) -> Ints:
    """Places of the tasks that go: the largest of a machine first, until the rest fits.

    Args:
        held: bytes in use, a row a machine.
        capacity: bytes, a row a machine.
        machine, task_bytes: where each batch task is and what it holds, a row a task.
    """
    over = held - capacity
    if not (over > 0).any():
        return np.empty(0, np.int64)
    there = np.flatnonzero(over[machine] > 0)
    order = there[np.lexsort((there, -task_bytes[there], machine[there]))]
    gone: list[int] = []
    for place in order.tolist():
        row = int(machine[place])
        if over[row] > 0:
            over[row] -= int(task_bytes[place])
            gone.append(place)
    return np.array(gone, np.int64)
