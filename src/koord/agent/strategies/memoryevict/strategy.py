# SPDX-License-Identifier: Apache-2.0
"""Evicts pods for want of memory: BE pods, requests above allocatable, a full node.

Amounts are bytes throughout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies import one_node, readings
from koord.agent.strategies.eviction import (
    allocatable_eviction,
    thresholds,
    usage_eviction,
    victims,
)
from koord.agent.strategies.eviction.eviction_cycle import EvictionCycle, EvictionRequest
from koord.agent.strategies.eviction.tasks import USED
from koord.agent.strategies.memoryevict import decision
from koord.api.protocol.resources import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Tick
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

BE_MEMORY_EVICT = "BEMemoryEvict"
MEMORY_ALLOCATABLE_EVICT = "MemoryAllocatableEvict"
MEMORY_EVICT = "MemoryEvict"
"""Feature gates, which are also the names of evictions."""


class MemoryEvict:
    """Evicts pods while memory is short.

    Nothing is evicted when pods or node are older than ``readings.TO_EVICT`` allows, or when there
    is no sample of the node's memory in the window of last values.
    """

    name = "memoryevict"
    gate = f"{BE_MEMORY_EVICT}|{MEMORY_ALLOCATABLE_EVICT}|{MEMORY_EVICT}"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.memory_evict_interval_seconds
        requests = {
            BE_MEMORY_EVICT: self._be_memory_evict,
            MEMORY_ALLOCATABLE_EVICT: self._memory_allocatable_evict,
            MEMORY_EVICT: self._memory_evict,
        }
        cool = options.memory_evict_cool_seconds
        self._cycle = EvictionCycle(self.name, MEMORY, cool, requests, options, cool_at_start=False)

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; see the protocol."""
        return self._cycle.run(tick, hands)

    def stop(self, hands: Actuators) -> None:
        """Holds nothing: an eviction that was begun goes on."""

    def _be_memory_evict(self, tick: Tick, config: ResourceThresholdStrategy) -> EvictionRequest:
        due = _due(tick, config)
        usage = readings.last_by_label(tick, MetricKind.POD_MEMORY_USAGE)
        chosen = victims.best_effort(tick.snapshot.pods.value, BE_MEMORY_EVICT)
        return _used(due, _idle_last(chosen, usage), usage)

    def _memory_evict(self, tick: Tick, config: ResourceThresholdStrategy) -> EvictionRequest:
        priority = thresholds.usage_priority(config.evict_enabled_priority_threshold)
        due = _due(tick, config)
        usage = readings.last_by_label(tick, MetricKind.POD_MEMORY_USAGE)
        chosen = victims.up_to_priority(tick.snapshot.pods.value, MEMORY_EVICT, priority, usage)
        weight = [int(usage[pod.uid]) for pod in chosen]
        return _used(due, victims.in_priority_order(chosen, weight), usage)

    def _memory_allocatable_evict(
        self, tick: Tick, config: ResourceThresholdStrategy
    ) -> EvictionRequest:
        limits = thresholds.request_range(
            "memoryAllocatableEvictThresholdPercent",
            config.memory_allocatable_evict_threshold_percent,
            config.memory_allocatable_evict_lower_percent,
        )
        priority = thresholds.request_priority(config.allocatable_evict_priority_threshold)
        usage = readings.last_by_label(tick, MetricKind.POD_MEMORY_USAGE)
        pods = tick.snapshot.pods.value
        return allocatable_eviction.allocatable_request(
            MEMORY_ALLOCATABLE_EVICT, MEMORY, readings.node(tick), pods, limits, priority, usage
        )


def _due(tick: Tick, config: ResourceThresholdStrategy) -> int:
    limits = thresholds.usage_range(
        "memoryEvictThresholdPercent",
        config.memory_evict_threshold_percent,
        config.memory_evict_lower_percent,
    )
    used = readings.node_last(tick, MetricKind.NODE_MEMORY_USAGE)
    return usage_eviction.usage_release(tick, MEMORY, int(used), limits)


def _used(due: int, ordered: Sequence[PodState], usage: Mapping[str, float]) -> EvictionRequest:
    return EvictionRequest(
        USED, {MEMORY: due}, ordered, lambda pod: {MEMORY: int(usage.get(pod.uid, 0.0))}
    )


def _idle_last(pods: Sequence[PodState], usage: Mapping[str, float]) -> list[PodState]:
    names = sorted({pod.pod.metadata.name for pod in pods})
    rank = {name: at for at, name in enumerate(names)}
    chosen = decision.best_effort_order(
        one_node.node_rows(len(pods)),
        one_node.column([victims.own_priority(pod) for pod in pods]),
        one_node.column([int(usage.get(pod.uid, 0.0)) for pod in pods]),
        one_node.column([rank[pod.pod.metadata.name] for pod in pods]),
    )
    return [pods[at] for at in chosen.tolist()]
