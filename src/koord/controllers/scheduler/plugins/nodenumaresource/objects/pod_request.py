# SPDX-License-Identifier: Apache-2.0
"""What a pod wants of CPUs and NUMA zones, and what a node makes of it.

The rules are those of Koordinator's NodeNUMAResource plugin: who may bind CPUs, which policy is in
force, when the two contradict each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys, nodes
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.qos import QoSClass, raw_qos
from koord.api.protocol.resources import CPU
from koord.api.protocol.scheduling import ResourceSpec, numa_topology_spec, resource_spec
from koord.base.errors import KoordError
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import MILLI
from koord.kernels.numa import Exclusive, TopologyPolicy
from koord.kernels.topology import BindPolicy, ExclusivePolicy

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )

_BIND_POLICIES = (BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS)
NODE_POLICIES = {
    nodes.FULL_PCPUS_ONLY: BindPolicy.FULL_PCPUS,
    nodes.SPREAD_BY_PCPUS: BindPolicy.SPREAD_BY_PCPUS,
}
_MAY_BIND = (QoSClass.LSE, QoSClass.LSR)
_SPEC_FIELD = annotation.field_of(keys.RESOURCE_SPEC)
_NUMA_FIELD = annotation.field_of(keys.NUMA_TOPOLOGY_SPEC)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NUMARequest:
    """What pods of one shape ask for.

    ``amounts`` are above zero, in base units, CPU in milli; ``cpus`` is the CPU amount in whole
    ones, cut. ``bound`` pods ask for CPUs of their own, under the ``required`` policy or, where
    that is empty, under ``preferred`` as far as possible.
    """

    amounts: Mapping[str, int]
    bound: bool = False
    required: str = ""
    preferred: str = ""
    exclusive: str = ExclusivePolicy.NONE
    numa_policy: TopologyPolicy = TopologyPolicy.NONE
    numa_exclusive: Exclusive = Exclusive.NONE

    @property
    def cpu_milli(self) -> int:
        """The CPU amount."""
        return self.amounts.get(CPU, 0)

    @property
    def cpus(self) -> int:
        """Whole CPUs, cut."""
        return self.cpu_milli // MILLI

    def key(self) -> Hashable:
        """Equal for requests that get equal answers."""
        return (
            tuple(sorted(self.amounts.items())), self.bound, self.required, self.preferred,
            self.exclusive, self.numa_policy, self.numa_exclusive,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CPUBindRules:
    """How the pod's CPUs are chosen on one node; not ``bound`` means that it shares them."""

    bound: bool = False
    policy: str = BindPolicy.DEFAULT
    required: bool = False

    @property
    def full_cores(self) -> bool:
        """Whether the policy is about whole cores."""
        return self.policy == BindPolicy.FULL_PCPUS


_SHARED = CPUBindRules()


def request_of(
    pod: Pod, amounts: Mapping[str, int], default_policy: str
) -> NUMARequest | Rejection:
    """Reads what a pod asks for.

    Args:
        pod: a pod, or the pod of a Reservation.
        amounts: its requests in base units, CPU in milli.
        default_policy: the bind policy of LSE and LSR pods without one; empty for none.

    Raises:
        KoordError: an annotation is malformed, or names a policy that does not exist.
    """
    positive = {name: amount for name, amount in amounts.items() if amount > 0}
    if not pod.metadata.annotations and raw_qos(pod.metadata.labels) not in _MAY_BIND:
        return NUMARequest(positive)
    spec = resource_spec(pod)
    policy, exclusive = _numa_policy(pod)
    if raw_qos(pod.metadata.labels) not in _MAY_BIND:
        return NUMARequest(positive, numa_policy=policy, numa_exclusive=exclusive)
    if class_with_default(pod) is not PriorityClass.PROD:
        return NUMARequest(positive, numa_policy=policy, numa_exclusive=exclusive)
    _check_spec(pod, spec)
    required = _defaulted(spec.required_cpu_bind_policy, default_policy)
    working = required or _defaulted(spec.preferred_cpu_bind_policy or "Default", default_policy)
    milli = positive.get(CPU, 0)
    if working and milli % MILLI:
        return reasons.CPUS_NOT_INTEGER
    if not working or not milli:
        return NUMARequest(positive, numa_policy=policy, numa_exclusive=exclusive)
    kept_off = spec.preferred_cpu_exclusive_policy or ExclusivePolicy.NONE
    return NUMARequest(positive, True, required, working, kept_off, policy, exclusive)


