# SPDX-License-Identifier: Apache-2.0
"""Which bind and topology policies hold for a pod on one kind of node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import (
    CPUBindRules,
    bind_rules_on,
    contradiction,
)
from koord.kernels import numa
from koord.kernels.numa import Exclusive, TopologyPolicy

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest


@dataclass(frozen=True, slots=True)
class AllocationRules:
    """The rules that hold for a pod on a kind of node.

    Attributes:
        binding: how its CPUs are chosen.
        policy: how its zones are aligned.
        exclusive: whether it wants zones that no pods of another kind use.
    """

    binding: CPUBindRules
    policy: TopologyPolicy
    exclusive: Exclusive

    @property
    def idle(self) -> bool:
        """Nothing is to be allocated."""
        return not self.binding.bound and self.policy is TopologyPolicy.NONE


def rules_of(request: NUMARequest, topology: NodeTopology) -> AllocationRules | Rejection:
    """The rules, or why pod and node contradict each other."""
    if not request.amounts:
        # Who asks for nothing is no concern of ours, wherever it goes.
        return AllocationRules(CPUBindRules(), TopologyPolicy.NONE, Exclusive.NONE)
    policy = numa.effective_policy(
        topology.numa_policy, request.numa_policy, request.numa_exclusive
    )
    if policy.conflict:
        return reasons.NUMA_POLICY_CONFLICT
    binding = bind_rules_on(request, topology)
    if isinstance(binding, Rejection):
        return binding
    if topology.invalid_ratio and request.cpu_milli:
        return reasons.INVALID_RATIO
    return AllocationRules(binding, policy.policy, policy.exclusive)


def static_rejection(
    request: NUMARequest, topology: NodeTopology, rules: AllocationRules
) -> Rejection | None:
    """Why a node of this kind cannot take the pod under its rules, whatever is free."""
    if rules.binding.bound:
        contradicted = contradiction(request, topology, rules.binding)
        if contradicted is not None:
            return contradicted
    if rules.policy is not TopologyPolicy.NONE and not topology.amounts:
        return reasons.MISSING_ZONES
    return None
