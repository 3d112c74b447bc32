# SPDX-License-Identifier: Apache-2.0
"""The plugin's name, device types and their resources."""

from __future__ import annotations

from typing import Final

from koord.api.protocol import resources as res

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
