# SPDX-License-Identifier: Apache-2.0
"""The original's rule against fragmentation: a pod of each uneven node goes, wherever it ends up.

Rule: docs/reference/descheduling-plugins.md#fragmentationaware, over CPU and GPU compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.descheduler.planning.defragmentation import MovablePod
    from koord.kernels.placement import NodeTable, Placement, Placer

IMBALANCE, IMPROVEMENT = 0.15, 0.02
"""A node is uneven above the first; a pod goes if that makes it better by more than the second."""


class OneByOne:
    """Evicts pods by the rule, and has a policy place each at once as a pod that arrives.

    Args:
        table: the nodes.
        placer: the policy, over the same table.
        pods: on the nodes; what is evicted comes back as another pod.

    Attributes:
        evicted: so far.
        without_node: of these, pods that then fitted nowhere.
    """

    def __init__(self, table: NodeTable, placer: Placer, pods: Sequence[MovablePod]) -> None:
        self._table, self._placer = table, placer
        self._cpu_milli = table.capacity("cpu").astype(np.float64)
        self._gpu_milli = table.native.gpus_total_sums().astype(np.float64)
        self._on: list[list[Placement]] = [[] for _ in range(len(table))]
        for pod in pods:
            self._on[pod.placement.row].append(pod.placement)
        self._next_row = 0
        self.evicted = self.without_node = 0

    def evict(self, count: int) -> None:
        """So many more pods at most; fewer where a whole round finds none."""
        idle, until = 0, self.evicted + count
        while self.evicted < until and idle < len(self._table):
            row = self._next_row
            self._next_row = (row + 1) % len(self._table)
            found = self._worst(row)
            idle = 0 if found is not None else idle + 1
            if found is not None:
                self._move(found)

    def _worst(self, row: int) -> Placement | None:
        """The pod without which the node is evenest, if much better; the first of equals."""
        cpu, gpu = float(self._table.free("cpu")[row]), float(sum(self._table.gpus_free(row)))
        before = self._imbalance(row, cpu, gpu)
        if before <= IMBALANCE:
            return None
        best, most = None, IMPROVEMENT
        for place in self._on[row]:
            self._table.remove(place)
            freed = float(self._table.free("cpu")[row]), float(sum(self._table.gpus_free(row)))
            self._table.commit(place)
            gain = before - self._imbalance(row, *freed)
            if gain > most and self._fits_elsewhere(place):
                best, most = place, gain
        return best

    def _imbalance(self, row: int, cpu_free: float, gpu_free: float) -> float:
        """Standard deviation of what is requested of each resource that the node offers."""
        pairs = ((cpu_free, self._cpu_milli[row]), (gpu_free, self._gpu_milli[row]))
        return float(np.std([1 - free / offered for free, offered in pairs if offered]))

    def _fits_elsewhere(self, place: Placement) -> bool:
        fits = self._table.filter(place.shape)
        return bool(np.count_nonzero(fits) - int(fits[place.row]))

    def _move(self, place: Placement) -> None:
        self._table.remove(place)
        self._on[place.row].remove(place)
        self.evicted += 1
        again = self._placer.place(place.shape)
        if again is None:
            self.without_node += 1
        else:
            self._on[again.row].append(again)
