# SPDX-License-Identifier: Apache-2.0
"""What the node agent writes on a NodeResourceTopology and a Device: CPUs, pools, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys
from koord.api.wirestruct import WireStruct, emitted
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.device import Device
    from koord.api.kinds.topology import NodeResourceTopology


class CPUInfo(WireStruct):
    """One logical CPU and where it sits."""

    id: int = emitted(int)
    core: int = emitted(int)
    socket: int = emitted(int)
    node: int = emitted(int)


class CPUTopology(WireStruct):
    """``node.koordinator.sh/cpu-topology``: every logical CPU, by id."""

    detail: list[CPUInfo] = emitted(list)


class PodCPUAlloc(WireStruct):
    """The CPUs (Linux list) that one pod is bound to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: str = ""
    managed_by_kubelet: bool = False


class CPUSharedPool(WireStruct):
    """The CPUs (Linux list) of one NUMA node that pods share."""

    socket: int = emitted(int)
    node: int = emitted(int)
    cpuset: str = ""


class CPUBasicInfo(WireStruct):
    """``node.koordinator.sh/cpu-basic-info``: the CPU's model and switches."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    cat_l3_cbm_mask: str = ""
    vendor_id: str = ""


class KubeletCPUManagerPolicy(WireStruct):
    """``kubelet.koordinator.sh/cpu-manager-policy``."""

    policy: str = ""
    options: dict[str, str] = {}
    reserved_cpus: str = ""


class GPUPartition(WireStruct):
    """GPUs with a fast link between them."""

    minors: list[int] = []
    gpu_link_type: str = ""
    ring_bus_bandwidth: Quantity | None = None
    allocation_score: int = 0


def cpu_topology(nrt: NodeResourceTopology) -> CPUTopology | None:
    """The logical CPUs; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(nrt, keys.CPU_TOPOLOGY, CPUTopology)


def pod_cpu_allocs(nrt: NodeResourceTopology) -> list[PodCPUAlloc]:
    """The bound pods; empty without the annotation or for ``null``.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(nrt, keys.POD_CPU_ALLOCS, list[PodCPUAlloc]) or []


def pod_cpu_allocs_text(allocs: list[PodCPUAlloc]) -> str:
    """The annotation of bound pods; ``null`` for none, as peers write it."""
    return annotation.text(allocs or None)


def shared_pools(nrt: NodeResourceTopology, *, be: bool = False) -> list[CPUSharedPool]:
    """The shared CPUs of LS pods, or of BE pods; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    key = keys.BE_CPU_SHARED_POOLS if be else keys.CPU_SHARED_POOLS
    return annotation.read(nrt, key, list[CPUSharedPool]) or []


def cpu_basic_info(nrt: NodeResourceTopology) -> CPUBasicInfo | None:
    """The CPU's model and switches; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(nrt, keys.CPU_BASIC_INFO, CPUBasicInfo)


def kubelet_cpu_manager_policy(nrt: NodeResourceTopology) -> KubeletCPUManagerPolicy:
    """How the kubelet gives out CPUs; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    found = annotation.read(nrt, keys.CPU_MANAGER_POLICY, KubeletCPUManagerPolicy)
    return found or KubeletCPUManagerPolicy()


def gpu_partitions(device: Device) -> dict[int, list[GPUPartition]] | None:
    """Partitions by their number of GPUs; None without the annotation.

    Raises:
        KoordError: malformed, or ``null``.
    """
    field = annotation.field_of(keys.GPU_PARTITIONS)
    if device.metadata.annotations.get(keys.GPU_PARTITIONS, "").strip() == "null":
        raise KoordError(device.title, field, "null", "partitions by number of GPUs")
    return annotation.read(device, keys.GPU_PARTITIONS, dict[int, list[GPUPartition]])


def secondary_device_well_planned(device: Device) -> bool | None:
    """Whether NICs sit beside their GPUs; None if the label does not say."""
    label = device.metadata.labels.get(keys.SECONDARY_DEVICE_WELL_PLANNED, "")
    return {"true": True, "false": False}.get(label)
