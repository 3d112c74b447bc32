# SPDX-License-Identifier: Apache-2.0
"""CPU and memory of pods and containers.

Rule: docs/reference/measuring.md#pods-and-containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.collector import CollectionRound, Collector, MeasuredUsage
from koord.agent.metrics.counter_rates import CounterRates
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.agent.states.snapshot import Timestamped
from koord.kernels.cgroup_parse import Version, parse_numa_stat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.agent.metrics.cgroup_tables import CgroupReading
    from koord.agent.metrics.options import MetricsOptions

_NS = 1e-9
# Only what is left for the system of a NUMA node is made of it, and that takes figures of up to ten
# seconds; the file costs the kernel more than all others of a pod.
_NUMA_SECONDS = 5.0
_V2_PAGE_BYTES = 4096  # what the parser divides the bytes of v2 by, whatever the machine's page


class PodsCollector(Collector):
    """Cores used since the round before, and memory that cannot be dropped.

    A pod that cannot be read is left out with its containers. Pods count whatever their phase.
    """

    name = "pods"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._rates = CounterRates(settings.used)
        self._numa_seconds = min(_NUMA_SECONDS, settings.system_outdated / 2)

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; a pod that cannot be read has no sample."""
        samples = Samples(now.now_ms)
        if not now.knows_pods:
            return samples
        usage, stat = now.read_cgroups("cpuacct.usage"), now.read_cgroups("memory.stat")
        rows = usage.rows
        good = rows.with_pods(usage.good & stat.good)
        change = self._rates.advance(rows.all_keys, usage.column(), good, usage.at_seconds)
        pod_cpu, container_cpu = rows.split(change.per_second() * _NS)
        pod_memory, container_memory = rows.split(np.where(good, unreclaimable(stat), np.nan))
        samples.add(MetricKind.POD_CPU_USAGE, rows.pod_keys, pod_cpu)
        samples.add(MetricKind.POD_MEMORY_USAGE, rows.pod_keys, pod_memory)
        samples.add(MetricKind.CONTAINER_CPU_USAGE, rows.container_keys, container_cpu)
        samples.add(MetricKind.CONTAINER_MEMORY_USAGE, rows.container_keys, container_memory)
        total = MeasuredUsage(_total(pod_cpu), _total(pod_memory))
        now.shared_readings.pods = Timestamped(total, now.now_seconds)
        if now.shared_readings.pods_numa_memory.age_seconds(now.now_seconds) >= self._numa_seconds:
            now.shared_readings.pods_numa_memory = Timestamped(_numa_memory(now), now.now_seconds)
        return samples


def _total(figures: NDArray[np.float64]) -> float:
    """Their sum without those that are NaN, as np.nansum has it, which does much more for that."""
    return float(np.where(np.isnan(figures), 0.0, figures).sum())


def unreclaimable(stat: CgroupReading) -> NDArray[np.int64]:
    """Anonymous and unevictable bytes of ``memory.stat``."""
    return stat.column("inactive_anon") + stat.column("active_anon") + stat.column("unevictable")


def file_pages(stat: CgroupReading) -> NDArray[np.int64]:
    """Bytes of the page cache that ``memory.stat`` counts as used or not used of late."""
    return stat.column("active_file") + stat.column("inactive_file")


def _numa_memory(now: CollectionRound) -> dict[int, float]:
    """Memory of all pods by NUMA node, on v1 and v2."""
    version = now.machine.hierarchy.version
    page_bytes = _V2_PAGE_BYTES if version == Version.V2 else now.machine.page_bytes
    found: dict[int, float] = {}
    reading = now.read_cgroups("memory.numa_stat", pods_only=True)
    for row in np.flatnonzero(reading.good).tolist():
        try:
            pages = parse_numa_stat(reading.table.texts[row], version)
        except ValueError:
            continue
        for node, count in pages.items():
            found[node] = found.get(node, 0.0) + float(count * page_bytes)
    return found
