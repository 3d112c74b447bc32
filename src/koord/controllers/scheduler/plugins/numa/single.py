# SPDX-License-Identifier: Apache-2.0
"""SingleNUMANode in short: which one zone a pod gets, where nothing makes that a long story.

With one provider of hints only sets of one zone count, and all resources have the same ones.
Merging their hints then comes to this: of the zones that have everything, the best score, the
lowest id among equals. `koord.kernels.numa` says the same by the whole procedure, and says why not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa.amounts import MILLI
from koord.controllers.scheduler.plugins.numa.scoring import ALWAYS, score
from koord.kernels.numa import Exclusive, TopologyPolicy, ZoneStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.numa.decide import Terms
    from koord.controllers.scheduler.plugins.numa.machine import Machine
    from koord.controllers.scheduler.plugins.numa.request import Request
    from koord.controllers.scheduler.plugins.numa.state import NodeState
    from koord.kernels.numa import Scorer


def decides(request: Request, machine: Machine, terms: Terms) -> bool:
    """Whether :func:`best_zone` may be asked."""
    if terms.policy is not TopologyPolicy.SINGLE_NUMA_NODE or machine.zone_ratio > 1:
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
    required = binding.required
    bindable = node.bindable(binding.policy if required else "") if binding.bound else {}
    barred = node.statuses() if terms.exclusive is Exclusive.REQUIRED else {}
    listed = machine.total.frame.names if machine.total is not None else ()
    asked = {name: amount for name, amount in request.amounts.items() if name in listed}
    best, highest = None, -1
    for zone, row in machine.amounts.items():
        count = bindable.get(zone, 0)
        if barred.get(zone) is ZoneStatus.SHARED or (binding.bound and count < request.cpus):
            continue
        left = node.plain_left(zone)
        if required and left.get(CPU):
            left[CPU] = min(left[CPU], count * MILLI)
        if any(left.get(name, 0) < amount for name, amount in asked.items()):
            continue
        found = _score(scorer, row, left, request.amounts)
        if found > highest:
            best, highest = zone, found
    return best


def _score(
    scorer: Scorer, row: Mapping[str, int], left: Mapping[str, int], asked: Mapping[str, int]
) -> int:
    total = weight = 0
    for name, factor in scorer.weights.items():
        capacity = row.get(name, 0)
        if not capacity or (name not in ALWAYS and not asked.get(name)):
            continue
        used = capacity - left[name] + asked.get(name, 0)
        total += score(scorer.strategy, used, capacity) * factor
        weight += factor
    return total // weight if weight else 0


def _least(row: Mapping[str, int]) -> int:
    return min(row.values(), default=0)
