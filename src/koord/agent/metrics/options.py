# SPDX-License-Identifier: Apache-2.0
"""How often things are measured and how long samples are kept.

Rule: docs/reference/measuring.md#intervals-and-flags.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from koord.agent.metrics.metric_kinds import MetricKind

_MIB = 1 << 20
# Rounds come late now and then and never early, so this much more than the window's share is ample.
_SPARE = 1.05


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Flags of koordlet that collectors and cache follow; times in seconds.

    Attributes:
        used: ``collect-res-used-interval``.
        system_outdated: ``collect-sys-metric-outdated-interval``.
        cpu_info: ``collect-node-cpu-info-interval``.
        storage: ``collect-node-storage-info-interval``.
        cpi, cpi_window: ``cpi-collector-interval`` and ``collect-cpi-timewindow``.
        pressure: ``psi-collector-interval``.
        cold_pages: ``coldpage-collector-interval``.
        resctrl: ``resctrl-collector-interval``.
        page_cache, resctrl_enabled: ``enable-pagecache-collector``, ``enable-resctrl-collector``.
        devices_from_files: ``xpu-enforce-collect-from-device-infos``: no NVML.
        retention: ``tsdb-retention-duration``: no window that is asked for makes rings longer.
        max_bytes: ``tsdb-max-bytes``: what all rings may take together.
    """

    used: float = 1.0
    system_outdated: float = 10.0
    cpu_info: float = 60.0
    storage: float = 1.0
    cpi: float = 60.0
    cpi_window: float = 10.0
    pressure: float = 10.0
    cold_pages: float = 5.0
    resctrl: float = 10.0
    page_cache: bool = False
    resctrl_enabled: bool = False
    devices_from_files: bool = False
    retention: float = 12 * 3600.0
    max_bytes: int = 100 * _MIB

    def interval_seconds(self, kind: MetricKind) -> float:
        """Time between two samples of a kind."""
        return next((getattr(self, f) for word, f in _INTERVALS if word in kind), self.used)

    def window_seconds(self, kind: MetricKind) -> float:
        """The longest window that readers of koord ask a kind for.

        Nodes are reported over half an hour, pods over five minutes; of containers the strategies
        read the last value.
        """
        shortest = 10 * self.interval_seconds(kind)
        return max(shortest, next(window for prefix, window in _WINDOWS if kind.startswith(prefix)))

    def capacity(self, kind: MetricKind, window_seconds: float) -> int:
        """Samples that a ring needs to hold a window."""
        return math.ceil(window_seconds / self.interval_seconds(kind) * _SPARE) + 2


_INTERVALS = (
    ("_psi", "pressure"),
    ("_cpi", "cpi"),
    ("cold_page", "cold_pages"),
    ("hot_page", "cold_pages"),
    ("resctrl_", "resctrl"),
)
_WINDOWS = (
    ("node_numa_", 300.0),
    ("sys_numa_", 300.0),
    ("node_gpu_", 300.0),
    ("node_", 1800.0),
    ("sys_", 1800.0),
    ("pod_psi", 60.0),
    ("pod_cpu_throttled", 60.0),
    ("container_gpu_", 60.0),
    ("container_", 60.0),
    ("", 300.0),
)
OWNED = ("pod_", "container_", "host_application_")
"""Kinds whose series belong to something that comes and goes."""
