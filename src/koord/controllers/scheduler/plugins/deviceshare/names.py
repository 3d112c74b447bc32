# SPDX-License-Identifier: Apache-2.0
"""Device types, their resources, and the reasons that users of Koordinator know.

Rule: docs/reference/devices.md#what-is-checked-of-a-node.
"""

from __future__ import annotations

from typing import Final

from koord.api.protocol import resources as res
from koord.kernels.devices_assign import Refusal

NAME: Final = "DeviceShare"

DEVICES_EVENT: Final = "devices.v1alpha1.scheduling.koordinator.sh"
"""How cluster events name Device objects."""

GPU: Final = "gpu"
RDMA: Final = "rdma"
FPGA: Final = "fpga"
TYPES: Final = (GPU, RDMA, FPGA)
"""In the order in which a pod's requests are looked at."""

# What each card has; a table's first resource is the one that its summaries show.
RESOURCES: Final[dict[str, tuple[str, ...]]] = {
    GPU: (
        res.GPU_CORE, res.GPU_MEMORY_RATIO, res.GPU_MEMORY, res.NPU_CORE, res.NPU_CPU,
        res.NPU_DVPP,
    ),
    RDMA: (res.RDMA,),
    FPGA: (res.FPGA,),
}  # fmt: skip
CORE, RATIO, MEMORY = 0, 1, 2
"""Places of the GPU's own resources."""

WHOLE: Final = 100
"""A whole card in percent."""

ISOLATION_MISSING: Final = "GPUIsolationProviderHAMICore not found on the node"
NO_TEMPLATE: Final = "no matched GPU shared resource template"
JOINT_VIOLATED: Final = "node(s) Device Joint-Allocate rules violation"
NUMA_SCOPED: Final = "Insufficient NUMA Scoped Devices"
DESIGNATED_WITHOUT_NUMA: Final = "Designated Allocation Lack NUMA Node ID"
INSUFFICIENT_GPUS: Final = "Insufficient GPU Devices"

_GPU_REFUSALS: Final = {
    Refusal.NO_PARTITIONS: ("node(s) missing GPU Partition Table", True),
    Refusal.NO_PARTITION_SIZE: ("node(s) Unsupported number of GPU requests", True),
    Refusal.PARTITIONS_TAKEN: ("Insufficient Partitioned GPU Devices", False),
    Refusal.NO_TOPOLOGY: ("node(s) missing GPU Device Topology Tree", True),
    Refusal.MANY_SHARES: ("node(s) Unsupported Multi-Shared GPU", True),
    Refusal.SCOPES_TAKEN: ("Insufficient Topology Scoped GPU Devices", False),
    Refusal.GROUPS_TAKEN: (INSUFFICIENT_GPUS, False),
}


def insufficient(device_type: str) -> str:
    """Too few of a type, or none."""
    return f"Insufficient {device_type} devices"


def insufficient_vfs(device_type: str) -> str:
    """No card of a type has virtual functions."""
    return f"Insufficient {device_type} VirtualFunctions"


def unsupported_model(vendor: str, model: str) -> str:
    """GPUs that cannot be shared."""
    return f'model "{model}" of vendor "{vendor}" does not support GPU Share'


def refusal_text(refusal: Refusal, device_type: str) -> tuple[str, bool]:
    """The reason, and whether removing pods could not help."""
    return _GPU_REFUSALS.get(refusal, (insufficient(device_type), False))
