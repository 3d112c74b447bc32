# SPDX-License-Identifier: Apache-2.0
"""Keeps a sample a minute, and what happened between them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from koord.simulator.colocation.results.result import DaySeries, MachineMinutes
from koord.simulator.live import notable_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.simulator.colocation.results.result import Floats
    from koord.simulator.live.notable_events import NotableEvent
    from koord.simulator.live.sample import ClusterSample
    from koord.simulator.nodes.strategies.enforcement import Eviction

MINUTE_SECONDS = 60.0
# A week: who lets it run longer gets a report of the last one.
_MOST_SAMPLES = 7 * 24 * 60
_MOST_HAPPENINGS = 10_000
_LISTED_MACHINES = 100


class RunRecord:
    """A run so far.

    Args:
        names: of the machines.
        cpus: of each machine.

    Attributes:
        names: of the machines.
        cpus: of each machine, shape (machines,).
        samples: one a minute, the last week of them.
        happenings: in the order in which they were noticed, the last 10,000.
        evictions: the last 10,000.
    """

    def __init__(self, names: Sequence[str], cpus: Sequence[int]) -> None:
        self.names = list(names)
        self.cpus: Floats = np.array(cpus, np.float64)
        self.samples: deque[ClusterSample] = deque(maxlen=_MOST_SAMPLES)
        self.happenings: deque[NotableEvent] = deque(maxlen=_MOST_HAPPENINGS)
        self.evictions: deque[Eviction] = deque(maxlen=_MOST_HAPPENINGS)
        self._reported_cores = 0.0

    @property
    def capacity_cores(self) -> float:
        """Of all machines."""
        return float(self.cpus.sum())

    def add(self, sample: ClusterSample, evictions: Iterable[Eviction] = ()) -> list[NotableEvent]:
        """Takes up the next minute.

        Args:
            sample: at its end.
            evictions: that were begun in it.

        Returns:
            What is worth a line.
        """
        before = self.samples[-1] if self.samples else None
        found = notable_events.of_suppression(before, sample, self.names)
        offer = notable_events.of_offer(self._reported_cores, sample, self.capacity_cores)
        if offer is not None:
            self._reported_cores = float(sample.offered.sum())
            found.append(offer)
        new = list(evictions)
        found += [notable_events.of_eviction(each, self.names) for each in new]
        found.sort(key=lambda each: each.seconds)
        self.samples.append(sample)
        self.evictions += new
        self.happenings += found
        return found

    def evicted(self) -> Floats:
        """Evictions of each machine, shape (machines,)."""
        rows = [each.row for each in self.evictions]
        return np.bincount(rows, minlength=len(self.names)).astype(np.float64)

    def series(self) -> DaySeries:
        """The cluster, a value a minute, as reports draw it."""
        start = self.samples[0].seconds if self.samples else 0.0
        rows = [_row(each, start) for each in self.samples]
        columns = np.array(rows, np.float64).reshape(-1, len(DaySeries._fields)).T.copy()
        series = DaySeries(*columns)
        ends = start + 3600 * series.hours
        for eviction in self.evictions:
            # In the minute that ended next; what came before the first sample is not drawn.
            at = int(np.searchsorted(ends, eviction.seconds))
            if at < len(ends):
                series.evictions[at] += 1
        return series

    def machines(self) -> MachineMinutes:
        """Up to a hundred machines, a value a minute."""
        count = min(len(self.names), _LISTED_MACHINES)
        rows = np.linspace(0, len(self.names) - 1, count).round().astype(np.int64)
        shares = np.array(
            [
                (each.services + each.batch + each.system, each.batch, each.offered)
                for each in self.samples
            ]
        ).reshape(-1, 3, len(self.names))
        used, batch, offered = (
            (shares / self.cpus).astype(np.float32)[:, :, rows].transpose(1, 2, 0)
        )
        return MachineMinutes(rows, used, batch, offered)


def alone(series: DaySeries) -> DaySeries:
    """The same time without batch: services get what they want first, so it is theirs alone."""
    nothing = np.zeros_like(series.cpu_batch)
    return series._replace(cpu_used=series.cpu_services + series.cpu_system, cpu_batch=nothing)


def _row(sample: ClusterSample, start: float) -> tuple[float, ...]:
    """The fields of a :class:`DaySeries` for one minute, without its evictions."""
    services, batch, system = (
        float(each.sum()) for each in (sample.services, sample.batch, sample.system)
    )
    held_machines = float(np.count_nonzero(sample.held < notable_events.HELD_BELOW))
    return (
        (sample.seconds - start) / 3600,
        services + batch + system,
        services,
        batch,
        system,
        float(sample.memory_bytes.sum()),
        float(sample.offered.sum()),
        sample.requested,
        sample.running,
        sample.waiting,
        held_machines,
        0.0,
        sample.short_pods,
    )
