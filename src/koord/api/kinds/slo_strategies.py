# SPDX-License-Identifier: Apache-2.0
"""Node strategies that a NodeSLO carries and slo-controller-config sets: thresholds, burst, system.

A field that is None (or an empty text, list or map) is not set. ``False`` and 0 are values.
"""

from __future__ import annotations

from typing import Annotated

from koord.api.schema import Int32, NonNegative, Percent, Schema
from koord.api.wirestruct import WireStruct
from koord.kernels.quantity import Quantity


class ResourceThresholdStrategy(WireStruct):
    """When BE pods are suppressed and pods are evicted.

    Attributes:
        enable: whether any of this is done.
        cpuSuppressThresholdPercent: share of the node's CPU that LS and BE pods may use together.
        cpuSuppressMinPercent: share of the node's CPU that BE pods keep in any case.
        cpuSuppressPolicy: cpuset takes CPUs away from BE pods, cfsQuota lowers their quota.
        memoryEvictThresholdPercent: share of used memory above which pods are evicted.
        memoryEvictLowerPercent: share at which eviction stops; the threshold less 2 if not set.
        memoryAllocatableEvictThresholdPercent: requested memory, in percent of allocatable, above
            which pods are evicted.
        memoryAllocatableEvictLowerPercent: the percentage at which that eviction stops.
        cpuEvictBESatisfactionUpperPercent: satisfaction of BE pods at which eviction stops.
        cpuEvictBESatisfactionLowerPercent: satisfaction of BE pods below which they are evicted.
        cpuEvictBEUsageThresholdPercent: BE pods are evicted only if they use more than this share
            of the CPU they are limited to.
        cpuEvictTimeWindowSeconds: over how long CPU figures are averaged.
        cpuEvictThresholdPercent: share of used CPU above which pods are evicted.
        cpuEvictLowerPercent: share at which that eviction stops; the threshold less 2 if not set.
        cpuAllocatableEvictThresholdPercent: requested CPU, in percent of allocatable, above which
            pods are evicted.
        cpuAllocatableEvictLowerPercent: the percentage at which that eviction stops.
        cpuEvictPolicy: evictByRealLimit or evictByAllocatable, what satisfaction is measured by.
        evictEnabledPriorityThreshold: pods above this priority are never evicted for usage.
        allocatableEvictPriorityThreshold: pods above it are never evicted for allocatable.
    """

    enable: bool | None = None
    cpu_suppress_threshold_percent: Percent | None = None
    cpu_suppress_min_percent: Percent | None = None
    cpu_suppress_policy: str = ""
    memory_evict_threshold_percent: Percent | None = None
    memory_evict_lower_percent: Percent | None = None
    memory_allocatable_evict_threshold_percent: NonNegative | None = None
    memory_allocatable_evict_lower_percent: NonNegative | None = None
    cpu_evict_be_satisfaction_upper_percent: int | None = None
    cpu_evict_be_satisfaction_lower_percent: int | None = None
    cpu_evict_be_usage_threshold_percent: int | None = None
    cpu_evict_time_window_seconds: int | None = None
    cpu_evict_threshold_percent: Percent | None = None
    cpu_evict_lower_percent: Percent | None = None
    cpu_allocatable_evict_threshold_percent: NonNegative | None = None
    cpu_allocatable_evict_lower_percent: NonNegative | None = None
    cpu_evict_policy: str = ""
    evict_enabled_priority_threshold: Int32 | None = None
    allocatable_evict_priority_threshold: Int32 | None = None


class CPUBurstStrategy(WireStruct):
    """How far containers may exceed their CPU limit for a moment.

    Attributes:
        policy: none, cpuBurstOnly, cfsQuotaBurstOnly or auto (both).
        cpuBurstPercent: the kernel's burst allowance in percent of the CPU limit.
        cfsQuotaBurstPercent: how far the quota may be raised, in percent of the limit.
        cfsQuotaBurstPeriodSeconds: for how long a raised quota may last; -1 for ever.
        sharePoolThresholdPercent: no raising while the shared CPUs are busier than this.
    """

    policy: str = ""
    cpu_burst_percent: Annotated[int | None, Schema(minimum=0, maximum=10000)] = None
    cfs_quota_burst_percent: int | None = None
    cfs_quota_burst_period_seconds: int | None = None
    share_pool_threshold_percent: int | None = None


class SystemStrategy(WireStruct):
    """Kernel settings of the whole node.

    Attributes:
        minFreeKbytesFactor: vm.min_free_kbytes in 1/10000 of the memory.
        watermarkScaleFactor: vm.watermark_scale_factor.
        memcgReapBackGround: reclaim of memory of dead cgroups in the background, 0 or 1.
        totalNetworkBandwidth: bandwidth of the node's network in bits per second.
        schedIdleSaverWmark: kernel.sched_idle_saver_wmark in nanoseconds.
        schedFeatures: scheduler features of the kernel to switch on or off.
        pageCacheLimitEnabled: limits of the page cache per cgroup, 0 or 1.
    """

    min_free_kbytes_factor: int | None = None
    watermark_scale_factor: int | None = None
    memcg_reap_back_ground: int | None = None
    total_network_bandwidth: Quantity | None = None
    sched_group_identity_enabled: int | None = None
    sched_idle_saver_wmark: int | None = None
    sched_features: dict[str, bool] = {}
    page_cache_limit_enabled: int | None = None


class CgroupPath(WireStruct):
    """Where a host application's cgroup lies: ``base``/``parentDir``/``relativePath``."""

    base: str = ""
    parent_dir: str = ""
    relative_path: str = ""


class HostApplicationStrategy(WireStruct):
    """Reserved for settings of one host application."""


class HostApplication(WireStruct):
    """A process of the host that is no pod but has a QoS class and a cgroup."""

    name: str = ""
    priority: str = ""
    qos: str = ""
    cgroup_path: CgroupPath | None = None
    strategy: HostApplicationStrategy | None = None


class HostApplications(WireStruct):
    """The host applications of a node; one level's list replaces the other's."""

    applications: list[HostApplication] = []
