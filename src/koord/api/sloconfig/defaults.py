# SPDX-License-Identifier: Apache-2.0
"""What a section says where slo-controller-config says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.duration import Duration
from koord.api.kinds.qos_strategy import (
    CPUQOS,
    MemoryQOS,
    NetworkQOS,
    ResctrlQOS,
    ResourceQOS,
    ResourceQOSPolicies,
    ResourceQOSStrategy,
)
from koord.api.kinds.slo_strategies import (
    CPUBurstStrategy,
    HostApplications,
    ResourceThresholdStrategy,
    SystemStrategy,
)
from koord.api.sloconfig import sections
from koord.api.sloconfig.strategies import (
    ColocationStrategy,
    CPUNormalizationStrategy,
    MetricAggregatePolicy,
    ResourceAmplificationStrategy,
)
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_OVERCOMMIT_RATIO_PERCENT = 30


def default_strategy(key: str) -> Any:
    """A new default strategy of a section, by its data key."""
    return _MAKERS[key]()


def _colocation() -> ColocationStrategy:
    return ColocationStrategy(
        enable=False,
        metric_aggregate_duration_seconds=300,
        metric_report_interval_seconds=60,
        metric_aggregate_policy=MetricAggregatePolicy(
            durations=[Duration.parse(text) for text in ("5m", "10m", "30m")]
        ),
        metric_memory_collect_policy="usageWithoutPageCache",
        cpu_reclaim_threshold_percent=60,
        cpu_calculate_policy="usage",
        memory_reclaim_threshold_percent=65,
        memory_calculate_policy="usage",
        overcommit_ratio_percent=DEFAULT_OVERCOMMIT_RATIO_PERCENT,
        degrade_time_minutes=15,
        update_time_threshold_seconds=300,
        resource_diff_threshold=0.1,
        mid_cpu_threshold_percent=100,
        mid_memory_threshold_percent=100,
        mid_unallocated_percent=0,
        mid_static_cpu_reserved_percent=0,
        mid_static_memory_reserved_percent=0,
    )


def _threshold() -> ResourceThresholdStrategy:
    return ResourceThresholdStrategy(
        enable=False,
        cpu_suppress_threshold_percent=65,
        cpu_suppress_policy="cpuset",
        memory_evict_threshold_percent=70,
        cpu_evict_policy="evictByRealLimit",
    )


def _burst() -> CPUBurstStrategy:
    return CPUBurstStrategy(
        policy="none",
        cpu_burst_percent=1000,
        cfs_quota_burst_percent=300,
        cfs_quota_burst_period_seconds=-1,
        share_pool_threshold_percent=50,
    )


_MAKERS: dict[str, Callable[[], Any]] = {
    sections.COLOCATION: _colocation,
    sections.THRESHOLD: _threshold,
    # Recommended qualities are the node agent's to add: see recommended_qos.
    sections.QOS: ResourceQOSStrategy,
    sections.BURST: _burst,
    sections.SYSTEM: lambda: SystemStrategy(total_network_bandwidth=Quantity()),
    sections.HOST_APPLICATION: HostApplications,
    sections.NORMALIZATION: lambda: CPUNormalizationStrategy(enable=False),
    sections.AMPLIFICATION: lambda: ResourceAmplificationStrategy(enable=False),
}


def recommended_qos() -> ResourceQOSStrategy:
    """The qualities that the node agent assumes for what a NodeSLO leaves open, all disabled."""
    return ResourceQOSStrategy(
        policies=ResourceQOSPolicies(cpu_policy="groupIdentity", net_qos_policy="tc"),
        lsr_class=_quality(2, expeller=True, wmark=(95, 20, -25), cache_end=100),
        ls_class=_quality(2, expeller=True, wmark=(95, 20, -25), cache_end=100),
        be_class=_quality(-1, expeller=False, wmark=(95, 20, 50), cache_end=30),
        system_class=_quality(0, expeller=False, wmark=(0, 50, 0), cache_end=100),
    )


def no_quality() -> ResourceQOS:
    """The qualities of a pod without a class."""
    return _quality(0, expeller=False, wmark=(0, 50, 0), cache_end=100)


def _quality(
    identity: int, *, expeller: bool, wmark: tuple[int, int, int], cache_end: int
) -> ResourceQOS:
    ratio, scale_permill, min_adj = wmark
    return ResourceQOS(
        cpu_qos=CPUQOS(
            enable=False, group_identity=identity, sched_idle=0, core_expeller=expeller
        ),
        memory_qos=MemoryQOS(
            enable=False,
            min_limit_percent=0,
            low_limit_percent=0,
            throttling_percent=0,
            wmark_ratio=ratio,
            wmark_scale_permill=scale_permill,
            wmark_min_adj=min_adj,
            priority_enable=0,
            priority=0,
            oom_kill_group=0,
        ),
        resctrl_qos=ResctrlQOS(
            enable=False, cat_range_start_percent=0, cat_range_end_percent=cache_end,
            mba_percent=100,
        ),
        network_qos=NetworkQOS(
            enable=False, ingress_request=0, ingress_limit=0, egress_request=0, egress_limit=0
        ),
    )  # fmt: skip
