# SPDX-License-Identifier: Apache-2.0
"""By how much a node that refuses a pod has too few CPUs to bind, or too little in its zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.explain.explanation import amount
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource import designated_allocation
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.allocator import NUMAAllocator
from koord.kernels.numa import TopologyPolicy
from koord.kernels.topology import BindPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.nodenumaresource.allocation.rules import (
        AllocationRules,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.node_evaluator import (
        NUMANodeEvaluator,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest

_HOW: dict[str, str] = {
    BindPolicy.FULL_PCPUS: " in whole cores",
    BindPolicy.SPREAD_BY_PCPUS: " on different cores",
}


class NUMAShortfall(NamedTuple):
    """One thing that there is too little of.

    Attributes:
        share: what part of the request is missing, 0 to 1.
        text: what is free and what is requested.
    """

    share: float
    text: str


def numa_shortfalls(
    evaluator: NUMANodeEvaluator, cycle: Cycle, request: NUMARequest, row: int
) -> list[str]:
    """What a row that rejects the pod has too little of; nothing where amounts are not the reason.

    Where the pod may allocate from several pools, that of the pool that comes nearest.
    """
    rules = evaluator.rules(request, row)
    if isinstance(rules, Rejection) or designated_allocation.of(cycle) is not None:
        return []
    numa_pools = evaluator.numa_pools(cycle, row)
    amplified = evaluator.amplified_shortage(cycle, request, row, rules, numa_pools)
    if amplified is not None:
        requested, free = (amount(CPU, milli) for milli in amplified)
        return [f"{free} of {requested} amplified cpu free"]
    if rules.idle or evaluator.static_rejection(request, row) is not None:
        return []
    node = evaluator.state(row)
    by_pool = [
        _of_pool(NUMAAllocator(node, request, rules.binding, pool), rules) for pool in numa_pools
    ]
    return [shortfall.text for shortfall in min(by_pool, key=_worst, default=[])]


def _worst(shortfalls: list[NUMAShortfall]) -> float:
    return max((shortfall.share for shortfall in shortfalls), default=0.0)


def _of_pool(trial: NUMAAllocator, rules: AllocationRules) -> list[NUMAShortfall]:
    bindable = trial.bindable() if trial.binding.bound else {}
    together = _cpus(trial, sum(bindable.values())) if trial.binding.bound else []
    left = trial.left() if rules.policy is not TopologyPolicy.NONE else None
    if left is None:
        return together
    rows = left.amounts()
    names = [name for name in trial.request.amounts if name in left.frame.names]
    summed = {name: sum(row.get(name, 0) for row in rows.values()) for name in names}
    together += _amounts(trial, summed)
    alone = rules.policy is TopologyPolicy.SINGLE_NUMA_NODE
    if rules.policy is TopologyPolicy.BEST_EFFORT or (together and not alone):
        return together
    zones = [_of_zone(trial, zone, rows[zone], bindable.get(zone, 0)) for zone in rows]
    return min(zones, key=_worst, default=together)


def _of_zone(
    trial: NUMAAllocator, zone: int, row: Mapping[str, int], bindable: int
) -> list[NUMAShortfall]:
    names = trial.node.topology.amounts[zone]
    shortfalls = _cpus(trial, bindable) if trial.binding.bound else []
    shortfalls += _amounts(trial, {name: row.get(name, 0) for name in names})
    return [NUMAShortfall(one.share, f"zone {zone}: {one.text}") for one in shortfalls]


def _cpus(trial: NUMAAllocator, free: int) -> list[NUMAShortfall]:
    """CPUs of its own that a pod cannot have."""
    wanted, how = trial.request.cpus, ""
    if free >= wanted:
        return []
    if trial.binding.required:
        how = _HOW.get(trial.binding.policy, "")
    return [NUMAShortfall(1 - free / wanted, f"{free} of {wanted} CPUs free to bind{how}")]


def _amounts(trial: NUMAAllocator, free: Mapping[str, int]) -> list[NUMAShortfall]:
    """Amounts that are short, but for bound CPUs, which :func:`_cpus` counts."""
    shortfalls = []
    for name, wanted in trial.request.amounts.items():
        available = free.get(name, wanted)
        if available < wanted and not (name == CPU and trial.binding.bound):
            text = f"{name} {amount(name, available)} of {amount(name, wanted)} free"
            shortfalls.append(NUMAShortfall(1 - available / wanted, text))
    return shortfalls
