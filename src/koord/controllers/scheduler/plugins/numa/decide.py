# SPDX-License-Identifier: Apache-2.0
"""The whole answer for one pod on one node: which rules hold, which zones, which CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa import reasons
from koord.controllers.scheduler.plugins.numa.allocate import Trial, Zones
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
from koord.kernels.numa import (
    CpuBinding,
    Exclusive,
    Provider,
    Scorer,
    TopologyPolicy,
    ZoneTable,
)

# The limits of koord.kernels.numa, which goes through all sets of zones. A pod's amounts are within
# its limits otherwise.
MOST_ZONES, _MOST_CPUS = 16, 1 << 31


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
    if not request.amounts:
        # Who asks for nothing is no concern of ours, wherever it goes.
        return Terms(Binding(), TopologyPolicy.NONE, Exclusive.NONE)
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
    """The sets of zones that can serve the pod, resource by resource.

    Raises:
        ValueError: what pods hold of the node's zones cannot be added up.
    """
    machine, binding, total = node.machine, terms.binding, node.machine.total
    if total is None or _beyond(request, machine, binding):
        return Provider(failure=reasons.NO_HINTS.reasons[0])
    pools = [_pool(Trial(node, request, binding, offer)) for offer in ways]
    judged, cpus = pools[-1]
    if ways.base is not ways.node:
        judged, cpus = _pool(Trial(node, request, binding, ways.base))
    return Provider(
        total.hints(
            judged.capped(cpus) if cpus is not None and binding.required else judged,
            request.amounts,
            terms.policy,
            pools,
            amplified=scored(request, machine, binding),
            scorer=scorer,
        )
    )


def _beyond(request: Request, machine: Machine, binding: Binding) -> bool:
    """Whether there are more zones, or more CPUs are wanted, than can be reasoned about."""
    return len(machine.amounts) > MOST_ZONES or (binding.bound and request.cpus > _MOST_CPUS)


def _pool(trial: Trial) -> tuple[ZoneTable, CpuBinding | None]:
    left = trial.left()
    assert left is not None, "a machine with zones, and nothing that they have left"
    return left, trial.cpu_binding(trial.bindable()) if trial.binding.bound else None


def scored(request: Request, machine: Machine, binding: Binding) -> dict[str, int]:
    """The request as scores see it: bound CPUs are amplified."""
    row = dict(request.amounts)
    if binding.bound:
        row[CPU] = amplify(request.cpu_milli, machine.zone_ratio)
    return row
