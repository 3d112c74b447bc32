# SPDX-License-Identifier: Apache-2.0
"""What two runs of a scenario leave behind, and all that a report reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.simulator.colocation.inputs.scenario import Scenario

    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]
    Ints = NDArray[np.int64]

GRANT_EDGES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Bounds of the classes of short minutes by the share that was granted; the last is replaced by the
scenario's ``report.short.grantedBelow``."""
LENGTH_EDGES_MINUTES = (1, 2, 3, 5, 10, 20, 60)
"""Where the classes of shortages by length begin; the last has no end."""


class DaySeries(NamedTuple):
    """A value a minute: the mean over the minute, or what happened in it; shape (minutes,).

    Attributes:
        hours: since the start, of each minute's begin.
        cpu_used: cores, all machines; so are ``cpu_services``, ``cpu_batch`` and ``cpu_system``,
            which add up to it.
        memory_used_bytes: all machines.
        batch_offered_cores: what the manager offers to batch pods (without co-location: what the
            requests of services leave).
        batch_requested_cores: of batch pods that run.
        batch_running_pods, batch_waiting_pods: at the end of the minute; whoever has arrived and
            neither runs nor has finished waits.
        suppressed_machines: mean number of machines whose batch pods had less than they wanted.
        evictions: tasks that lost their work in the minute, to the agent or to the kernel.
        short_pods: latency-sensitive pods that were short of CPU.
    """

    hours: Floats
    cpu_used: Floats
    cpu_services: Floats
    cpu_batch: Floats
    cpu_system: Floats
    memory_used_bytes: Floats
    batch_offered_cores: Floats
    batch_requested_cores: Floats
    batch_running_pods: Floats
    batch_waiting_pods: Floats
    suppressed_machines: Floats
    evictions: Floats
    short_pods: Floats


class ServiceShortage(NamedTuple):
    """How short of CPU the pods of one service were; ``worst_grant`` is the least share."""

    name: str
    qos: str
    pods: int
    pod_minutes: int
    short_pod_minutes: int
    worst_grant: float
    restarts: int


class PodShortage(NamedTuple):
    """One pod that was short: of which service, its number there, where, how often, how much."""

    service: str
    number: int
    machine: int
    short_minutes: int
    worst_grant: float


class Shortage(NamedTuple):
    """When latency-sensitive pods got too little CPU.

    Attributes:
        grant_edges: see :data:`GRANT_EDGES`, shape (classes + 1,).
        minutes_by_grant: short pod-minutes by the share that was granted, shape (classes,).
        length_edges_minutes: see :data:`LENGTH_EDGES_MINUTES`.
        shortages_by_length: how many shortages, runs of short minutes of a pod, were that long.
        services: every service, in the scenario's order.
        worst: the pods with the most short minutes, at most 20.
    """

    grant_edges: tuple[float, ...]
    minutes_by_grant: Ints
    length_edges_minutes: tuple[int, ...]
    shortages_by_length: Ints
    services: tuple[ServiceShortage, ...]
    worst: tuple[PodShortage, ...]


class MachineMinutes(NamedTuple):
    """A sample of machines over time, each shape (machines in the sample, minutes).

    Attributes:
        machines: their rows, shape (machines in the sample,).
        cpu_share: CPU used, of the machine's.
        batch_share: CPU used by batch pods, of the machine's.
        offered_share: CPU offered to batch pods, of the machine's.
    """

    machines: Ints
    cpu_share: Singles
    batch_share: Singles
    offered_share: Singles


class BatchKindResult(NamedTuple):
    """What became of the tasks of one kind of batch job; times in seconds, work in core-hours.

    Attributes:
        stretch_mean: time from start to end over the time at full grant, of finished tasks.
        gpu_hours: of tasks that ran.
    """

    name: str
    jobs: int
    tasks: int
    started: int
    finished: int
    evicted: int
    wait_seconds_mean: float
    wait_seconds_p90: float
    stretch_mean: float
    core_hours: float
    gpu_hours: float


class DayResult(NamedTuple):
    """The cluster with co-location or without.

    Attributes:
        series: a value a minute.
        cpu_utilisation_percent: CPU used, of all machines over all the time.
        short_pod_minutes_percent: of the pod-minutes of latency-sensitive pods.
        batch_core_hours: done by tasks that finished or still run.
        wasted_core_hours: of tasks that were evicted or killed.
        suppressions: machine-minutes in which batch pods had less than they wanted.
        evictions: tasks that lost their work.
        shortage: when latency-sensitive pods got too little.
        machines: a sample of machines, for a heat map.
        batch: by kind of job, in the scenario's order.
        node_updates: how often the manager changed what a machine offers.
        decisions: attempts of the scheduler.
        seconds: of CPU that the run took.
    """

    series: DaySeries
    cpu_utilisation_percent: float
    short_pod_minutes_percent: float
    batch_core_hours: float
    wasted_core_hours: float
    suppressions: int
    evictions: int
    shortage: Shortage
    machines: MachineMinutes
    batch: tuple[BatchKindResult, ...]
    node_updates: int
    decisions: int
    seconds: float


class ComparisonResult(NamedTuple):
    """Both runs of one seed.

    Attributes:
        scenario: what was run.
        seed: of all that is random.
        without: batch pods ask for what the requests of services leave free.
        with_: batch pods ask for what the manager offers.
        settings: the strategies in force, by section of the ConfigMap, with their defaults.
        seconds: wall time of both.
        requested_hours: where they were stopped, how long they were to be: longer than the
        scenario's.
    """

    scenario: Scenario
    seed: int
    without: DayResult
    with_: DayResult
    settings: dict[str, Any]
    seconds: float
    requested_hours: float = 0.0

    @property
    def partial(self) -> bool:
        """Whether the runs were stopped."""
        return self.scenario.hours < self.requested_hours

    @property
    def utilisation_ratio(self) -> float:
        """CPU utilisation with co-location over that without."""
        before = self.without.cpu_utilisation_percent
        return self.with_.cpu_utilisation_percent / before if before else float("nan")

    @property
    def added_short_percent(self) -> float:
        """Pod-minutes short of CPU with co-location beyond those without, in percentage points."""
        return self.with_.short_pod_minutes_percent - self.without.short_pod_minutes_percent
