# SPDX-License-Identifier: Apache-2.0
"""Evicts pods for want of memory: BE pods, requests above allocatable, a full node.

Amounts are bytes throughout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.kinds import Kind
from koord.agent.strategies import amounts, readings
from koord.agent.strategies.eviction import release, requests, settings, victims
from koord.agent.strategies.eviction.engine import Engine, Wish
from koord.agent.strategies.eviction.tasks import USED
from koord.agent.strategies.memoryevict import decision
from koord.api.protocol.resources import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.agent.states.pods import PodState
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Hands, Tick
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

_BE, _REQUESTS, _USAGE = "BEMemoryEvict", "MemoryAllocatableEvict", "MemoryEvict"


class MemoryEvict:
    """The strategy; see :class:`koord.agent.strategies.strategy.Strategy`.

    Nothing is evicted when pods or node are older than ``readings.TO_EVICT`` allows, or when there
    is no sample of the node's memory in the window of last values.
    """

    name = "memoryevict"
    gate = f"{_BE}|{_REQUESTS}|{_USAGE}"

    def __init__(self, options: StrategyOptions) -> None:
        self.interval_seconds = options.memory_evict_interval_seconds
        wishes = {_BE: self._best_effort, _REQUESTS: self._promised, _USAGE: self._full}
        cool = options.memory_evict_cool_seconds
        self._engine = Engine(self.name, MEMORY, cool, wishes, options, cool_at_start=False)

    def run(self, tick: Tick, hands: Hands) -> Mapping[str, object]:
        """One round; see the protocol."""
        return self._engine.run(tick, hands)

    def stop(self, hands: Hands) -> None:
        """Holds nothing: an eviction that was begun goes on."""

    def _best_effort(self, tick: Tick, config: ResourceThresholdStrategy) -> Wish:
        due = _due(tick, config)
        usage = readings.last_by_label(tick, Kind.POD_MEMORY_USAGE)
        chosen = victims.best_effort(tick.snapshot.pods.value, _BE)
        return _used(due, _idle_last(chosen, usage), usage)

    def _full(self, tick: Tick, config: ResourceThresholdStrategy) -> Wish:
        priority = settings.usage_priority(config.evict_enabled_priority_threshold)
        due = _due(tick, config)
        usage = readings.last_by_label(tick, Kind.POD_MEMORY_USAGE)
        chosen = victims.up_to_priority(tick.snapshot.pods.value, _USAGE, priority, usage)
        weight = [int(usage[pod.uid]) for pod in chosen]
        return _used(due, victims.in_priority_order(chosen, weight), usage)

    def _promised(self, tick: Tick, config: ResourceThresholdStrategy) -> Wish:
        limits = settings.request_range(
            "memoryAllocatableEvictThresholdPercent",
            config.memory_allocatable_evict_threshold_percent,
            config.memory_allocatable_evict_lower_percent,
        )
        priority = settings.request_priority(config.allocatable_evict_priority_threshold)
        usage = readings.last_by_label(tick, Kind.POD_MEMORY_USAGE)
        pods = tick.snapshot.pods.value
        return requests.wish(_REQUESTS, MEMORY, readings.node(tick), pods, limits, priority, usage)


def _due(tick: Tick, config: ResourceThresholdStrategy) -> int:
    limits = settings.usage_range(
        "memoryEvictThresholdPercent",
        config.memory_evict_threshold_percent,
        config.memory_evict_lower_percent,
    )
    used = readings.node_last(tick, Kind.NODE_MEMORY_USAGE)
    capacity = amounts.amount(readings.node(tick).status.capacity, MEMORY) or 0
    due = release.by_usage(
        np.array([int(used)], np.int64),
        np.array([capacity], np.int64),
        np.array([limits.threshold_percent]),
        np.array([limits.lower_percent]),
    )
    return int(due[0])


def _used(due: int, ordered: Sequence[PodState], usage: Mapping[str, float]) -> Wish:
    return Wish(USED, {MEMORY: due}, ordered, lambda pod: {MEMORY: int(usage.get(pod.uid, 0.0))})


def _idle_last(pods: Sequence[PodState], usage: Mapping[str, float]) -> list[PodState]:
    names = sorted({pod.pod.metadata.name for pod in pods})
    rank = {name: at for at, name in enumerate(names)}
    chosen = decision.best_effort_order(
        np.zeros(len(pods), np.int64),
        np.array([victims.own_priority(pod) for pod in pods], np.int64),
        np.array([int(usage.get(pod.uid, 0.0)) for pod in pods], np.int64),
        np.array([rank[pod.pod.metadata.name] for pod in pods], np.int64),
    )
    return [pods[at] for at in chosen.tolist()]
