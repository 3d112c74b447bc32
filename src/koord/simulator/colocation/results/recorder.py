# SPDX-License-Identifier: Apache-2.0
"""Keeps account of a run, step by step, as the columns of :mod:`result`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.simulator.colocation.results.result import (
    GRANT_EDGES,
    LENGTH_EDGES_MINUTES,
    BatchKindResult,
    DaySeries,
    MachineMinutes,
    PodShortage,
    ServiceShortage,
    Shortage,
)

if TYPE_CHECKING:
    from koord.simulator.colocation.inputs.scenario import LatencySensitiveService, Scenario
    from koord.simulator.colocation.node_model.cpu_contention import CoreGrants
    from koord.simulator.colocation.results.result import Floats, Ints, Singles
    from koord.simulator.colocation.workload.batch_tasks import BatchTasks
    from koord.simulator.colocation.workload.services import ServicePods

MINUTE_SECONDS = 60.0
_SAMPLED_MACHINES = 100
_WORST_PODS = 20


class StepRecord(NamedTuple):
    """What a step was like; columns have a row a machine, the rest is of the whole cluster.

    Attributes:
        suppressed: the share of the step for which batch pods were held down.
        offered: cores offered to batch pods.
        evicted: tasks that lost their work.
    """

    grants: CoreGrants
    memory_bytes: Floats
    suppressed: Floats
    offered: Floats
    requested_cores: float
    running: int
    waiting: int
    evicted: int


class DayRecorder:
    """The figures of machines, minute by minute.

    Args:
        machines: how many.
        minutes: of the run.
        steps_a_minute: how many steps make one.
    """

    def __init__(self, machines: int, minutes: int, steps_a_minute: int) -> None:
        self._steps = steps_a_minute
        self._values = np.zeros((len(DaySeries._fields), minutes))
        self._values[0] = np.arange(minutes) / 60
        count = min(machines, _SAMPLED_MACHINES)
        self._sample = np.linspace(0, machines - 1, count).round().astype(np.int64)
        self._machines = np.zeros((3, count, minutes), np.float32)
        self._done = 0

    def step(self, now: StepRecord, cpus: Floats, short_pods: int) -> None:
        """Adds a step; the shortages of pods are told in the last step of a minute."""
        minute, last = divmod(self._done, self._steps)
        at, part = self._values[:, minute], 1.0 / self._steps
        grants = now.grants
        services = float(grants.shared.sum() + grants.bound.sum())
        batch, system = float(grants.batch.sum()), float(grants.system.sum())
        means = (
            services + batch + system, services, batch, system, float(now.memory_bytes.sum()),
            float(now.offered.sum()), now.requested_cores,
        )  # fmt: skip
        at[1:8] += np.array(means) * part
        at[10] += float(now.suppressed.sum()) * part
        at[11] += now.evicted
        rows = self._sample
        columns = (grants.used, grants.batch, now.offered)
        for place, column in enumerate(columns):
            self._machines[place, :, minute] += column[rows] / cpus[rows] * part
        if last == self._steps - 1:
            at[8], at[9], at[12] = now.running, now.waiting, short_pods
        self._done += 1

    def series(self) -> DaySeries:
        """All minutes so far."""
        return DaySeries(*self._values[:, : self._minutes])

    def machines(self) -> MachineMinutes:
        """The machines of the sample."""
        return MachineMinutes(self._sample, *self._machines[:, :, : self._minutes])

    @property
    def _minutes(self) -> int:
        return -(-self._done // self._steps)


class ShortageRecorder:
    """Which pods of services were short of CPU, window by window.

    Args:
        scenario: what short is.
        pods: of services.
    """

    def __init__(self, scenario: Scenario, pods: ServicePods) -> None:
        short = scenario.report.short
        self._services: list[LatencySensitiveService] = scenario.services
        self._pods = pods
        self._below = short.granted_below
        self._minutes = round(short.window_seconds / MINUTE_SECONDS)
        self._steps = round(short.window_seconds / scenario.step_seconds)
        self._wanted = np.zeros(pods.rows, np.float32)
        self._granted = np.zeros(pods.rows, np.float32)
        inner = [edge for edge in GRANT_EDGES[1:-1] if edge < self._below]
        self._edges = (GRANT_EDGES[0], *inner, self._below)
        self._by_grant = np.zeros(len(self._edges) - 1, np.int64)
        self._by_length = np.zeros(len(LENGTH_EDGES_MINUTES), np.int64)
        self._streak = np.zeros(pods.rows, np.int64)
        self._short = np.zeros(pods.rows, np.int64)
        self._worst = np.ones(pods.rows)
        self._done = 0
        self._windows = 0
        self._now = 0

    def step(self, wanted: Singles, granted: Singles) -> int:
        """Adds a step; cores, at most the limit.

        Returns:
            How many pods were short in the last window.
        """
        self._wanted += wanted
        self._granted += granted
        self._done += 1
        if self._done % self._steps == 0:
            self._now = self._close()
        return self._now

    def _close(self) -> int:
        self._windows += 1
        ratio = np.ones(len(self._wanted))
        np.divide(self._granted, self._wanted, out=ratio, where=self._wanted > 0)
        short = ratio < self._below
        ended = ~short & (self._streak > 0)
        self._by_length += self._lengths(ended)
        self._streak[ended] = 0
        count = int(np.count_nonzero(short))
        if count:
            self._streak[short] += self._minutes
            self._short[short] += self._minutes
            self._worst[short] = np.minimum(self._worst[short], ratio[short])
            found = np.histogram(ratio[short], bins=np.array(self._edges))[0]
            self._by_grant += found * self._minutes
        self._wanted[:] = 0
        self._granted[:] = 0
        return count

    def _lengths(self, ended: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ints:
        """How many of these shortages were how long."""
        at = np.searchsorted(LENGTH_EDGES_MINUTES, self._streak[ended], "right") - 1
        found: Ints = np.bincount(at, minlength=len(self._by_length))
        return found

    def results(self, restarts: Ints) -> Shortage:
        """All shortages; those that go on count with their length so far."""
        return Shortage(
            self._edges,
            self._by_grant.copy(),
            LENGTH_EDGES_MINUTES,
            self._by_length + self._lengths(self._streak > 0),
            tuple(self._service(at, restarts) for at in range(len(self._services))),
            tuple(self._pod(row) for row in self._most_short()),
        )

    def percent(self) -> float:
        """Pod-minutes that were short, of all."""
        total = self._windows * self._minutes * self._pods.rows
        return 100.0 * float(self._short.sum()) / total if total else 0.0

    def _service(self, at: int, restarts: Ints) -> ServiceShortage:
        rows = self._pods.service == at
        each, count = self._services[at], int(np.count_nonzero(rows))
        return ServiceShortage(
            each.name,
            each.qos,
            count,
            count * self._windows * self._minutes,
            int(self._short[rows].sum()),
            float(self._worst[rows].min(initial=1.0)),
            int(restarts[rows].sum()),
        )

    def _most_short(self) -> list[int]:
        order = np.lexsort((self._worst, -self._short))[:_WORST_PODS]
        return [row for row in order.tolist() if self._short[row]]

    def _pod(self, row: int) -> PodShortage:
        service = int(self._pods.service[row])
        return PodShortage(
            self._services[service].name,
            int(np.count_nonzero(self._pods.service[:row] == service)),
            int(self._pods.machine[row]),
            int(self._short[row]),
            float(self._worst[row]),
        )


def batch_kinds(
    scenario: Scenario, tasks: BatchTasks, until_seconds: float
) -> tuple[BatchKindResult, ...]:
    """What became of each kind's tasks that came until then."""
    kinds = range(len(scenario.batch))
    return tuple(_batch_kind(scenario, tasks, at, until_seconds) for at in kinds)