def bind_rules_on(request: NUMARequest, topology: NodeTopology) -> CPUBindRules | Rejection:
    """How CPUs are bound on a node, or why the pod and the node contradict each other."""
    of_node = NODE_POLICIES.get(topology.bind_policy, "")
    if not request.bound:
        if not of_node or not request.cpu_milli:
            return _SHARED
        if request.cpu_milli % MILLI:
            return reasons.CPUS_NOT_INTEGER
    policy = request.required or of_node
    return CPUBindRules(True, policy or request.preferred, bool(policy))


def contradiction(
    request: NUMARequest, topology: NodeTopology, binding: CPUBindRules
) -> Rejection | None:
    """Why bound CPUs cannot be had on this kind of node whatever is free."""
    if topology.cpu_topology is None:
        return reasons.INVALID_TOPOLOGY
    of_node = NODE_POLICIES.get(topology.bind_policy, "")
    if request.required and of_node and request.required != of_node:
        return reasons.BIND_POLICY_CONFLICT
    if binding.required and binding.full_cores and request.cpus % topology.threads:
        return reasons.SMT_ALIGNMENT
    return None


def completed_spec(spec: ResourceSpec, binding: CPUBindRules) -> ResourceSpec | None:
    """The resource spec with the policy that was used filled in; None where nothing is missing."""
    required, preferred = spec.required_cpu_bind_policy, spec.preferred_cpu_bind_policy
    if binding.required and required in ("", BindPolicy.DEFAULT):
        required = binding.policy
    if preferred == BindPolicy.DEFAULT:
        preferred = binding.policy
    if not required and not preferred:
        preferred = binding.policy
    if (required, preferred) == (spec.required_cpu_bind_policy, spec.preferred_cpu_bind_policy):
        return None
    # Plain text: members of an enumeration are not what goes into a document.
    return ResourceSpec(
        required_cpu_bind_policy=str(required),
        preferred_cpu_bind_policy=str(preferred),
        preferred_cpu_exclusive_policy=spec.preferred_cpu_exclusive_policy,
    )


def _defaulted(policy: str, default: str) -> str:
    return default if policy == BindPolicy.DEFAULT else policy


def _check_spec(pod: Pod, spec: ResourceSpec) -> None:
    for name, value in (
        ("requiredCPUBindPolicy", spec.required_cpu_bind_policy),
        ("preferredCPUBindPolicy", spec.preferred_cpu_bind_policy),
    ):
        if value and value not in (BindPolicy.DEFAULT, *_BIND_POLICIES):
            expected = "Default, FullPCPUs or SpreadByPCPUs"
            raise KoordError(pod.title, f"{_SPEC_FIELD}.{name}", value, expected)
    exclusive = spec.preferred_cpu_exclusive_policy
    if exclusive and exclusive not in tuple(ExclusivePolicy):
        field = f"{_SPEC_FIELD}.preferredCPUExclusivePolicy"
        raise KoordError(pod.title, field, exclusive, "None, PCPULevel or NUMANodeLevel")


def _numa_policy(pod: Pod) -> tuple[TopologyPolicy, Exclusive]:
    spec = numa_topology_spec(pod)
    policy, exclusive = spec.numa_topology_policy, spec.single_numa_node_exclusive
    if policy not in tuple(TopologyPolicy):
        expected = "BestEffort, Restricted or SingleNUMANode"
        raise KoordError(pod.title, f"{_NUMA_FIELD}.numaTopologyPolicy", policy, expected)
    if exclusive not in tuple(Exclusive):
        field = f"{_NUMA_FIELD}.singleNUMANodeExclusive"
        raise KoordError(pod.title, field, exclusive, "Preferred or Required")
    return TopologyPolicy(policy), Exclusive(exclusive)
