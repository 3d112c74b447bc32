# SPDX-License-Identifier: Apache-2.0
"""Strategies that only slo-controller-config has: the manager follows them, no NodeSLO does."""

from __future__ import annotations

from koord.api.duration import Duration
from koord.api.schema import FreeForm
from koord.api.wirestruct import WireStruct


class MetricAggregatePolicy(WireStruct):
    """Over which windows the agent aggregates usage."""

    durations: list[Duration] = []


class ColocationStrategy(WireStruct):
    """How Batch and Mid resources are computed, and how often nodes report.

    Attributes:
        enable: whether nodes offer Batch and Mid resources.
        metricAggregateDurationSeconds: window of the plain averages.
        metricReportIntervalSeconds: time between two reports of a node.
        metricAggregatePolicy: further windows to aggregate over.
        metricMemoryCollectPolicy: which page cache counts as used memory.
        cpuReclaimThresholdPercent: share of the node's CPU that may be reclaimed for Batch.
        cpuCalculatePolicy: usage, maxUsageRequest or requestRatio.
        memoryReclaimThresholdPercent: share of the node's memory that may be reclaimed for Batch.
        memoryCalculatePolicy: usage, request, maxUsageRequest or requestRatio.
        overcommitRatioPercent: with requestRatio, share of the unrequested resources that is
            offered as Batch.
        degradeTimeMinutes: after how long without a report a node offers nothing.
        updateTimeThresholdSeconds: how often a node's resources are written at least.
        resourceDiffThreshold: how far they must move to be written before that, as a fraction.
        midReclaimMode: static takes a fixed share for Mid, else it is predicted.
        midCPUThresholdPercent: upper bound of Mid CPU in percent of the node.
        midMemoryThresholdPercent: upper bound of Mid memory in percent of the node.
        midUnallocatedPercent: share of unallocated resources that Mid gets on top.
        midStaticCPUReservedPercent: with static, share of the CPU that Mid offers.
        midStaticMemoryReservedPercent: with static, share of the memory that Mid offers.
        batchCPUThresholdPercent: upper bound of Batch CPU in percent of the node.
        batchMemoryThresholdPercent: upper bound of Batch memory in percent of the node.
        batchRisePercent: how much Batch may rise by from one report to the next, in percent of the
            node, where no pod explains it; no bound if unset.
        extensions: settings of third-party components, kept as they are.
    """

    enable: bool | None = None
    metric_aggregate_duration_seconds: int | None = None
    metric_report_interval_seconds: int | None = None
    metric_aggregate_policy: MetricAggregatePolicy | None = None
    metric_memory_collect_policy: str | None = None
    cpu_reclaim_threshold_percent: int | None = None
    cpu_calculate_policy: str | None = None
    memory_reclaim_threshold_percent: int | None = None
    memory_calculate_policy: str | None = None
    overcommit_ratio_percent: int | None = None
    degrade_time_minutes: int | None = None
    update_time_threshold_seconds: int | None = None
    resource_diff_threshold: float | None = None
    mid_reclaim_mode: str | None = None
    mid_cpu_threshold_percent: int | None = None
    mid_memory_threshold_percent: int | None = None
    mid_unallocated_percent: int | None = None
    mid_static_cpu_reserved_percent: int | None = None
    mid_static_memory_reserved_percent: int | None = None
    batch_cpu_threshold_percent: int | None = None
    batch_memory_threshold_percent: int | None = None
    batch_rise_percent: int | None = None
    extensions: FreeForm = {}


class ModelRatios(WireStruct):
    """How fast one CPU model is, relative to the slowest, by its switches."""

    base_ratio: float | None = None
    hyper_thread_enabled_ratio: float | None = None
    turbo_enabled_ratio: float | None = None
    hyper_thread_turbo_enabled_ratio: float | None = None

    def ratio(self, *, hyper_thread: bool, turbo: bool) -> float | None:
        """The ratio for a CPU with those switches, None if the model does not say."""
        if hyper_thread:
            return (
                self.hyper_thread_turbo_enabled_ratio if turbo else self.hyper_thread_enabled_ratio
            )
        return self.turbo_enabled_ratio if turbo else self.base_ratio


class CPUNormalizationStrategy(WireStruct):
    """How CPUs of different models are made comparable.

    Attributes:
        enable: whether nodes get a ratio.
        defaultRatio: for models that are not listed.
        ratioModel: ratios by CPU model.
    """

    enable: bool | None = None
    default_ratio: float | None = None
    ratio_model: dict[str, ModelRatios] = {}


class ResourceAmplificationStrategy(WireStruct):
    """By how much nodes offer more than they have.

    Attributes:
        enable: whether they do.
        resourceAmplificationRatio: factor by resource.
    """

    enable: bool | None = None
    resource_amplification_ratio: dict[str, float] = {}
