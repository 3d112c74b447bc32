# SPDX-License-Identifier: Apache-2.0
"""Which cards of one row a pod gets in Reserve, or would get from some NUMA nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import (
    FREE_POOL,
    RESERVING_POOL,
    DevicePool,
)
from koord.controllers.scheduler.plugins.deviceshare.allocation.reservation_pools import (
    NodeDeviceAllocator,
)
from koord.controllers.scheduler.plugins.deviceshare.names import GPU

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.deviceshare.evaluation.node_evaluator import (
        DeviceNodeEvaluator,
    )
    from koord.controllers.scheduler.plugins.deviceshare.evaluation.scoring import DeviceScorer
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState


class CardChooser:
    """Allocates on one row.

    Args:
        evaluator: the cache, and the reservations that a pod matches.
        scorer: orders cards for pods that are to hold them.
    """

    def __init__(self, evaluator: DeviceNodeEvaluator, scorer: DeviceScorer) -> None:
        self._evaluator = evaluator
        self._scorer = scorer

    def try_numa_nodes(
        self, cycle_state: DeviceCycleState, row: int, numa_nodes: int | None
    ) -> CardAllocations | Rejection:
        """What a pod would get from some NUMA nodes; cards are not scored."""
        pool = self._pool(cycle_state, row, numa_nodes, reserving=False)
        matched = self._evaluator.reservations(cycle_state, row)
        request, cache = cycle_state.request, self._evaluator.cache
        return NodeDeviceAllocator(cache, row, request, matched, pool).allocate()

    def choose(
        self,
        cycle_state: DeviceCycleState,
        row: int,
        numa_nodes: int | None,
        nominated: str | None,
        preferred_gpus: int = 0,
    ) -> CardAllocations | Rejection:
        """What a pod gets.

        Args:
            cycle_state: of the attempt.
            row: the node.
            numa_nodes: a bit for each NUMA node that devices may come from; None for all.
            nominated: uid of the one reservation to try; None for the first that serves.
            preferred_gpus: GPUs, as a word, that are taken where they will do; 0 for no preference.
        """
        if preferred_gpus:
            chosen = self._choose(cycle_state, row, numa_nodes, nominated, preferred_gpus)
            if not isinstance(chosen, Rejection):
                return chosen
        return self._choose(cycle_state, row, numa_nodes, nominated, 0)

    def _choose(
        self,
        cycle_state: DeviceCycleState,
        row: int,
        numa_nodes: int | None,
        nominated: str | None,
        only_gpus: int,
    ) -> CardAllocations | Rejection:
        pool = self._pool(cycle_state, row, numa_nodes, only_gpus, reserving=True)
        matched = self._evaluator.reservations(cycle_state, row)
        request, cache = cycle_state.request, self._evaluator.cache
        scoring = self._scorer.by_type
        return NodeDeviceAllocator(cache, row, request, matched, pool, scoring).allocate(nominated)

    def _pool(
        self,
        cycle_state: DeviceCycleState,
        row: int,
        numa_nodes: int | None,
        only_gpus: int = 0,
        *,
        reserving: bool,
    ) -> DevicePool:
        base = self._evaluator.base(cycle_state, row)
        if base is FREE_POOL and numa_nodes is None and not only_gpus:
            return RESERVING_POOL if reserving else base
        return DevicePool(
            numa_nodes=numa_nodes,
            required={GPU: only_gpus} if only_gpus else {},
            caps=base.caps,
            designated=base.designated,
            reserving=reserving,
        )
