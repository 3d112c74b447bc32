# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of the scheduler, and what the scheduler writes on it: CPUs, NUMA, devices."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from koord.api.kinds.meta import LabelSelector, ResourceList
from koord.api.protocol import annotation, keys
from koord.api.protocol.numbers import parse_int
from koord.api.wirestruct import WireStruct, emitted
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod


class CPUBindPolicy(StrEnum):
    """How bound CPUs lie on cores. The scheduler does not act on ``CONSTRAINED_BURST``."""

    DEFAULT = "Default"
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"
    CONSTRAINED_BURST = "ConstrainedBurst"


class CPUExclusivePolicy(StrEnum):
    """What a pod does not share with pods of the same policy."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


class NUMATopologyPolicy(StrEnum):
    """How strictly a pod's resources come from one set of NUMA nodes."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


class NUMAExclusive(StrEnum):
    """Whether a single-node pod keeps off nodes that others span."""

    NONE = ""
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class ResourceSpec(WireStruct):
    """``scheduling.koordinator.sh/resource-spec``: how a pod wants its CPUs.

    Texts, not enumerations: a policy that is unknown here is the scheduler's to refuse.
    """

    required_cpu_bind_policy: str = ""
    preferred_cpu_bind_policy: str = ""
    preferred_cpu_exclusive_policy: str = ""


class NUMANodeResource(WireStruct):
    """What a pod holds of one NUMA node."""

    node: int = emitted(int)
    resources: ResourceList = {}


class ResourceStatus(WireStruct):
    """``scheduling.koordinator.sh/resource-status``: the CPUs (Linux list) and zones of a pod."""

    cpuset: str = ""
    numa_node_resources: list[NUMANodeResource] = []


class NUMATopologySpec(WireStruct):
    """``scheduling.koordinator.sh/numa-topology-spec``: the NUMA policy of a pod."""

    numa_topology_policy: str = ""
    single_numa_node_exclusive: str = ""


class AllocatedVF(WireStruct):
    """A virtual function that a pod holds."""

    minor: int = emitted(int)
    bus_id: str = ""


class AllocationExtension(WireStruct):
    """More about an allocation than amounts."""

    vfs: list[AllocatedVF] = []
    gpu_shared_resource_template: str = ""


class AllocatedDevice(WireStruct):
    """What a pod holds of one card."""

    minor: int = emitted(int)
    resources: ResourceList = {}
    id: str = ""
    extension: AllocationExtension | None = None


DeviceAllocations = dict[str, list[AllocatedDevice]]


class DeviceHint(WireStruct):
    """How a pod wants devices of one type."""

    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = None
    allocate_strategy: str = ""
    required_topology_scope: str = ""
    exclusive_policy: str = ""


# Strength of ``requiredTopologyScope``, the narrowest highest.
TOPOLOGY_SCOPES = {"Device": 4, "PCIe": 3, "NUMANode": 2, "Node": 1}


class DeviceJointAllocate(WireStruct):
    """Types of device that are to be allocated close to each other."""

    device_types: list[str] = []
    required_scope: str = ""


class GPUPartitionSpec(WireStruct):
    """Whether GPUs must form a partition of the machine, and of what bandwidth."""

    allocate_policy: str = "BestEffort"
    ring_bus_bandwidth: Quantity | None = None


class GPUPartition(WireStruct):
    """GPUs of a machine that are linked with each other, as its Device says."""

    minors: list[int] = []
    gpu_link_type: str = ""
    ring_bus_bandwidth: Quantity | None = None
    allocation_score: int = 0


class SchedulingHint(WireStruct):
    """Nodes that a controller would have the scheduler look at."""

    node_names: list[str] = []
    preferred_node_names: list[str] = []
    extensions: dict[str, Any] = {}


def resource_spec(pod: Pod) -> ResourceSpec:
    """How the pod wants its CPUs; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.RESOURCE_SPEC, ResourceSpec) or ResourceSpec()


def resource_status(pod: Pod) -> ResourceStatus:
    """The CPUs and zones the pod got; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.RESOURCE_STATUS, ResourceStatus) or ResourceStatus()


def numa_topology_spec(pod: Pod) -> NUMATopologySpec:
    """The pod's NUMA policy; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.NUMA_TOPOLOGY_SPEC, NUMATopologySpec) or NUMATopologySpec()


def device_allocated(pod: Pod) -> DeviceAllocations:
    """The cards the pod got, by type; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.DEVICE_ALLOCATED, DeviceAllocations) or {}


def device_hints(pod: Pod) -> dict[str, DeviceHint]:
    """How the pod wants its devices, by type; empty without the annotation.

    Raises:
        KoordError: malformed, or an unknown topology scope.
    """
    hints = annotation.read(pod, keys.DEVICE_ALLOCATE_HINT, dict[str, DeviceHint]) or {}
    for device_type, hint in hints.items():
        scope = hint.required_topology_scope
        if scope and scope not in TOPOLOGY_SCOPES:
            field = f"{annotation.field_of(keys.DEVICE_ALLOCATE_HINT)}.{device_type}"
            expected = "one of " + ", ".join(TOPOLOGY_SCOPES)
            raise KoordError(pod.title, f"{field}.requiredTopologyScope", scope, expected)
    return hints


def device_joint_allocate(pod: Pod) -> DeviceJointAllocate | None:
    """Which devices the pod wants close together; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.DEVICE_JOINT_ALLOCATE, DeviceJointAllocate)


def gpu_partition_spec(pod: Pod) -> GPUPartitionSpec | None:
    """How the pod wants its GPU partition; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.GPU_PARTITION_SPEC, GPUPartitionSpec)


def scheduling_hint(pod: Pod) -> SchedulingHint | None:
    """Nodes to look at first; the current key wins over the old one, empty ones do not count.

    Raises:
        KoordError: malformed.
    """
    for key in (keys.SCHEDULING_HINT, keys.SCHEDULING_HINT_OLD):
        hint = annotation.read(pod, key, SchedulingHint, empty_is_absent=True)
        if hint is not None:
            return hint
    return None


def scheduler_name(pod: Pod) -> str:
    """Who schedules the pod: its label, even if empty, else its spec."""
    return pod.metadata.labels.get(keys.SCHEDULER_NAME, pod.spec.scheduler_name)


def load_scaling_factors(pod: Pod) -> dict[str, int]:
    """Percentages by which load is estimated from requests; empty if absent or malformed."""
    try:
        found = annotation.read(pod, keys.LOAD_ESTIMATED_SCALING_FACTORS, dict[str, int])
    except KoordError:
        return {}
    return found or {}


def load_estimated_seconds(pod: Pod, key: str) -> int:
    """For how long load is estimated instead of measured; -1 if absent or malformed.

    Args:
        pod: the pod.
        key: ``LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED`` or ``..._AFTER_INITIALIZED``.
    """
    try:
        return parse_int(pod.metadata.annotations.get(key, ""), pod.title, key)
    except KoordError:
        return -1
