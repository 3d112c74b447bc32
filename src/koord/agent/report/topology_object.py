# SPDX-License-Identifier: Apache-2.0
"""The NodeResourceTopology of this node.

Rule: docs/reference/reports.md#noderesourcetopology.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from koord.agent.report.cpu_pools import BoundCPUs, kept_cpus, readable_cpus, shared_pools
from koord.agent.report.kubelet_cpu_packing import packed_cpus
from koord.agent.states.cpu_manager import NAME, CPUManagerState
from koord.api import codec
from koord.api.kinds.meta import ObjectMeta, OwnerReference
from koord.api.kinds.topology import NodeResourceTopology, Zone, ZoneResource
from koord.api.protocol import annotation, keys
from koord.api.protocol.node_reservation import NodeReservation, node_reservation
from koord.api.protocol.nodes import SystemQOSResource, system_qos_resource
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.scheduling import resource_status
from koord.api.protocol.topology import (
    CPUBasicInfo,
    CPUInfo,
    CPUTopology,
    KubeletCPUManagerPolicy,
    PodCPUAlloc,
    pod_cpu_allocs_text,
)
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet
from koord.kernels.quantity import Format, Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koord.agent.states.kubelet import KubeletConfiguration
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.node import Node

STATIC = "static"
_MILLI = 1000
_ZERO = Quantity()
# What a kubelet can hold back.
_RESERVABLE = {"cpu", "memory", "ephemeral-storage", "pid"}
_POLICIES = {
    ("container", "single-numa-node"): "SingleNUMANodeContainerLevel",
    ("container", "restricted"): "RestrictedContainerLevel",
    ("container", "best-effort"): "BestEffortContainerLevel",
    ("pod", "single-numa-node"): "SingleNUMANodePodLevel",
    ("pod", "restricted"): "RestrictedPodLevel",
    ("pod", "best-effort"): "BestEffortPodLevel",
}


@dataclass(frozen=True)
class ZoneMemory:
    """Memory of one NUMA node in bytes; huge pages are no part of ``memory``."""

    memory_bytes: int
    huge_2mi_bytes: int = 0
    huge_1gi_bytes: int = 0


@dataclass(frozen=True)
class NodeHardware:
    """What of the machine goes into the object.

    Attributes:
        cpus: those online, by id.
        basic: model and switches.
        zones: by id of the NUMA node; ids may have gaps, and a node may have memory alone.
    """

    cpus: Sequence[CPUInfo]
    basic: CPUBasicInfo
    zones: Mapping[int, ZoneMemory]


@dataclass(frozen=True)
class KubeletView:
    """What the kubelet says about CPUs; empty where it is not asked.

    Attributes:
        configuration: from ``/configz``.
        allocations: of the static policy, by pod UID.
    """

    configuration: KubeletConfiguration | None = None
    allocations: dict[str, CPUSet] = field(default_factory=dict)


def ignore(line: str) -> None:
    """For who does not want to be told."""
    del line


def kubelet_allocations(text: bytes) -> dict[str, CPUSet]:
    """CPUs by pod UID from the kubelet's ``cpu_manager_state``; empty text has none.

    A container's list that cannot be read is left out.

    Raises:
        KoordError: no JSON of that form.
    """
    if not text.strip():
        return {}
    found: dict[str, CPUSet] = {}
    state = codec.decode_json(text, CPUManagerState, NAME)
    for uid, containers in sorted(state.entries.items()):
        union = CPUSet()
        for cpus in containers.values():
            union = union | readable_cpus(cpus)
        if union:
            found[uid] = union
    return found


def topology_object(
    node: Node,
    hardware: NodeHardware,
    pods: Sequence[PodState],
    kubelet: KubeletView,
    log_line: Callable[[str], None] = ignore,
) -> NodeResourceTopology:
    """The object as it should be; what others keep in it is not in here.

    Args:
        node: with its annotations.
        hardware: what the machine has.
        pods: those of the node.
        kubelet: what it says.
        log_line: gets a line for each annotation that is malformed, and left out.

    Raises:
        KoordError: nothing is known of the memory of a NUMA node that has CPUs.
    """
    zones = {cpu.node for cpu in hardware.cpus}
    if not zones <= hardware.zones.keys():
        expected = f"{_listed(zones)}, as the CPUs have, or more"
        raise KoordError(node.title, "NUMA nodes with memory", _listed(hardware.zones), expected)
    return NodeResourceTopology(
        metadata=ObjectMeta(
            name=node.metadata.name,
            labels=_labels(node),
            annotations=_annotations(node, hardware, pods, kubelet, log_line),
            owner_references=[owner(node)],
        ),
        topology_policies=[_policy(kubelet.configuration)],
        zones=_zones(node, hardware),
    )


def _listed(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))


def _labels(node: Node) -> dict[str, str]:
    found = {keys.MANAGED_BY: "Koordinator"}
    if divides := node.metadata.labels.get(keys.ENABLE_NUMA_RESERVATION):
        found[keys.ENABLE_NUMA_RESERVATION] = divides
    return found


def owner(node: Node) -> OwnerReference:
    """The reference that makes an object go with its node."""
    return OwnerReference(
        api_version="v1",
        kind="Node",
        name=node.metadata.name,
        uid=node.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def _annotations(
    node: Node,
    hardware: NodeHardware,
    pods: Sequence[PodState],
    kubelet: KubeletView,
    log_line: Callable[[str], None],
) -> dict[str, str]:
    bound = bound_pods(pods, log_line)
    allocations = _kubelet_pods(kubelet, pods, bound)
    by_kubelet = CPUSet()
    for allocation in allocations:
        by_kubelet = by_kubelet | readable_cpus(allocation.cpuset)
    reserved = _reservation(node, hardware, log_line)
    system = _system(node, log_line)
    kept = readable_cpus(reserved.reserved_cpus)
    if system is not None and system.exclusive:
        kept = kept | readable_cpus(system.cpuset)
    pools = shared_pools(hardware.cpus, bound.values(), by_kubelet, kept)
    found = {
        keys.CPU_BASIC_INFO: annotation.text(hardware.basic),
        keys.CPU_TOPOLOGY: annotation.text(CPUTopology(detail=list(hardware.cpus))),
        keys.CPU_SHARED_POOLS: annotation.text(pools.shared),
        keys.BE_CPU_SHARED_POOLS: annotation.text(pools.best_effort),
        keys.POD_CPU_ALLOCS: pod_cpu_allocs_text(allocations),
        keys.CPU_MANAGER_POLICY: annotation.text(_manager_policy(kubelet, hardware)),
    }
    if keys.NODE_RESERVATION in node.metadata.annotations:
        found[keys.NODE_RESERVATION] = annotation.text(reserved)
    if system is not None:
        found[keys.SYSTEM_QOS_RESOURCE] = annotation.text(system)
    return found


def bound_pods(
    pods: Sequence[PodState], log_line: Callable[[str], None] = ignore
) -> dict[str, BoundCPUs]:
    """The pods that are bound to CPUs by koord's scheduler, by UID; ended ones hold none."""
    found = {}
    for pod in pods:
        if pod.terminated or keys.RESOURCE_STATUS not in pod.pod.metadata.annotations:
            continue
        try:
            cpus = resource_status(pod.pod).cpuset
        except KoordError as error:
            log_line(f"pod {pod.key} not counted: {error}")
            continue
        if readable_cpus(cpus):
            found[pod.uid] = BoundCPUs(pod.qos_default, cpus)
    return found


