# SPDX-License-Identifier: Apache-2.0
"""CPUSetAllocator: the CPUs of containers, bound ones and shared pools.

Rule: docs/reference/hooks.md#cpusetallocator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.executor.target import CPUS, QUOTA
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.hooks.pod_contexts import read_once
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol import annotation, keys, topology
from koord.api.protocol.nodes import SystemQOSResource
from koord.api.protocol.qos import QoSClass, parse_qos
from koord.api.protocol.resources import BATCH_CPU, CPU
from koord.api.protocol.scheduling import ResourceStatus, resource_status
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import KubeQos
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions
    from koord.api.kinds.slo_strategies import HostApplication
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.api.protocol.topology import CPUSharedPool

BE_CPU_MANAGER = "BECPUManager"


@dataclass(frozen=True)
class CPUSetRule:
    """Pools and policies of the node.

    Attributes:
        shared: pools of LS pods.
        be_shared: pools of BE pods.
        kubelet_policy: ``static`` where the kubelet binds CPUs too.
        system: CPUs of SYSTEM pods.
    """

    shared: tuple[tuple[int, str], ...]
    be_shared: tuple[tuple[int, str], ...]
    kubelet_policy: str
    system: str


def rule_of(nrt: NodeResourceTopology) -> CPUSetRule:
    """What a NodeResourceTopology means.

    Raises:
        KoordError: an annotation is malformed.
    """
    system = annotation.read(nrt, keys.SYSTEM_QOS_RESOURCE, SystemQOSResource)
    cpus = system.cpuset if system else ""
    try:
        CPUSet.parse_wire(cpus)
    except ValueError as error:
        field = annotation.field_of(keys.SYSTEM_QOS_RESOURCE)
        raise KoordError.wrap(nrt.title, f"{field}.cpuset", error) from None
    return CPUSetRule(
        shared=_pools(topology.shared_pools(nrt)),
        be_shared=_pools(topology.shared_pools(nrt, be=True)),
        kubelet_policy=topology.kubelet_cpu_manager_policy(nrt).policy,
        system=cpus,
    )


def _pools(pools: list[CPUSharedPool]) -> tuple[tuple[int, str], ...]:
    return tuple((pool.node, pool.cpuset) for pool in pools)


def cpus_of(
    rule: CPUSetRule | None,
    status: ResourceStatus,
    qos: QoSClass,
    kube_qos: KubeQos,
    be_cpu_manager: bool,
) -> tuple[str, str] | None:
    """The CPUs of a container and why; empty text clears, None leaves alone.

    Args:
        rule: of the node; None while its topology is not known.
        status: what the scheduler gave the pod.
        qos: the label's class.
        kube_qos: by the cgroup.
        be_cpu_manager: whether BE pods stay on the CPUs of their NUMA nodes.
    """
    if status.cpuset:
        return status.cpuset, "CPUs that the scheduler bound"
    if rule is None:
        return None
    nodes = _nodes_of(status)
    if nodes and qos is not QoSClass.BE:
        return _of_nodes(rule.shared, nodes), "shared CPUs of its NUMA nodes"
    if nodes and be_cpu_manager:
        return _of_nodes(rule.be_shared, nodes), "BE CPUs of its NUMA nodes"
    shared = ",".join(cpus for _, cpus in rule.shared if cpus)
    if qos is QoSClass.SYSTEM and rule.system:
        return rule.system, "CPUs of SYSTEM pods"
    if qos is QoSClass.LS:
        return shared, "shared CPUs"
    if kube_qos is KubeQos.BEST_EFFORT:
        return "", "no CPUs of its own"
    return None if rule.kubelet_policy == "static" else (shared, "shared CPUs")


def _nodes_of(status: ResourceStatus) -> list[int]:
    """NUMA nodes of an allocation that gave CPUs there; all nodes if any of them did."""
    gave = any(
        row.resources.get(name) for row in status.numa_node_resources for name in (CPU, BATCH_CPU)
    )
    return [row.node for row in status.numa_node_resources] if gave else []


def _of_nodes(pools: tuple[tuple[int, str], ...], nodes: list[int]) -> str:
    return ",".join(cpus for node in nodes for where, cpus in pools if where == node and cpus)


class CPUSetAllocator(BaseHook):
    """Answers the CPUs of containers, and no CPU quota for those with CPUs of their own."""

    name = "CPUSetAllocator"
    gate = "CPUSetAllocator"
    stages = frozenset(
        {
            HookStage.PRE_RUN_POD_SANDBOX,
            HookStage.PRE_CREATE_CONTAINER,
            HookStage.PRE_UPDATE_CONTAINER_RESOURCES,
        }
    )
    follows = SnapshotPart.TOPOLOGY

    def __init__(self, options: HookOptions) -> None:
        self._options = options
        self._rule: CPUSetRule | None = None

    def learn(self, snapshot: Snapshot) -> bool:
        """From the NodeResourceTopology; a malformed one leaves the last good rule."""
        nrt = snapshot.topology.value
        rule = rule_of(nrt) if nrt else None
        changed, self._rule = rule != self._rule, rule
        return changed

    def pod(self, context: PodContext) -> HookResponse | None:
        """No quota for a pod with CPUs of its own, which would only throttle it."""
        status = read_once(context, resource_status)
        if not status.cpuset or self._options.disable_unset_cpu_quota:
            return None
        return HookResponse({QUOTA: -1}, reason="CPUs that the scheduler bound")

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Its CPUs, and no quota where they are its own."""
        pod = context.pod
        status = read_once(pod, resource_status)
        manages_be = self._options.gate(BE_CPU_MANAGER)
        found = cpus_of(self._rule, status, pod.qos, pod.kube_qos, manages_be)
        if found is None:
            return None
        cpus, reason = found
        answer = HookResponse({CPUS: cpus}, reason=reason)
        if status.cpuset and not self._options.disable_unset_cpu_quota:
            answer.values[QUOTA] = -1
        return answer

    def host_application(self, application: HostApplication) -> HookResponse | None:
        """All shared CPUs for one of class LS; no other class is served.

        Raises:
            KoordError: another class.
        """
        if self._rule is None:
            return None
        if parse_qos(application.qos) is not QoSClass.LS:
            where = f"host application {application.name}"
            raise KoordError(where, "qos", application.qos, "LS, the class that shares CPUs")
        shared = ",".join(cpus for _, cpus in self._rule.shared if cpus)
        return HookResponse({CPUS: shared}, reason="shared CPUs")
