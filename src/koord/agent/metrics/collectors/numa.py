# SPDX-License-Identifier: Apache-2.0
"""CPU and memory of each NUMA node. Rule: docs/reference/measuring.md#numa-nodes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host.procfs import meminfo
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.collectors.node import ticks_of
from koord.agent.metrics.counter_rates import CounterRates
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Keys, Samples
from koord.agent.states.snapshot import Timestamped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.agent.metrics.options import MetricsOptions

_LIST_AGAIN_SECONDS = 60.0


class NUMACollector(Collector):
    """Memory that cannot be had back at once, and the busy ticks of the CPUs of each node."""

    name = "numa"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._rates = CounterRates(settings.used)
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self._nodes: list[int] = []
        self._listed_seconds = float("-inf")
        self._cpus: Keys = ()
        self._node_of: NDArray[np.int64] = np.empty(0, np.int64)

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError where a file is unreadable."""
        samples = Samples(now.now_ms)
        memory = self._memory(now)
        now.shared_readings.node_numa_memory = Timestamped(memory, now.now_seconds)
        samples.add(MetricKind.NODE_NUMA_MEMORY_USAGE, numa_keys(memory), list(memory.values()))
        cpu = self._cpu(now)
        if cpu:
            now.shared_readings.node_numa_cpu = Timestamped(cpu, now.now_seconds)
            samples.add(MetricKind.NODE_NUMA_CPU_USAGE, numa_keys(cpu), list(cpu.values()))
        return samples

    def _memory(self, now: CollectionRound) -> dict[int, float]:
        sys = now.machine.roots.sys
        if now.now_seconds - self._listed_seconds >= _LIST_AGAIN_SECONDS:
            self._nodes, self._listed_seconds = meminfo.numa_nodes(sys), now.now_seconds
        found = {}
        for node in self._nodes:
            path = f"{sys}/devices/system/node/node{node}/meminfo"
            used = meminfo.numa_used_bytes(meminfo.read_numa_meminfo(sys, node), path)
            found[node] = float(used)
        return found

    def _cpu(self, now: CollectionRound) -> dict[int, float]:
        ticks = ticks_of(now)
        self._learn(now, ticks.value.cpus)
        good = np.ones(len(self._cpus), np.bool_)
        change = self._rates.advance(self._cpus, ticks.value.ticks, good, ticks.at_seconds)
        cores = change.per_second() * now.machine.tick_seconds
        # New CPUs, those whose ticks went back and those of no known node do not count.
        counted = np.isfinite(cores) & (self._node_of >= 0)
        if not counted.any():
            return {}
        nodes = self._node_of[counted]
        # Not np.unique, which loads the masked arrays of NumPy: a megabyte.
        known = np.flatnonzero(np.bincount(nodes))
        sums = np.bincount(nodes, cores[counted])
        return {int(node): float(sums[node]) for node in known}

    def _learn(self, now: CollectionRound, ids: NDArray[np.int64]) -> None:
        if np.array_equal(ids, self._ids) and self._cpus:
            return
        node_of = {cpu.cpu: cpu.node for cpu in now.machine.topology.cpus if cpu.node is not None}
        self._ids = ids
        self._cpus = tuple((str(cpu),) for cpu in ids.tolist())
        self._node_of = np.array([node_of.get(cpu, -1) for cpu in ids.tolist()], np.int64)


def numa_keys(by_node: dict[int, float]) -> Keys:
    """Labels of values by NUMA node; the same object for the same nodes."""
    return _keys_of(tuple(by_node))


@lru_cache(maxsize=16)
def _keys_of(nodes: tuple[int, ...]) -> Keys:
    return tuple((str(node),) for node in nodes)