def _kubelet_pods(
    kubelet: KubeletView, pods: Sequence[PodState], bound: dict[str, BoundCPUs]
) -> list[PodCPUAlloc]:
    by_uid = {pod.uid: pod for pod in pods}
    found = []
    for uid, cpus in sorted(kubelet.allocations.items()):
        pod = by_uid.get(uid)
        if uid in bound or (pod is not None and pod.qos in (QoSClass.LS, QoSClass.BE)):
            continue
        allocation = PodCPUAlloc(uid=uid, cpuset=str(cpus), managed_by_kubelet=True)
        if pod is not None:
            allocation.namespace = pod.pod.metadata.namespace
            allocation.name = pod.pod.metadata.name
        found.append(allocation)
    return found


def _system(node: Node, log_line: Callable[[str], None]) -> SystemQOSResource | None:
    try:
        return system_qos_resource(node)
    except KoordError as error:
        log_line(f"annotation ignored: {error}")
        return None


def _reservation(
    node: Node, hardware: NodeHardware, log_line: Callable[[str], None]
) -> NodeReservation:
    """What the node says, with the CPUs that it comes to."""
    try:
        asked = node_reservation(node) or NodeReservation()
    except KoordError as error:
        log_line(f"annotation ignored: {error}")
        return NodeReservation()
    return msgspec.structs.replace(asked, reserved_cpus=str(kept_cpus(hardware.cpus, asked)))


