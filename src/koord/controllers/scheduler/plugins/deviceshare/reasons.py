# SPDX-License-Identifier: Apache-2.0
"""Why a node cannot serve a pod's devices, in the texts that Koordinator has for it.

Rule: docs/reference/devices.md#what-is-checked-of-a-node.
"""

from __future__ import annotations

from typing import Final

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare.names import NAME
from koord.kernels.devices_assign import Refusal

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


def rejection_of(refusal: Refusal, device_type: str) -> Rejection:
    """What the kernel's refusal of a type comes to; lasting where removing pods could not help."""
    text, unresolvable = _GPU_REFUSALS.get(refusal, (insufficient(device_type), False))
    return Rejection(NAME, (text,), unresolvable)
