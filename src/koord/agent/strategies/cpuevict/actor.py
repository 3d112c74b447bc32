# SPDX-License-Identifier: Apache-2.0
"""Evicts pods for want of CPU: unsatisfied BE pods, requests above allocatable, a busy node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.kinds import Kind
from koord.agent.strategies import amounts, readings
from koord.agent.strategies.cpuevict import decision
from koord.agent.strategies.eviction import release, requests, settings, victims
from koord.agent.strategies.eviction.engine import Engine, Wish
from koord.agent.strategies.eviction.tasks import REQUESTED, USED
from koord.api.protocol.resources import BATCH_CPU, CPU
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.metrics.reader import Rows
    from koord.agent.states.pods import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Hands, Tick
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

BY_ALLOCATABLE = "evictByAllocatable"
_BE, _REQUESTS, _USAGE = "BECPUEvict", "CPUAllocatableEvict", "CPUEvict"
_BE_KINDS = ("usage", "request", "real-limit")
_LEAST_ALLOCATABLE_MILLI = 1


class CPUEvict:
    """The strategy; see :class:`koord.agent.strategies.strategy.Strategy`.

    Nothing is evicted when pods or node are older than ``readings.TO_EVICT`` allows, or when the
    newest sample of a window is.
    """

    name = "cpuevict"
    gate = f"{_BE}|{_REQUESTS}|{_USAGE}"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.cpu_evict_interval_seconds
        self._collect_seconds = options.collect_interval_seconds
        wishes = {_BE: self._unsatisfied, _REQUESTS: self._promised, _USAGE: self._busy}
        cool = options.cpu_evict_cool_seconds
        self._engine = Engine(self.name, CPU, cool, wishes, options, cool_at_start=True)

    def run(self, tick: Tick, hands: Hands) -> Mapping[str, object]:
        """One round; see the protocol."""
        return self._engine.run(tick, hands)

    def stop(self, hands: Hands) -> None:
        """Holds nothing: an eviction that was begun goes on."""

    def _unsatisfied(self, tick: Tick, config: ResourceThresholdStrategy) -> Wish | None:
        limits = settings.satisfaction_range(
            config.cpu_evict_be_satisfaction_lower_percent,
            config.cpu_evict_be_satisfaction_upper_percent,
        )
        due = self._due(tick, config, limits)
        if due <= 0:
            return None
        chosen = victims.best_effort(tick.snapshot.pods.value, _BE)
        usage = readings.last_by_label(tick, Kind.POD_CPU_USAGE)
        used = [int(1000 * usage.get(pod.uid, 0.0)) for pod in chosen]
        requested = [amounts.batch_cpu_milli(pod.pod) for pod in chosen]
        ordered = victims.in_share_order(chosen, used, requested)
        return Wish(
            REQUESTED,
            {BATCH_CPU: due},
            ordered,
            lambda pod: {BATCH_CPU: amounts.batch_cpu_milli(pod.pod)},
        )

    def _due(self, tick: Tick, config: ResourceThresholdStrategy, limits: settings.Range) -> int:
        seconds = self._window_seconds(config)
        allocatable = None
        if config.cpu_evict_policy == BY_ALLOCATABLE:
            allocatable = _batch_milli(tick)
        average, samples = _tier(readings.over(tick, Kind.NODE_BE, seconds), allocatable, "avg")
        window = np.array([seconds], np.int64)
        enough = decision.covered(np.array([samples]), self._collect_seconds, window)
        last, now = _tier(readings.last(tick, Kind.NODE_BE), allocatable, "last")
        if not bool(enough[0]) or not now:
            raise KoordError("metric node_be", "samples", samples, f"a third of {seconds} s")
        threshold = config.cpu_evict_be_usage_threshold_percent
        satisfaction = decision.Satisfaction(
            np.array([limits.lower_percent]),
            np.array([limits.threshold_percent]),
            np.array([decision.USAGE_THRESHOLD_PERCENT if threshold is None else threshold]),
        )
        return int(decision.releases(average, last, satisfaction)[0])

    def _promised(self, tick: Tick, config: ResourceThresholdStrategy) -> Wish:
        limits = settings.request_range(
            "cpuAllocatableEvictThresholdPercent",
            config.cpu_allocatable_evict_threshold_percent,
            config.cpu_allocatable_evict_lower_percent,
        )
        priority = settings.request_priority(config.allocatable_evict_priority_threshold)
        usage = readings.last_by_label(tick, Kind.POD_CPU_USAGE)
        pods = tick.snapshot.pods.value
        return requests.wish(_REQUESTS, CPU, readings.node(tick), pods, limits, priority, usage)

    def _busy(self, tick: Tick, config: ResourceThresholdStrategy) -> Wish:
        limits = settings.usage_range(
            "cpuEvictThresholdPercent",
            config.cpu_evict_threshold_percent,
            config.cpu_evict_lower_percent,
        )
        priority = settings.usage_priority(config.evict_enabled_priority_threshold)
        seconds = self._window_seconds(config)
        average = readings.node_average(tick, Kind.NODE_CPU_USAGE, seconds)
        capacity = amounts.amount(readings.node(tick).status.capacity, CPU) or 0
        due = release.by_usage(
            np.array([int(average * 1000)], np.int64),
            np.array([capacity], np.int64),
            np.array([limits.threshold_percent]),
            np.array([limits.lower_percent]),
        )
        usage = readings.last_by_label(tick, Kind.POD_CPU_USAGE)

        def used(pod: PodState) -> int:
            return int(1000 * usage.get(pod.uid, 0.0))

        chosen = victims.up_to_priority(tick.snapshot.pods.value, _USAGE, priority, usage)
        ordered = victims.in_priority_order(chosen, [used(pod) for pod in chosen])
        return Wish(USED, {CPU: int(due[0])}, ordered, lambda pod: {CPU: used(pod)})

    def _window_seconds(self, config: ResourceThresholdStrategy) -> int:
        return max(int(self._collect_seconds), config.cpu_evict_time_window_seconds or 0, 1)


def _tier(rows: Rows, allocatable: float | None, column: str) -> tuple[decision.Tier, int]:
    """The three figures of the BE tier and the least number of samples; 0 where one is missing."""
    at = {labels: row for row, labels in enumerate(rows.labels)}
    found = [at.get(("cpu", kind)) for kind in _BE_KINDS]
    values = getattr(rows, column)
    used, asked, limit = (0.0 if row is None else float(values[row]) for row in found)
    samples = min(0 if row is None else int(rows.count[row]) for row in found)
    tier = decision.Tier(
        np.array([used]),
        np.array([asked]),
        np.array([limit if allocatable is None else allocatable]),
    )
    return tier, samples


def _batch_milli(tick: Tick) -> float:
    found = amounts.amount(readings.node(tick).status.allocatable, BATCH_CPU)
    if found is None or found < 0:
        return -1.0
    return float(max(found, _LEAST_ALLOCATABLE_MILLI))
