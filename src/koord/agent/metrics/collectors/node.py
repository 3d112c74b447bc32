# SPDX-License-Identifier: Apache-2.0
"""CPU and memory of the whole machine. Rule: docs/reference/measuring.md#node-usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host.procfs import meminfo
from koord.agent.host.procfs.proc_stat import CPUTicks, read_cpu_ticks
from koord.agent.metrics.collector import CollectionRound, Collector, MeasuredUsage
from koord.agent.metrics.counter_rates import CounterRates
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import NO_LABELS, Samples
from koord.agent.states.snapshot import Timestamped

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions

_GOOD = np.ones(1, np.bool_)


class NodeCollector(Collector):
    """Busy ticks a second, and memory that is not available; nothing at all in the first round."""

    name = "node"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._rates = CounterRates(settings.used)

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError where either file is unreadable."""
        ticks = ticks_of(now)
        memory = meminfo.used_bytes(meminfo_of(now), f"{now.machine.roots.proc}/meminfo")
        total = np.array([ticks.value.total], np.int64)
        change = self._rates.advance(NO_LABELS, total, _GOOD, ticks.at_seconds)
        cpu = float(change.per_second()[0]) * now.machine.tick_seconds
        samples = Samples(now.now_ms)
        if cpu == cpu:
            now.shared_readings.node = Timestamped(MeasuredUsage(cpu, memory), now.now_seconds)
            samples.one(MetricKind.NODE_CPU_USAGE, cpu)
            samples.one(MetricKind.NODE_MEMORY_USAGE, memory)
        return samples


def ticks_of(now: CollectionRound) -> Timestamped[CPUTicks]:
    """The ticks of this round: /proc/stat is read once for all who ask; raises KoordError."""
    if now.shared_readings.ticks is None or now.shared_readings.ticks.at_seconds < now.now_seconds:
        at_seconds = now.clock.monotonic_seconds()
        now.shared_readings.ticks = Timestamped(read_cpu_ticks(now.machine.roots.proc), at_seconds)
    return now.shared_readings.ticks


def meminfo_of(now: CollectionRound) -> dict[str, int]:
    """/proc/meminfo of this round, read once for all who ask; raises KoordError."""
    if (
        now.shared_readings.meminfo is None
        or now.shared_readings.meminfo.at_seconds != now.now_seconds
    ):
        now.shared_readings.meminfo = Timestamped(
            meminfo.read_meminfo(now.machine.roots.proc), now.now_seconds
        )
    return now.shared_readings.meminfo.value
