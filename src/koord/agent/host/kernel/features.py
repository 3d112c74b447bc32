# SPDX-License-Identifier: Apache-2.0
"""What this kernel offers beyond the common: found once, reported, and skipped where missing.

:func:`koord.agent.host.kernel.feature_probes.probe_features` finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Feature(StrEnum):
    """Names as ``koord node status`` prints them."""

    CPU_BURST = "cpu burst"
    BVT = "group identity (bvt)"
    CPU_IDLE = "cpu.idle"
    CORE_SCHED = "core scheduling"
    MEMORY_QOS = "memory.min/low/high"
    WMARK = "memory watermarks"
    PAGE_CACHE_LIMIT = "page cache limit"
    COLD_PAGES = "cold pages (kidled)"
    PSI = "pressure (PSI)"
    PERF = "perf counters"
    RESCTRL = "resctrl"
    RESCTRL_MONITOR = "resctrl monitoring"
    BLKIO_THROTTLE = "blkio throttling"
    BLKIO_COST = "blkio cost"
    NET_CLS = "network classes of sockets (net_cls)"
    NVML = "NVIDIA GPUs"
    RDMA = "RDMA"


@dataclass(frozen=True)
class Features:
    """Whether each feature is there.

    Attributes:
        missing: why not, one line, by feature; a feature that is not in it is there.
    """

    missing: Mapping[Feature, str]

    def has(self, feature: Feature) -> bool:
        """Whether this machine has it."""
        return feature not in self.missing
