# SPDX-License-Identifier: Apache-2.0
"""What is measured: a name a kind, and the labels that tell its series apart.

Rule: docs/reference/measuring.md#kinds-and-labels. CPU is in cores, memory in bytes, ratios from 0
to 1, node_be in milli-cores. NUMA nodes, minors and cache ids are decimal text in labels.
"""

from __future__ import annotations

from enum import StrEnum


class MetricKind(StrEnum):
    """The kinds of series; values are the names that figures are exported under."""

    NODE_CPU_USAGE = "node_cpu_usage"
    NODE_MEMORY_USAGE = "node_memory_usage"
    NODE_MEMORY_USAGE_WITH_PAGE_CACHE = "node_memory_usage_with_page_cache"
    NODE_MEMORY_WITH_HOT_PAGE_USAGE = "node_memory_with_hot_page_usage"
    NODE_MEMORY_COLD_PAGE_SIZE = "node_memory_cold_page_size"
    SYS_CPU_USAGE = "sys_cpu_usage"
    SYS_MEMORY_USAGE = "sys_memory_usage"
    NODE_NUMA_CPU_USAGE = "node_numa_cpu_usage"
    NODE_NUMA_MEMORY_USAGE = "node_numa_memory_usage"
    SYS_NUMA_CPU_USAGE = "sys_numa_cpu_usage"
    SYS_NUMA_MEMORY_USAGE = "sys_numa_memory_usage"
    NODE_GPU_CORE_USAGE = "node_gpu_core_usage"
    NODE_GPU_MEMORY_USAGE = "node_gpu_memory_usage"
    NODE_GPU_MEMORY_TOTAL = "node_gpu_memory_total"
    NODE_BE = "node_be"
    POD_CPU_USAGE = "pod_cpu_usage"
    POD_MEMORY_USAGE = "pod_memory_usage"
    POD_MEMORY_USAGE_WITH_PAGE_CACHE = "pod_memory_usage_with_page_cache"
    POD_MEMORY_WITH_HOT_PAGE_USAGE = "pod_memory_with_hot_page_usage"
    POD_MEMORY_COLD_PAGE_SIZE = "pod_memory_cold_page_size"
    POD_CPU_THROTTLED = "pod_cpu_throttled"
    POD_GPU_CORE_USAGE = "pod_gpu_core_usage"
    POD_GPU_MEMORY_USAGE = "pod_gpu_memory_usage"
    POD_PSI = "pod_psi"
    POD_PSI_CPU_FULL_SUPPORTED = "pod_psi_cpu_full_supported"
    CONTAINER_CPU_USAGE = "container_cpu_usage"
    CONTAINER_MEMORY_USAGE = "container_memory_usage"
    CONTAINER_MEMORY_USAGE_WITH_PAGE_CACHE = "container_memory_usage_with_page_cache"
    CONTAINER_MEMORY_WITH_HOT_PAGE_USAGE = "container_memory_with_hot_page_usage"
    CONTAINER_MEMORY_COLD_PAGE_SIZE = "container_memory_cold_page_size"
    CONTAINER_CPU_THROTTLED = "container_cpu_throttled"
    CONTAINER_GPU_CORE_USAGE = "container_gpu_core_usage"
    CONTAINER_GPU_MEMORY_USAGE = "container_gpu_memory_usage"
    CONTAINER_CPI = "container_cpi"
    CONTAINER_PSI = "container_psi"
    CONTAINER_PSI_CPU_FULL_SUPPORTED = "container_psi_cpu_full_supported"
    HOST_APPLICATION_CPU_USAGE = "host_application_cpu_usage"
    HOST_APPLICATION_MEMORY_USAGE = "host_application_memory_usage"
    HOST_APPLICATION_MEMORY_USAGE_WITH_PAGE_CACHE = "host_application_memory_usage_with_page_cache"
    HOST_APPLICATION_MEMORY_WITH_HOT_PAGE_USAGE = "host_application_memory_with_hot_page_usage"
    HOST_APPLICATION_MEMORY_COLD_PAGE_SIZE = "host_application_memory_cold_page_size"
    RESCTRL_LLC = "resctrl_resource_llc"
    RESCTRL_MB = "resctrl_resource_mb"


_GPU = ("gpu_minor", "gpu_device_uuid")
_PSI = ("psi_resource", "psi_precision", "psi_degree")
_SPECIAL: dict[MetricKind, tuple[str, ...]] = {
    MetricKind.NODE_BE: ("be_resource", "be_allocation"),
    MetricKind.NODE_GPU_CORE_USAGE: _GPU,
    MetricKind.NODE_GPU_MEMORY_USAGE: _GPU,
    MetricKind.NODE_GPU_MEMORY_TOTAL: _GPU,
    MetricKind.POD_GPU_CORE_USAGE: ("pod_uid", *_GPU),
    MetricKind.POD_GPU_MEMORY_USAGE: ("pod_uid", *_GPU),
    MetricKind.CONTAINER_GPU_CORE_USAGE: ("container_id", *_GPU),
    MetricKind.CONTAINER_GPU_MEMORY_USAGE: ("container_id", *_GPU),
    MetricKind.POD_PSI: ("pod_uid", *_PSI),
    MetricKind.CONTAINER_PSI: ("pod_uid", "container_id", *_PSI),
    MetricKind.CONTAINER_PSI_CPU_FULL_SUPPORTED: ("pod_uid", "container_id"),
    MetricKind.CONTAINER_CPI: ("pod_uid", "container_id", "cpi_resource"),
    MetricKind.RESCTRL_LLC: ("qos", "cache_id"),
    MetricKind.RESCTRL_MB: ("qos", "cache_id", "resctrl_mb_type"),
}
_BY_PREFIX = {
    "node_numa_": ("numa_node_id",),
    "sys_numa_": ("numa_node_id",),
    "pod_": ("pod_uid",),
    "container_": ("container_id",),
    "host_application_": ("host_app_name",),
}


def _labels(kind: MetricKind) -> tuple[str, ...]:
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    return next((names for prefix, names in _BY_PREFIX.items() if kind.startswith(prefix)), ())


LABELS: dict[MetricKind, tuple[str, ...]] = {kind: _labels(kind) for kind in MetricKind}
"""Label names of a kind, in the order in which their values are given."""
