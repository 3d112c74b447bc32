# SPDX-License-Identifier: Apache-2.0
"""How good a node is, in columns where the whole node counts and row by row where zones do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import MILLI
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import amplify
from koord.kernels.numa import Strategy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.nodenumaresource.allocation.allocator import (
        NUMAAllocator,
    )
    from koord.kernels.numa import Scorer

_FULL_SCORE = 100
ALWAYS = ("cpu", "memory", "ephemeral-storage")
"""What counts also for pods that do not ask for it."""


def score(strategy: Strategy, used: int, capacity: int) -> int:
    """0 to 100, cut, for one resource with the pod counted in; ``capacity`` is not 0."""
    if strategy is Strategy.MOST_ALLOCATED:
        return min(used, capacity) * _FULL_SCORE // capacity
    return (capacity - used) * _FULL_SCORE // capacity if used <= capacity else 0


def columns_score(
    scorer: Scorer,
    requested_amounts: Mapping[str, NDArray[np.int64] | int],
    requested: Mapping[str, NDArray[np.int64]],
    allocatable: Mapping[str, NDArray[np.int64]],
) -> NDArray[np.int64]:
    """0 to 100 by row: the weighted mean, cut, over resources that a row has.

    The arguments are by resource of the scorer, those left out that do not count.
    """
    least = scorer.strategy is Strategy.LEAST_ALLOCATED
    total = weight = np.int64(0)
    for name, capacity in allocatable.items():
        use = requested[name] + requested_amounts.get(name, 0)
        there = np.maximum(capacity, 1)
        if least:
            part = np.where(use > capacity, 0, (capacity - use) * _FULL_SCORE // there)
        else:
            part = np.minimum(use, capacity) * _FULL_SCORE // there
        counts = scorer.weights[name] * (capacity != 0)
        total, weight = total + part * counts, weight + counts
    result: NDArray[np.int64] = np.where(weight == 0, 0, total // np.maximum(weight, 1))
    return result


def allocation_score(
    scorer: Scorer,
    trial: NUMAAllocator,
    zones: Collection[int],
    totals: tuple[Mapping[str, int], Mapping[str, int]],
    bound: int | None,
) -> int:
    """0 to 100 for an allocation that would be made.

    Args:
        scorer: weights and direction.
        trial: what was asked, of which node.
        zones: of the allocation.
        totals: requested and allocatable of the whole node, for pods without zones.
        bound: how many CPUs other pods hold, where this one gets CPUs of its own.
    """
    topology, request = trial.node.topology, trial.request
    left = _left(trial, zones) if zones else None
    total = weight = 0
    for name, factor in scorer.weights.items():
        requested_amounts = request.amounts.get(name, 0)
        if not requested_amounts and name not in ALWAYS:
            continue
        if left is None:
            used, capacity = totals[0].get(name, 0), totals[1].get(name, 0)
        else:
            capacity = sum(topology.amounts[zone].get(name, 0) for zone in zones)
            used = max(0, capacity - sum(row.get(name, 0) for row in left))
        if capacity == 0:
            continue
        if name == CPU and trial.binding.bound:
            requested_amounts = amplify(requested_amounts, topology.zone_ratio)
            if bound is not None:
                used = amplify(bound * MILLI, topology.zone_ratio)
        total += score(scorer.strategy, used + requested_amounts, capacity) * factor
        weight += factor
    return total // weight if weight else 0


def _left(trial: NUMAAllocator, zones: Collection[int]) -> list[Mapping[str, int]]:
    """What the allocation's zones have left before it."""
    if trial.plain:
        return [trial.node.plain_left(zone) for zone in zones]
    left = trial.left()
    rows = left.amounts() if left is not None else {}
    return [rows.get(zone, {}) for zone in zones]
