# SPDX-License-Identifier: Apache-2.0
"""Zone policies in short: which one zone a pod gets, where nothing makes that a long story.

With one provider of hints all resources have the same sets of one zone, and such a set is
preferred under every policy; a merged hint that is preferred comes before all others, and of these
the narrowest. So where any zone has everything, merging comes to this: of the zones that have
everything, the best score, the lowest id among equals. Where none has, SingleNUMANode refuses, and
the other policies are a longer story. `koord.kernels.numa` says the same by the whole procedure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa.amounts import MILLI
from koord.controllers.scheduler.plugins.numa.decide import MOST_ZONES
from koord.controllers.scheduler.plugins.numa.scoring import ALWAYS, score
from koord.kernels.numa import Exclusive, TopologyPolicy, ZoneStatus

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.numa.decide import Terms
    from koord.controllers.scheduler.plugins.numa.machine import Machine
    from koord.controllers.scheduler.plugins.numa.request import Request
    from koord.controllers.scheduler.plugins.numa.state import NodeState
    from koord.kernels.numa import Scorer

_NOTHING: Mapping[str, int] = {}


def decides(request: Request, machine: Machine, terms: Terms) -> bool:
    """Whether :func:`best_zone` may be asked."""
    if terms.policy is TopologyPolicy.NONE or machine.zone_ratio > 1:
        return False
    # The other policies must look at all sets of zones, and give up where these are too many.
    single = terms.policy is TopologyPolicy.SINGLE_NUMA_NODE
    if not single and len(machine.amounts) > MOST_ZONES:
        return False
    listed = {name for row in machine.amounts.values() for name in row}
    if not listed & request.amounts.keys() or min(map(_least, machine.amounts.values())) < 0:
        return False
    if not terms.binding.bound:
        return True
    layout, exact = machine.layout, terms.binding.required and terms.binding.full_cores
    return CPU in listed and layout is not None and (layout.uniform or not exact)


def best_zone(node: NodeState, request: Request, terms: Terms, scorer: Scorer) -> int | None:
    """The zone that serves the pod best; None if no zone can."""
    machine, binding = node.machine, terms.binding
    required, bound = binding.required, binding.bound
    bindable = node.bindable(binding.policy if required else "") if bound else {}
    barred = node.statuses() if terms.exclusive is Exclusive.REQUIRED else {}
    listed = machine.total.frame.names if machine.total is not None else ()
    amounts = request.amounts
    asked = [(name, amount) for name, amount in amounts.items() if name in listed]
    best, highest = None, -1
    like: tuple[Mapping[str, int], Mapping[str, int], int | None] | None = None
    # One of the hottest loops of a first look where all machines differ.
    for zone, row in machine.amounts.items():
        count = bindable.get(zone, 0)
        if barred.get(zone) is ZoneStatus.SHARED or (bound and count < request.cpus):
            continue
        most = count * MILLI if required else None
        used = node.used.get(zone, _NOTHING)
        if (row, used, most) == like:
            continue  # no better than the one before, and that goes first
        like = (row, used, most)
        if any(_left(name, row, used, most) < amount for name, amount in asked):
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
    asked: Mapping[str, int],
) -> int:
    total = weight = 0
    for name, factor in scorer.weights.items():
        capacity, wanted = row.get(name, 0), asked.get(name, 0)
        if not capacity or (not wanted and name not in ALWAYS):
            continue
        use = capacity - _left(name, row, used, most_cpu) + wanted
        total += score(scorer.strategy, use, capacity) * factor
        weight += factor
    return total // weight if weight else 0


def _least(row: Mapping[str, int]) -> int:
    return min(row.values(), default=0)