def _batch_kind(
    scenario: Scenario, tasks: BatchTasks, at: int, until_seconds: float
) -> BatchKindResult:
    kind, arrivals = scenario.batch[at], tasks.arrivals
    rows = (arrivals.kind == at) & (arrivals.seconds < until_seconds)
    waited, over = tasks.waited[rows], ~np.isnan(tasks.ended[rows])
    waited = waited[~np.isnan(waited)]
    seconds = (tasks.ended - tasks.began)[rows]
    full = (arrivals.work / np.maximum(arrivals.cpu_cores, 1e-12))[rows]
    ran = np.where(over, seconds, tasks.done[rows] / np.maximum(arrivals.cpu_cores[rows], 1e-12))
    return BatchKindResult(
        kind.name,
        len(np.unique(arrivals.job[rows])),
        int(np.count_nonzero(rows)),
        len(waited),
        int(np.count_nonzero(over)),
        int(tasks.evicted[rows].sum()),
        float(waited.mean()) if len(waited) else 0.0,
        float(np.percentile(waited, 90)) if len(waited) else 0.0,
        float((seconds[over] / full[over]).mean()) if over.any() else 0.0,
        float(tasks.done[rows].sum()) / 3600,
        float(kind.request.gpu * np.nansum(ran)) / 3600,
    )


def core_hours(amounts: Floats) -> float:
    """Core-seconds as core-hours, all together."""
    return float(amounts.sum()) / 3600
