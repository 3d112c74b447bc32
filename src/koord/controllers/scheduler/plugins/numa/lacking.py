# SPDX-License-Identifier: Apache-2.0
"""By how much a node that refuses a pod has too few CPUs to bind, or too little in its zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.explain.answer import amount
from koord.controllers.scheduler.plugins.numa.allocate import Trial
from koord.kernels.numa import TopologyPolicy
from koord.kernels.topology import BindPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.numa.decide import Terms
    from koord.controllers.scheduler.plugins.numa.offers import Ways
    from koord.controllers.scheduler.plugins.numa.request import Request
    from koord.controllers.scheduler.plugins.numa.state import NodeState

_HOW: dict[str, str] = {
    BindPolicy.FULL_PCPUS: " in whole cores",
    BindPolicy.SPREAD_BY_PCPUS: " on different cores",
}


class Lack(NamedTuple):
    """What there is too little of.

    Attributes:
        share: of what is asked, that is not there.
        text: what there is and what is asked.
    """

    share: float
    text: str


def lacking(node: NodeState, request: Request, terms: Terms, ways: Ways) -> list[str]:
    """What the way that comes nearest lacks; nothing where amounts are not what is wrong."""
    found = [_of_way(Trial(node, request, terms.binding, offer), terms) for offer in ways]
    return [each.text for each in min(found, key=_worst, default=[])]


def _worst(lacks: list[Lack]) -> float:
    return max((each.share for each in lacks), default=0.0)


def _of_way(trial: Trial, terms: Terms) -> list[Lack]:
    bindable = trial.bindable() if trial.binding.bound else {}
    together = _cpus(trial, sum(bindable.values())) if trial.binding.bound else []
    left = trial.left() if terms.policy is not TopologyPolicy.NONE else None
    if left is None:
        return together
    rows = left.amounts()
    names = [name for name in trial.request.amounts if name in left.frame.names]
    summed = {name: sum(row.get(name, 0) for row in rows.values()) for name in names}
    together += _amounts(trial, summed)
    alone = terms.policy is TopologyPolicy.SINGLE_NUMA_NODE
    if terms.policy is TopologyPolicy.BEST_EFFORT or (together and not alone):
        return together
    zones = [_of_zone(trial, zone, rows[zone], bindable.get(zone, 0)) for zone in rows]
    return min(zones, key=_worst, default=together)


def _of_zone(trial: Trial, zone: int, row: Mapping[str, int], bindable: int) -> list[Lack]:
    names = trial.node.machine.amounts[zone]
    lacks = _cpus(trial, bindable) if trial.binding.bound else []
    lacks += _amounts(trial, {name: row.get(name, 0) for name in names})
    return [Lack(each.share, f"zone {zone}: {each.text}") for each in lacks]


def _cpus(trial: Trial, free: int) -> list[Lack]:
    """CPUs of its own that a pod cannot have."""
    wanted, how = trial.request.cpus, ""
    if free >= wanted:
        return []
    if trial.binding.required:
        how = _HOW.get(trial.binding.policy, "")
    return [Lack(1 - free / wanted, f"{free} of {wanted} CPUs free to bind{how}")]


def _amounts(trial: Trial, free: Mapping[str, int]) -> list[Lack]:
    """Amounts that are short; of CPUs that are bound it is known better."""
    lacks = []
    for name, wanted in trial.request.amounts.items():
        there = free.get(name, wanted)
        if there < wanted and not (name == CPU and trial.binding.bound):
            text = f"{name} {amount(name, there)} of {amount(name, wanted)} free"
            lacks.append(Lack(1 - there / wanted, text))
    return lacks