def _policy(configuration: KubeletConfiguration | None) -> str:
    if configuration is None:
        return "None"
    asked = (configuration.topology_manager_scope, configuration.topology_manager_policy)
    return _POLICIES.get(asked, "None")


def _manager_policy(kubelet: KubeletView, hardware: NodeHardware) -> KubeletCPUManagerPolicy:
    configuration = kubelet.configuration
    if configuration is None:
        return KubeletCPUManagerPolicy()
    policy = KubeletCPUManagerPolicy(
        policy=configuration.cpu_manager_policy, options=configuration.cpu_manager_policy_options
    )
    if policy.policy == STATIC:
        policy.reserved_cpus = str(_kubelet_reserved(configuration, hardware))
    return policy


def _kubelet_reserved(configuration: KubeletConfiguration, hardware: NodeHardware) -> CPUSet:
    """CPUs that the kubelet's static policy never gives out; none where it makes no sense.

    A kubelet with a setting that it does not take would not run.
    """
    text = configuration.reserved_system_cpus
    named = readable_cpus(text)
    if (text and not named) or not named <= CPUSet.from_ids(cpu.id for cpu in hardware.cpus):
        return CPUSet()
    milli = 0
    for amounts in (configuration.kube_reserved, configuration.system_reserved):
        # CPUs by number take the place of amounts, whatever these say.
        counted = {name: text for name, text in amounts.items() if name != "cpu" or not named}
        try:
            parsed = {name: Quantity.parse(text) for name, text in counted.items()}
        except ValueError:
            return CPUSet()
        if not parsed.keys() <= _RESERVABLE or any(each < _ZERO for each in parsed.values()):
            return CPUSet()
        milli += parsed.get("cpu", _ZERO).milli(Rounding.UP)
    return named or packed_cpus(hardware.cpus, -(-milli // _MILLI))


def _zones(node: Node, hardware: NodeHardware) -> list[Zone]:
    zones = []
    counts = dict.fromkeys(hardware.zones, 0)
    for cpu in hardware.cpus:
        counts[cpu.node] += 1
    reserved = _reserved_share(node, hardware, counts)
    for number, memory in hardware.zones.items():
        cpus = counts[number]
        amounts = {
            "cpu": (Quantity.from_value(cpus), reserved.get("cpu")),
            "hugepages-1Gi": (_bytes(memory.huge_1gi_bytes), None),
            "hugepages-2Mi": (_bytes(memory.huge_2mi_bytes), None),
            "memory": (_bytes(memory.memory_bytes), reserved.get("memory")),
        }
        resources = [_resource(name, *amounts[name]) for name in sorted(amounts)]
        zones.append(Zone(name=f"node-{number}", type="Node", resources=resources))
    return sorted(zones, key=lambda zone: zone.name)


def _bytes(value: int) -> Quantity:
    return Quantity.from_value(value, Format.BINARY_SI)


def _resource(name: str, capacity: Quantity, reserved_milli: int | None) -> ZoneResource:
    left = capacity
    if reserved_milli:
        milli = max(0, capacity.milli(Rounding.DOWN) - reserved_milli)
        left = Quantity.from_milli(milli, capacity.format)
    return ZoneResource(name=name, capacity=capacity, allocatable=left, available=left)


def _reserved_share(
    node: Node, hardware: NodeHardware, counts: Mapping[int, int]
) -> dict[str, int]:
    """What of each zone is the system's, in thousandths, where the node's label asks for it.

    Only zones that have some of a resource can give some away.
    """
    if node.metadata.labels.get(keys.ENABLE_NUMA_RESERVATION) != "true":
        return {}
    shares = {}
    having = {
        "cpu": sum(1 for count in counts.values() if count),
        "memory": sum(1 for zone in hardware.zones.values() if zone.memory_bytes > 0),
    }
    for name, zones in having.items():
        if name not in node.status.capacity or name not in node.status.allocatable:
            continue
        reserved = node.status.capacity[name] - node.status.allocatable[name]
        if zones and reserved > _ZERO:
            shares[name] = -(-reserved.milli(Rounding.UP) // zones)
    return shares
