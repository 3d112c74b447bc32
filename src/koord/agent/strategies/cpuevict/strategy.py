# SPDX-License-Identifier: Apache-2.0
"""Evicts pods for want of CPU: unsatisfied BE pods, requests above allocatable, a busy node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.cpuevict import decision
from koord.agent.strategies.eviction import (
    allocatable_eviction,
    thresholds,
    usage_eviction,
    victims,
)
from koord.agent.strategies.eviction.eviction_cycle import EvictionCycle, EvictionRequest
from koord.agent.strategies.eviction.tasks import REQUESTED, USED
from koord.api.protocol.resources import BATCH_CPU, CPU
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.metrics.reader import SeriesRows
    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

BE_CPU_EVICT = "BECPUEvict"
CPU_ALLOCATABLE_EVICT = "CPUAllocatableEvict"
CPU_EVICT = "CPUEvict"
"""Feature gates, which are also the names of evictions."""
BY_ALLOCATABLE = "evictByAllocatable"
_BE_KINDS = ("usage", "request", "real-limit")
_LEAST_ALLOCATABLE_MILLI = 1


class CPUEvict:
    """Evicts pods while CPU is short.

    Nothing is evicted when pods or node are older than ``readings.TO_EVICT`` allows, or when the
    newest sample of a window is.
    """

    name = "cpuevict"
    gate = f"{BE_CPU_EVICT}|{CPU_ALLOCATABLE_EVICT}|{CPU_EVICT}"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.cpu_evict_interval_seconds
        self._collect_seconds = options.collect_interval_seconds
        requests = {
            BE_CPU_EVICT: self._be_cpu_evict,
            CPU_ALLOCATABLE_EVICT: self._cpu_allocatable_evict,
            CPU_EVICT: self._cpu_evict,
        }
        cool = options.cpu_evict_cool_seconds
        self._cycle = EvictionCycle(self.name, CPU, cool, requests, options, cool_at_start=True)

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        return self._cycle.run(tick, hands)

    def stop(self, hands: Actuators) -> None:
        """Holds nothing: an eviction that was begun goes on."""

    def _be_cpu_evict(
        self, tick: Tick, config: ResourceThresholdStrategy
    ) -> EvictionRequest | None:
        limits = thresholds.satisfaction_range(
            config.cpu_evict_be_satisfaction_lower_percent,
            config.cpu_evict_be_satisfaction_upper_percent,
        )
        due = self._due(tick, config, limits)
        if due <= 0:
            return None
        chosen = victims.best_effort(tick.snapshot.pods.value, BE_CPU_EVICT)
        usage = readings.last_by_label(tick, MetricKind.POD_CPU_USAGE)
        used = [int(1000 * usage.get(pod.uid, 0.0)) for pod in chosen]
        requested = [pod_resources.batch_cpu_milli(pod.pod) for pod in chosen]
        ordered = victims.in_share_order(chosen, used, requested)
        return EvictionRequest(
            REQUESTED,
            {BATCH_CPU: due},
            ordered,
            lambda pod: {BATCH_CPU: pod_resources.batch_cpu_milli(pod.pod)},
        )

    def _due(
        self, tick: Tick, config: ResourceThresholdStrategy, limits: thresholds.ThresholdRange
    ) -> int:
        seconds = self._window_seconds(config)
        allocatable = None
        if config.cpu_evict_policy == BY_ALLOCATABLE:
            allocatable = _batch_milli(tick)
        average, samples = _tier(
            readings.over(tick, MetricKind.NODE_BE, seconds), allocatable, "avg"
        )
        enough = decision.covered(
            one_node.row(samples), self._collect_seconds, one_node.row(seconds)
        )
        last, now = _tier(readings.last(tick, MetricKind.NODE_BE), allocatable, "last")
        if not enough.all() or not now:
            raise KoordError("metric node_be", "samples", samples, f"a third of {seconds} s")
        threshold = config.cpu_evict_be_usage_threshold_percent
        satisfaction = decision.SatisfactionThresholds(
            one_node.row(limits.lower_percent),
            one_node.row(limits.threshold_percent),
            one_node.row(decision.USAGE_THRESHOLD_PERCENT if threshold is None else threshold),
        )
        return one_node.amount(decision.releases(average, last, satisfaction))

    def _cpu_allocatable_evict(
        self, tick: Tick, config: ResourceThresholdStrategy
    ) -> EvictionRequest:
        limits = thresholds.request_range(
            "cpuAllocatableEvictThresholdPercent",
            config.cpu_allocatable_evict_threshold_percent,
            config.cpu_allocatable_evict_lower_percent,
        )
        priority = thresholds.request_priority(config.allocatable_evict_priority_threshold)
        usage = readings.last_by_label(tick, MetricKind.POD_CPU_USAGE)
        pods = tick.snapshot.pods.value
        return allocatable_eviction.allocatable_request(
            CPU_ALLOCATABLE_EVICT, CPU, readings.node(tick), pods, limits, priority, usage
        )

    def _cpu_evict(self, tick: Tick, config: ResourceThresholdStrategy) -> EvictionRequest:
        limits = thresholds.usage_range(
            "cpuEvictThresholdPercent",
            config.cpu_evict_threshold_percent,
            config.cpu_evict_lower_percent,
        )
        priority = thresholds.usage_priority(config.evict_enabled_priority_threshold)
        seconds = self._window_seconds(config)
        average = readings.node_average(tick, MetricKind.NODE_CPU_USAGE, seconds)
        due = usage_eviction.usage_release(tick, CPU, int(average * 1000), limits)
        usage = readings.last_by_label(tick, MetricKind.POD_CPU_USAGE)

        def used(pod: PodState) -> int:
            return int(1000 * usage.get(pod.uid, 0.0))

        chosen = victims.up_to_priority(tick.snapshot.pods.value, CPU_EVICT, priority, usage)
        ordered = victims.in_priority_order(chosen, [used(pod) for pod in chosen])
        return EvictionRequest(USED, {CPU: due}, ordered, lambda pod: {CPU: used(pod)})

    def _window_seconds(self, config: ResourceThresholdStrategy) -> int:
        return max(int(self._collect_seconds), config.cpu_evict_time_window_seconds or 0, 1)


def _tier(
    rows: SeriesRows, allocatable: float | None, column: str
) -> tuple[decision.BestEffortColumns, int]:
    """What BE pods use, ask for and may use, and the fewest samples; 0 where one is missing."""
    at = {labels: row for row, labels in enumerate(rows.labels)}
    places = [at.get(("cpu", kind)) for kind in _BE_KINDS]
    values = getattr(rows, column)
    used, requested, limit = (0.0 if row is None else float(values[row]) for row in places)
    samples = min(0 if row is None else int(rows.count[row]) for row in places)
    tier = decision.BestEffortColumns(
        one_node.float_row(used),
        one_node.float_row(requested),
        one_node.float_row(limit if allocatable is None else allocatable),
    )
    return tier, samples


def _batch_milli(tick: Tick) -> float:
    milli = pod_resources.amount(readings.node(tick).status.allocatable, BATCH_CPU)
    if milli is None or milli < 0:
        return -1.0
    return float(max(milli, _LEAST_ALLOCATABLE_MILLI))
