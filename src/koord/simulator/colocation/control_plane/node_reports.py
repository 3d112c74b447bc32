# SPDX-License-Identifier: Apache-2.0
"""What agents report, and what the manager makes of it: columns of all machines.

Every machine reports once in the report interval, not all at once. A report holds averages over the
aggregation window, as a NodeMetric does, and the manager works out what that machine offers with
its own functions, at once, and writes the Node if the offer moved far enough or is old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.overcommit.column_groups import take
from koord.controllers.manager.overcommit.formulas import batch, sums, threshold
from koord.controllers.manager.overcommit.objects import node_columns, strategy_columns
from koord.controllers.manager.overcommit.objects.pod_terms import PodFlag, PodTerms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.simulator.colocation.results.result import Floats, Ints
    from koord.simulator.colocation.workload.services import MachineCapacities, ServicePods

_ON_TIME = 1e-6


class SlidingMean:
    """Means over the last samples, a row a pod or a machine.

    Args:
        rows: how many series.
        samples: of the window.
    """

    def __init__(self, rows: int, samples: int) -> None:
        self._ring = np.zeros((samples, rows), np.float32)
        self._sum = np.zeros(rows)
        self._count = 0

    def append(self, values: NDArray[np.floating]) -> None:
        """A sample of every series."""
        at = self._count % len(self._ring)
        self._sum -= self._ring[at]
        self._ring[at] = values
        # What was stored is what is taken off later, so that no error adds up.
        self._sum += self._ring[at]
        self._count += 1

    def mean(self) -> Floats:
        """The means of what there is; 0 before the first sample."""
        return self._sum / max(min(self._count, len(self._ring)), 1)


class ReportedUsage(NamedTuple):
    """Averages of the window: milli-cores and bytes, ``[2, rows]``.

    Attributes:
        used: by all, a row a machine.
        system: by the machine's own programs.
        services: by service pods, a row a pod.
    """

    used: Ints
    system: Ints
    services: Ints


class NodeReporter:
    """The windows of all agents, and when each reports.

    Args:
        machines: how many.
        pods: of services, how many.
        strategy: window and interval.
        step_seconds: between two samples.
    """

    def __init__(
        self, machines: int, pods: int, strategy: ColocationStrategy, step_seconds: float
    ) -> None:
        window = strategy.metric_aggregate_duration_seconds or 300
        samples = max(1, round(window / step_seconds))
        self._interval = float(strategy.metric_report_interval_seconds or 60)
        turns = max(1, round(self._interval / step_seconds))
        phase = np.arange(machines) % turns * self._interval / turns
        self._next = self._interval + phase
        self._used = SlidingMean(2 * machines, samples)
        self._system = SlidingMean(2 * machines, samples)
        self._services = SlidingMean(2 * pods, samples)

    def sample(self, used: Floats, system: Floats, services: NDArray[np.floating]) -> None:
        """What was used in a step: cores and bytes, ``[2, rows]``."""
        self._used.append(used.reshape(-1))
        self._system.append(system.reshape(-1))
        self._services.append(services.reshape(-1))

    def due(self, now: float) -> NDArray[np.intp]:
        """Machines that report now."""
        rows = np.flatnonzero(self._next <= now + _ON_TIME)
        self._next[rows] += self._interval
        return rows

    def measured(self) -> ReportedUsage:
        """What they report."""
        return ReportedUsage(*(_whole(each.mean()) for each in
                          (self._used, self._system, self._services)))  # fmt: skip


class BatchAllocatable(NamedTuple):
    """What the manager writes: machines, milli-cores, bytes."""

    rows: NDArray[np.intp]
    cpu_milli: Ints
    memory_bytes: Ints


class OvercommitManager:
    """What machines offer.

    Args:
        fleet: the machines.
        pods: of services.
        strategy: of all machines.

    Attributes:
        offered: milli-cores and bytes as the Nodes say, ``[2, machines]``; :data:`threshold.ABSENT`
            before the first write.
        writes: how many Nodes were written.
    """

    def __init__(
        self, fleet: MachineCapacities, pods: ServicePods, strategy: ColocationStrategy
    ) -> None:
        rows = len(fleet.cpus)
        capacity = np.stack([fleet.cpus * 1000, fleet.memory_bytes]).astype(np.int64)
        self._nodes = node_columns.empty(rows)._replace(capacity=capacity)
        self._settings = strategy_columns.columns([strategy_columns.of(strategy)] * rows)
        # Not a copy: where pods move, their rows say so.
        self._machine = pods.machine.astype(np.intp, copy=False)
        self._request = np.stack([pods.request_milli, pods.request_bytes])
        self.offered = np.full((2, rows), threshold.ABSENT, np.int64)
        self._written = np.full(rows, -np.inf)
        self._place = np.zeros(rows, np.intp)
        self.writes = 0

    def reported(
        self, rows: NDArray[np.intp], usage: ReportedUsage, now: float
    ) -> BatchAllocatable:
        """Takes the reports of some machines; the offers that are to be written."""
        self._place[rows] = np.arange(len(rows))
        theirs = np.zeros(len(self._place), np.bool_)
        theirs[rows] = True
        own = np.flatnonzero(theirs[self._machine])
        flags = np.full(len(own), int(PodFlag.HIGH | PodFlag.FIRM | PodFlag.MEASURED), np.uint8)
        terms = PodTerms(
            self._place[self._machine[own]], flags, self._request[:, own], usage.services[:, own],
            np.zeros(len(own), np.uint64),
        )  # fmt: skip
        told = take(self._nodes, rows)._replace(
            system=usage.system[:, rows],
            used=usage.used[:, rows],
            reported=np.full(len(rows), node_columns.DegradeReason.NO, np.uint8),
            updated=np.full(len(rows), now),
        )
        chosen = take(self._settings, rows)
        degraded = node_columns.degraded(told, chosen, now)
        offer = batch.offer(told, sums.of(terms, len(rows)), chosen, degraded)
        due = threshold.due(self.offered[:, rows], offer.amounts, chosen.diff_threshold)
        due |= now - self._written[rows] > chosen.update_seconds
        return self._write(rows[due], offer.amounts[:, due], now)

    def _write(self, rows: NDArray[np.intp], amounts: Ints, now: float) -> BatchAllocatable:
        self.offered[:, rows] = amounts
        self._written[rows] = now
        self.writes += len(rows)
        return BatchAllocatable(rows, amounts[0], amounts[1])


def _whole(pairs: Floats) -> Ints:
    """Cores and bytes ``[2 * rows]`` as milli-cores and bytes ``[2, rows]``, fractions dropped."""
    found = pairs.reshape(2, -1)
    return np.stack([np.trunc(1000 * found[0]), np.trunc(found[1])]).astype(np.int64)
