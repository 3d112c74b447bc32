# SPDX-License-Identifier: Apache-2.0
"""Which single zone a pod gets, by counts, where a single zone decides.

With one provider of hints all resources have the same sets of one zone, and such a set is
preferred under every policy; a merged hint that is preferred comes before all others, and of these
the narrowest. So where any zone has everything, merging comes to this: of the zones that have
everything, the best score, the lowest id among equals. Where none has, SingleNUMANode refuses, and
the other policies need all sets of zones. `koord.kernels.numa` gives the same in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.topology_hints import (
    MOST_ZONES,
)
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.score_formula import (
    ALWAYS,
    score,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import MILLI
from koord.kernels.numa import Exclusive, TopologyPolicy, ZoneStatus

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.nodenumaresource.allocation.rules import (
        AllocationRules,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest
    from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
        NodeAllocations,
    )
    from koord.kernels.numa import Scorer

_NOTHING: Mapping[str, int] = {}


def is_applicable(request: NUMARequest, topology: NodeTopology, rules: AllocationRules) -> bool:
    """Whether :func:`best_zone` may be asked."""
    if rules.policy is TopologyPolicy.NONE or topology.zone_ratio > 1:
        return False
    # The other policies must look at all sets of zones, and give up where these are too many.
    single = rules.policy is TopologyPolicy.SINGLE_NUMA_NODE
    if not single and len(topology.amounts) > MOST_ZONES:
        return False
    listed = {name for row in topology.amounts.values() for name in row}
    if not listed & request.amounts.keys() or min(map(_least, topology.amounts.values())) < 0:
        return False
    if not rules.binding.bound:
        return True
    layout, exact = topology.layout, rules.binding.required and rules.binding.full_cores
    return CPU in listed and layout is not None and (layout.uniform or not exact)


def best_zone(
    node: NodeAllocations, request: NUMARequest, rules: AllocationRules, scorer: Scorer
) -> int | None:
    """The zone that serves the pod best; None if no zone can."""
    topology, binding = node.topology, rules.binding
    required, bound = binding.required, binding.bound
    bindable = node.bindable(binding.policy if required else "") if bound else {}
    barred = node.statuses() if rules.exclusive is Exclusive.REQUIRED else {}
    listed = topology.total.frame.names if topology.total is not None else ()
    amounts = request.amounts
    requested_amounts = [(name, amount) for name, amount in amounts.items() if name in listed]
    best, highest = None, -1
    like: tuple[Mapping[str, int], Mapping[str, int], int | None] | None = None
    # One of the hottest loops of a first look where all machines differ.
    for zone, row in topology.amounts.items():
        count = bindable.get(zone, 0)
        if barred.get(zone) is ZoneStatus.SHARED or (bound and count < request.cpus):
            continue
        most = count * MILLI if required else None
        used = node.used.get(zone, _NOTHING)
        if (row, used, most) == like:
            continue  # no better than the one before, and that goes first
        like = (row, used, most)
        if any(_left(name, row, used, most) < amount for name, amount in requested_amounts):
            continue
        found = _score(scorer, row, used, most, amounts)
        if found > highest:
            best, highest = zone, found
    return best


def _left(name: str, row: Mapping[str, int], used: Mapping[str, int], most_cpu: int | None) -> int:
    left = row.get(name, 0) - used.get(name, 0)
    if left <= 0:
        return 0
    return left if most_cpu is None or name != CPU else min(left, most_cpu)


def _score(
    scorer: Scorer,
    row: Mapping[str, int],
    used: Mapping[str, int],
    most_cpu: int | None,
    requested_amounts: Mapping[str, int],
) -> int:
    total = weight = 0
    for name, factor in scorer.weights.items():
        capacity, wanted = row.get(name, 0), requested_amounts.get(name, 0)
        if not capacity or (not wanted and name not in ALWAYS):
            continue
        use = capacity - _left(name, row, used, most_cpu) + wanted
        total += score(scorer.strategy, use, capacity) * factor
        weight += factor
    return total // weight if weight else 0


def _least(row: Mapping[str, int]) -> int:
    return min(row.values(), default=0)
