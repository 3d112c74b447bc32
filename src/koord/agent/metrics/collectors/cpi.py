# SPDX-License-Identifier: Apache-2.0
"""Cycles and instructions of containers over a short window.

Rule: docs/reference/measuring.md#cycles-per-instruction.
"""

from __future__ import annotations

import resource as limits
from typing import TYPE_CHECKING

from koord.agent.host.kernel.features import Feature
from koord.agent.host.kernel.perf import CPI, PerfCounters
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.agent.host.kernel.perf import PerfEvent
    from koord.agent.metrics.options import MetricsOptions

_WORDS = ("cycle", "instruction")
DESCRIPTORS_MAX = 16_384


class CPICollector(Collector):
    """Opens counters at the beginning of the window and reads and closes them at its end.

    Args:
        settings: interval and window.
        events: what is counted; two.
        descriptors: how many may be open; a container takes two a CPU. Where there are too few for
            all containers they take turns.
        opened: opens the counters of a directory on CPUs.
    """

    name = "cpi"
    gate = "CPICollector"
    needs = frozenset({Feature.PERF})

    def __init__(
        self,
        settings: MetricsOptions,
        events: Sequence[PerfEvent] = CPI,
        descriptors: int | None = None,
        opened: Callable[[str, Sequence[int], Sequence[PerfEvent]], PerfCounters] = PerfCounters,
    ) -> None:
        self.interval_seconds = settings.cpi
        self.window_seconds = settings.cpi_window
        self._events = events
        self._descriptors = _half_of_limit() if descriptors is None else descriptors
        self._open: dict[tuple[str, str], PerfCounters] = {}
        self._opened = opened
        self._next = 0

    def begin(self, now: CollectionRound) -> None:
        """Starts counting; raises KoordError where no container could be counted."""
        self.stop()
        if not now.knows_pods:
            return
        running = [(p.uid, c) for p, c in now.cgroup_rows().containers if c.running]
        cpus = list(now.machine.topology.online)
        turn = self._turn(len(running), self._descriptors // max(1, 2 * len(cpus)))
        refused: KoordError | None = None
        for uid, container in (running[index] for index in turn):
            try:
                counters = self._opened(_directory(now, container.directory), cpus, self._events)
            except KoordError as error:
                refused = error
            else:
                self._open[uid, container.id] = counters
        if refused and not self._open:
            raise refused

    def collect(self, now: CollectionRound) -> Samples:
        """Reads and closes; a container that ended meanwhile has no sample."""
        samples = Samples(now.now_ms)
        found: dict[tuple[str, str], list[float]] = {}
        for key, counters in self._open.items():
            try:
                found[key] = counters.read()
            except KoordError:
                continue
        self.stop()
        for at, word in enumerate(_WORDS):
            keys = tuple((*key, word) for key in found)
            samples.add(MetricKind.CONTAINER_CPI, keys, [counts[at] for counts in found.values()])
        return samples

    def stop(self) -> None:
        """Closes every counter."""
        for counters in self._open.values():
            counters.close()
        self._open.clear()

    def _turn(self, containers: int, most: int) -> list[int]:
        if containers <= most:
            return list(range(containers))
        turn = [(self._next + step) % containers for step in range(most)]
        self._next = (self._next + most) % containers
        return turn


def _directory(now: CollectionRound, directory: str) -> str:
    hierarchy = now.machine.hierarchy
    top = hierarchy.path if hierarchy.version == Version.V2 else f"{hierarchy.path}/perf_event"
    return f"{top}/{directory}"


def _half_of_limit() -> int:
    soft, _ = limits.getrlimit(limits.RLIMIT_NOFILE)
    return DESCRIPTORS_MAX if soft == limits.RLIM_INFINITY else min(DESCRIPTORS_MAX, soft // 2)
