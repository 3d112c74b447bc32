# SPDX-License-Identifier: Apache-2.0
"""What neither pods nor host applications account for.

Rule: docs/reference/measuring.md#system-usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.collectors.numa import numa_keys
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions
    from koord.agent.states.snapshot import Timestamped

T = TypeVar("T")


class SystemCollector(Collector):
    """The rest, at least 0; nothing where an input is missing or too old."""

    name = "system"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._outdated_seconds = settings.system_outdated

    def collect(self, now: CollectionRound) -> Samples:
        """Subtracts what the collectors before found."""
        samples = Samples(now.now_ms)
        board = now.shared_readings
        node, pods = self._fresh(now, board.node), self._fresh(now, board.pods)
        applications = self._fresh(now, board.host_applications)
        if node and pods and applications:
            cpu = max(0.0, node.cpu_cores - pods.cpu_cores - applications.cpu_cores)
            used = node.memory_bytes - pods.memory_bytes - applications.memory_bytes
            samples.one(MetricKind.SYS_CPU_USAGE, cpu)
            samples.one(MetricKind.SYS_MEMORY_USAGE, max(0.0, used))
            self._numa_cpu(now, cpu, samples)
        self._numa_memory(now, samples)
        return samples

    def _numa_cpu(self, now: CollectionRound, system_cores: float, samples: Samples) -> None:
        """The system's CPU in the proportion in which the nodes are busy."""
        by_node = self._fresh(now, now.shared_readings.node_numa_cpu)
        if by_node:
            total = sum(by_node.values())
            parts = [system_cores * cpu / total if total else 0.0 for cpu in by_node.values()]
            samples.add(MetricKind.SYS_NUMA_CPU_USAGE, numa_keys(by_node), parts)

    def _numa_memory(self, now: CollectionRound, samples: Samples) -> None:
        nodes = self._fresh(now, now.shared_readings.node_numa_memory)
        pods = self._fresh(now, now.shared_readings.pods_numa_memory)
        if nodes is not None and pods is not None:
            rest = [max(0.0, used - pods.get(node, 0.0)) for node, used in nodes.items()]
            samples.add(MetricKind.SYS_NUMA_MEMORY_USAGE, numa_keys(nodes), rest)

    def _fresh(self, now: CollectionRound, entry: Timestamped[T]) -> T | None:
        return entry.value if entry.age_seconds(now.now_seconds) <= self._outdated_seconds else None
