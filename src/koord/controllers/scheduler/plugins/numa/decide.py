# SPDX-License-Identifier: Apache-2.0
"""The whole answer for one pod on one node: which rules hold, which zones, which CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa import reasons
from koord.controllers.scheduler.plugins.numa.allocate import Trial, Zones, capped
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.machine import Machine, amplify
from koord.controllers.scheduler.plugins.numa.offers import Ways
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.numa.request import (
    Binding,
    Request,
    binding_on,
    contradiction,
)
from koord.controllers.scheduler.plugins.numa.state import NodeState
from koord.kernels import numa
from koord.kernels.numa import Exclusive, Pool, Provider, Scorer, TopologyPolicy


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules that hold for a pod on a kind of node."""

    binding: Binding
    policy: TopologyPolicy
    exclusive: Exclusive

    @property
    def idle(self) -> bool:
        """Nothing is to be allocated."""
        return not self.binding.bound and self.policy is TopologyPolicy.NONE


def terms_of(request: Request, machine: Machine) -> Terms | Refusal:
    """The rules, or why pod and node contradict each other."""
    policy = numa.effective_policy(machine.numa_policy, request.numa_policy, request.numa_exclusive)
    if policy.conflict:
        return reasons.NUMA_POLICY_CONFLICT
    binding = binding_on(request, machine)
    if isinstance(binding, Refusal):
        return binding
    if machine.bad_ratio and request.cpu_milli:
        return reasons.INVALID_RATIO
    return Terms(binding, policy.policy, policy.exclusive)


def impossible(request: Request, machine: Machine, terms: Terms) -> Refusal | None:
    """Why a node of this kind cannot take the pod under its rules, whatever is free."""
    if terms.binding.bound:
        contradicted = contradiction(request, machine, terms.binding)
        if contradicted is not None:
            return contradicted
    if terms.policy is not TopologyPolicy.NONE and not machine.amounts:
        return reasons.MISSING_ZONES
    return None


def allocate(
    node: NodeState, request: Request, binding: Binding, ways: Ways, affinity: Zones | None
) -> Allocation | Refusal:
    """What the first way gives that gives anything."""
    refusals = []
    for offer in ways:
        found = Trial(node, request, binding, offer).allocate(affinity)
        if isinstance(found, Allocation):
            return found
        refusals.append(found)
    return reasons.of_reservations(refusals) if ways.node is None else refusals[-1]


def hints(
    node: NodeState, request: Request, terms: Terms, ways: Ways, scorer: Scorer | None
) -> Provider:
    """The sets of zones that can serve the pod, resource by resource."""
    machine, binding = node.machine, terms.binding
    try:
        pools = []
        for offer in ways:
            trial = Trial(node, request, binding, offer)
            bindable = trial.bindable() if binding.bound else {}
            pools.append(Pool(trial.available(), trial.cpu_binding(bindable)))
        base = Trial(node, request, binding, ways.base)
        judged = base.available()
        if binding.required:
            judged = capped(judged, base.bindable())
        return Provider(
            numa.generate_hints(
                machine.amounts, judged, request.amounts, terms.policy,
                pools=pools, amplified=scored(request, machine, binding), scorer=scorer,
            )
        )  # fmt: skip
    except ValueError:
        # More zones or larger amounts than can be reasoned about.
        return Provider(failure=reasons.NO_HINTS.reasons[0])


def scored(request: Request, machine: Machine, binding: Binding) -> dict[str, int]:
    """The request as scores see it: bound CPUs are amplified."""
    row = dict(request.amounts)
    if binding.bound:
        row[CPU] = amplify(request.cpu_milli, machine.zone_ratio)
    return row
