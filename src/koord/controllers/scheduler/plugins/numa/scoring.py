# SPDX-License-Identifier: Apache-2.0
"""How good a node is, in columns where the whole node counts and row by row where zones do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa.amounts import MILLI
from koord.controllers.scheduler.plugins.numa.decide import scored
from koord.controllers.scheduler.plugins.numa.machine import amplify
from koord.kernels.numa import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.numa.allocate import Trial
    from koord.controllers.scheduler.plugins.numa.allocation import Allocation
    from koord.controllers.scheduler.plugins.numa.state import NodeState
    from koord.kernels.cpuset import CPUSet
    from koord.kernels.numa import Scorer

FULL_SCORE = 100


def columns_score(
    scorer: Scorer,
    asked: Mapping[str, NDArray[np.int64] | int],
    requested: Mapping[str, NDArray[np.int64]],
    allocatable: Mapping[str, NDArray[np.int64]],
) -> NDArray[np.int64]:
    """0 to 100 by row: the weighted mean, cut, over resources that a row has.

    The arguments are by resource of the scorer, those left out that do not count.
    """
    least = scorer.strategy is Strategy.LEAST_ALLOCATED
    total = weight = np.int64(0)
    for name, capacity in allocatable.items():
        use = requested[name] + asked.get(name, 0)
        there = np.maximum(capacity, 1)
        if least:
            part = np.where(use > capacity, 0, (capacity - use) * FULL_SCORE // there)
        else:
            part = np.minimum(use, capacity) * FULL_SCORE // there
        counts = scorer.weights[name] * (capacity != 0)
        total, weight = total + part * counts, weight + counts
    result: NDArray[np.int64] = np.where(weight == 0, 0, total // np.maximum(weight, 1))
    return result


def allocation_score(
    scorer: Scorer,
    trial: Trial,
    found: Allocation,
    totals: tuple[Mapping[str, int], Mapping[str, int]],
) -> int:
    """0 to 100 for an allocation that would be made.

    Args:
        scorer: weights and direction.
        trial: what was asked, of which node.
        found: the allocation.
        totals: requested and allocatable of the whole node, for pods without zones.
    """
    machine = trial.node.machine
    if found.zones:
        left = trial.available()
        there = {zone: machine.amounts[zone] for zone in found.zones}
        used = _sum(_used(row, left[zone]) for zone, row in there.items())
        allocatable = _sum(there.values())
    else:
        used, allocatable = dict(totals[0]), dict(totals[1])
    if found.cpus:
        bound = _bound(trial.node, trial.offer.preferred - found.cpus)
        used[CPU] = amplify(bound * MILLI, machine.zone_ratio)
    return scorer.score(used, allocatable, scored(trial.request, machine, trial.binding))


def _bound(node: NodeState, given_back: CPUSet) -> int:
    if node.cpus is None:
        return 0
    held = node.cpus.allocated()
    if not given_back:
        return len(held)
    return len(held) - sum(node.cpus.ref_count(cpu) == 1 for cpu in held & given_back)


def _used(total: Mapping[str, int], left: Mapping[str, int]) -> dict[str, int]:
    return {name: max(0, amount - left.get(name, 0)) for name, amount in total.items()}


def _sum(rows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    out: dict[str, int] = {}
    for row in rows:
        for name, amount in row.items():
            out[name] = out.get(name, 0) + amount
    return out
