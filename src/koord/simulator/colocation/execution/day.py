# SPDX-License-Identifier: Apache-2.0
"""The state of one run and its steps.

A step: jobs come, the scheduler places tasks, services and tasks want CPU, machines and agents
share it out, agents report and the manager writes what machines offer, tasks work, finish or go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from koord.simulator.colocation.control_plane.node_reports import NodeReporter, OvercommitManager
from koord.simulator.colocation.control_plane.scheduler import (
    NodeUsageReport,
    ScheduledCluster,
    key_of,
)
from koord.simulator.colocation.inputs import slo_config
from koord.simulator.colocation.node_model.cpu_contention import (
    CoreCounts,
    CoreDemand,
    native,
    summed,
)
from koord.simulator.colocation.node_model.eviction_inputs import RunningTasks
from koord.simulator.colocation.node_model.node_agents import (
    NodeAgents,
    SuppressionResult,
)
from koord.simulator.colocation.results import recorder
from koord.simulator.colocation.results.result import DayResult
from koord.simulator.colocation.workload.batch_arrivals import arrivals
from koord.simulator.colocation.workload.batch_tasks import BatchTasks
from koord.simulator.colocation.workload.services import MINUTE_SECONDS, ServiceDemands, placed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from koord.simulator.colocation.control_plane.node_reports import ReportedUsage
    from koord.simulator.colocation.descheduling.movable_services import MovableServices
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats, Ints, Singles


class DaySimulation:
    """The state of a run; arguments as of :func:`~koord.simulator.colocation.execution.run.run`."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        beside: Path | None,
        *,
        colocated: bool,
        services: MovableServices | None = None,
    ) -> None:
        self._movable = services
        self._scenario, self._colocated = scenario, colocated
        self._dt = scenario.step_seconds
        self._fleet, self._pods = placed(scenario, seed)
        fleet, pods, rows = self._fleet, self._pods, len(self._fleet.cpus)
        bound = fleet.bound_cpus.astype(np.float64)
        self._cores = CoreCounts(fleet.cpus - bound, bound)
        self._cpus = fleet.cpus.astype(np.float64)
        self._system = self._cpus * scenario.system.cpu
        self._demands = ServiceDemands(scenario, pods, seed)
        self._tasks = BatchTasks(arrivals(scenario, seed, beside), scenario.batch, rows)
        if services is None:
            self._cluster = ScheduledCluster(scenario, fleet, pods, colocated=colocated)
        else:
            self._cluster = services.cluster(scenario, fleet, pods)
        chosen = slo_config.of(scenario)
        self._agents = NodeAgents(scenario, fleet, self._cores, chosen.slo) if colocated else None
        self._manager = OvercommitManager(fleet, pods, chosen.colocation) if colocated else None
        self._reporting = NodeReporter(rows, pods.rows, chosen.colocation, self._dt)
        requested = np.bincount(pods.machine, pods.request_milli, rows)
        self._unrequested = np.maximum(self._cpus - requested / 1000, 0.0)
        self._task_cores = np.array([kind.request.cpu_milli / 1000 for kind in scenario.batch])
        self._recorder = recorder.DayRecorder(rows, scenario.minutes, self._steps_a_minute)
        self._shortages = recorder.ShortageRecorder(scenario, pods)
        self._task_of: dict[str, int] = {}
        self._name_of: dict[int, str] = {}
        self._key_of: dict[int, str] = {}
        self._done = 0

    @property
    def _steps_a_minute(self) -> int:
        return round(MINUTE_SECONDS / self._dt)

    @property
    def minutes(self) -> int:
        """Simulated so far, whole ones; the last of a run may have fewer steps."""
        whole, rest = divmod(self._done, self._steps_a_minute)
        return whole + (rest > 0 and self._done == self._scenario.steps)

    async def minute(self, stopped: Callable[[], bool]) -> int:
        """The steps of the next minute, or those before it is stopped; gives how many."""
        first = self._done
        for step in range(first, min(first + self._steps_a_minute, self._scenario.steps)):
            if stopped():
                break
            await self._step(step)
            self._done += 1
        return self._done - first

    async def start(self) -> None:
        """Begins what goes on beside the steps."""
        if self._movable is not None:
            await self._movable.start()

    async def close(self) -> None:
        """Ends what goes on beside the steps."""
        await self._cluster.close()

    async def _step(self, step: int) -> None:
        now = step * self._dt
        self._tasks.arrive(now)
        await self._place(now)
        self._demands.step(now)
        if self._movable is not None:
            self._movable.redirect(self._demands)
        if step % self._steps_a_minute == 0:
            self._demands.minute()
        tasks = self._tasks
        wanted = tasks.wanted(self._dt)
        wants = self._wants(tasks.by_machine(wanted))
        turn = self._share_out(wants)
        granted = tasks.granted(wanted, turn.grants.batch, wants.batch)
        turn = turn._replace(grants=turn.grants._replace(batch=tasks.by_machine(granted)))
        services = self._services(turn, wants)
        held = self._held()
        self._report(now + self._dt, turn, services, held, granted)
        ran = tasks.running
        finished = tasks.work(granted, self._speed(turn), now + self._dt, self._dt)
        self._ended(finished.tolist())
        evicted = self._evictions(
            turn, granted[~tasks.over(ran)], held, now + self._dt
        ) + self._out_of_memory(held)
        short = self._shortages.step(self._demands.capped, services)
        self._record(turn, held, evicted, short)
        if self._movable is None:
            self._cluster.clock.advance(self._dt)
        else:
            self._movable.record(services, turn.grants.system, self._cpus)
            await asyncio.sleep(self._dt)

    # Batch.

    async def _place(self, now: float) -> None:
        """Tasks become pods, and pods get machines, until nothing more fits."""
        while True:
            for task in self._tasks.due():
                self._submit(task)
            found = await self._cluster.place()
            self._tasks.begin([(self._task_of[name], row) for name, row in found], now)
            if not found:
                break

    def _submit(self, task: int) -> None:
        kind = int(self._tasks.arrivals.kind[task])
        name = f"{self._scenario.batch[kind].name}-{task}-{int(self._tasks.evicted[task])}"
        self._task_of[name], self._name_of[task] = task, name
        self._key_of[task] = key_of(name)
        self._cluster.submit(name, kind)

    def _ended(self, tasks: list[int]) -> None:
        for task in tasks:
            name = self._name_of.pop(task)
            del self._task_of[name], self._key_of[task]
            self._cluster.remove(name)

    def _evict(self, tasks: list[int]) -> None:
        self._ended(tasks)
        self._tasks.evict(tasks)

    def _evictions(self, turn: SuppressionResult, cores: Floats, held: Floats, now: float) -> int:
        """The agents evict, where their gates let them."""
        agents, manager, tasks = self._agents, self._manager, self._tasks
        if agents is None or manager is None or not agents.evicts:
            return 0
        rows = tasks.running
        pods = self._cluster.pods([self._name_of[task] for task in rows.tolist()])
        memory = tasks.arrivals.memory_bytes[rows].astype(np.float64)
        services = self._of_pods(self._demands.memory_bytes)
        here = RunningTasks(pods, tasks.machine[rows], cores, memory, services, held)
        victims = agents.evicted(here, turn.grants, manager.offered, now)
        self._evict([self._task_of[name] for name in sorted(victims)])
        return len(victims)

    def _out_of_memory(self, held: Floats) -> int:
        """The kernel kills batch tasks on machines whose memory is more than full."""
        rows = self._tasks.running
        used = self._tasks.arrivals.memory_bytes[rows]
        killed = overfull(held, self._fleet.memory_bytes, self._tasks.machine[rows], used)
        victims = rows[killed].tolist()
        self._evict(victims)
        return len(victims)

    def _speed(self, turn: SuppressionResult) -> Floats:
        """Work a core-second, by machine: less where the other threads of cores are busy."""
        loss = self._scenario.contention.smt_neighbour.loss
        speed: Floats = 1.0 - loss * turn.grants.used / self._cpus
        return speed

    # Machines.

    def _wants(self, batch: Floats) -> CoreDemand:
        pods, capped = self._pods, self._demands.capped
        of_all = self._of_pods(capped)
        bound = summed(pods.machine[pods.bound], capped[pods.bound], len(self._cpus))
        return CoreDemand(np.maximum(of_all - bound, 0.0), bound, batch, self._system)

    def _share_out(self, wants: CoreDemand) -> SuppressionResult:
        if self._agents is not None:
            return self._agents.step(wants)
        delay = self._scenario.contention.scheduling_delay
        return SuppressionResult(native(self._cores, wants, delay), np.zeros(len(self._cpus)))

    def _of_pods(self, amounts: NDArray[np.generic]) -> Floats:
        """Amounts of service pods added up by machine."""
        return summed(self._pods.machine, amounts, len(self._cpus))

    def _services(self, turn: SuppressionResult, wants: CoreDemand) -> Singles:
        """Cores that each pod of a service gets."""
        shared = _shares(turn.grants.shared, wants.shared)
        bound = _shares(turn.grants.bound, wants.bound)
        machine = self._pods.machine
        share = np.where(self._pods.bound, bound[machine], shared[machine])
        granted: Singles = self._demands.capped * share.astype(np.float32)
        return granted

    def _held(self) -> Floats:
        """Memory in use, by machine."""
        services = self._of_pods(self._demands.memory_bytes)
        rows = self._tasks.running
        batch = self._tasks.by_machine(self._tasks.arrivals.memory_bytes[rows].astype(np.float64))
        held: Floats = services + batch + self._fleet.memory_bytes * self._scenario.system.memory
        return held

    # Reports.

    def _report(
        self, now: float, turn: SuppressionResult, services: Singles, held: Floats, granted: Floats
    ) -> None:
        grants = turn.grants
        system = np.stack([grants.system, self._fleet.memory_bytes * self._scenario.system.memory])
        self._reporting.sample(
            np.stack([grants.used, held]), system, np.stack([services, self._demands.memory_bytes])
        )
        due = self._reporting.due(now)
        if not len(due):
            return
        found = self._reporting.measured()
        self._report_to_scheduler(due, found, granted)
        if self._manager is not None:
            written = self._manager.reported(due, found, now)
            columns = zip(*(column.tolist() for column in written), strict=True)
            for row, cpu_milli, memory_bytes in columns:
                self._cluster.offer(row, cpu_milli, memory_bytes)

    def _report_to_scheduler(self, due: Ints, usage: ReportedUsage, granted: Floats) -> None:
        if self._movable is not None:
            self._movable.measured(usage.services)
        services = [self._of_pods(column) for column in usage.services]
        pods: dict[int, dict[str, list[int]]] = {row: {} for row in due.tolist()}
        running = self._tasks.running
        reports = np.zeros(len(self._cpus), np.bool_)
        reports[due] = True
        mine = np.flatnonzero(reports[self._tasks.machine[running]])
        tasks = running[mine]
        used = np.stack([1000 * granted[mine], self._tasks.arrivals.memory_bytes[tasks]], axis=1)
        rows = self._tasks.machine[tasks].tolist()
        keys, amounts = self._key_of, used.astype(np.int64).tolist()
        for task, row, pair in zip(tasks.tolist(), rows, amounts, strict=True):
            pods[row][keys[task]] = pair
        columns = (usage.used, usage.system, np.stack(services).astype(np.int64))
        pairs = [column[:, due].T.tolist() for column in columns]
        self._cluster.report(
            {
                row: NodeUsageReport(used_, system, of_services, pods[row])
                for row, used_, system, of_services in zip(due.tolist(), *pairs, strict=True)
            }
        )

    # Account.

    def _record(self, turn: SuppressionResult, held: Floats, evicted: int, short: int) -> None:
        tasks = self._tasks
        kinds = tasks.arrivals.kind[tasks.running]
        requested = float(self._task_cores[kinds].sum()) if len(kinds) else 0.0
        offered = self._unrequested
        if self._manager is not None:
            offered = np.maximum(self._manager.offered[0], 0) / 1000
        now = recorder.StepRecord(
            turn.grants, held, turn.suppressed, offered, requested, len(tasks.running),
            tasks.waiting, evicted,
        )  # fmt: skip
        self._recorder.step(now, self._cpus, short)

    def results(self, seconds: float) -> DayResult:
        """What the steps so far leave behind; they may go on afterwards.

        Args:
            seconds: of CPU that they took.
        """
        series = self._recorder.series()
        tasks = self._tasks
        return DayResult(
            series,
            100.0 * float(series.cpu_used.mean()) / float(self._cpus.sum()),
            self._shortages.percent(),
            recorder.core_hours(tasks.done),
            recorder.core_hours(tasks.wasted),
            round(float(series.suppressed_machines.sum())),
            int(series.evictions.sum()),
            self._shortages.results(self._demands.restarts),
            self._recorder.machines(),
            recorder.batch_kinds(self._scenario, tasks, self._done * self._dt),
            0 if self._manager is None else self._manager.writes,
            self._cluster.attempts,
            seconds,
        )


def _shares(granted: Floats, wanted: Floats) -> Floats:
    """What was granted of what was wanted; all of nothing."""
    found: Floats = np.ones_like(wanted)
    np.divide(granted, wanted, out=found, where=wanted > 0)
    return found


def overfull(held: Floats, capacity: Ints, machine: Ints, task_bytes: Ints) -> Ints:
    """Whom the kernel kills where memory is more than full; page cache is not modelled.

    The largest tasks of a machine go first, until the rest fits.

    Args:
        held: bytes in use, a row a machine.
        capacity: bytes, a row a machine.
        machine, task_bytes: where each batch task is and what it holds, a row a task.

    Returns:
        Rows of the tasks that go.
    """
    over = held - capacity
    if not (over > 0).any():
        return np.empty(0, np.int64)
    on_full = np.flatnonzero(over[machine] > 0)
    order = on_full[np.lexsort((on_full, -task_bytes[on_full], machine[on_full]))]
    gone: list[int] = []
    for task in order.tolist():
        row = int(machine[task])
        if over[row] > 0:
            over[row] -= int(task_bytes[task])
            gone.append(task)
    return np.array(gone, np.int64)
