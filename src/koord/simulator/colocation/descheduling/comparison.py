# SPDX-License-Identifier: Apache-2.0
"""Days whose services may move, with nobody who moves them, one by one, or planned."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from koord.base.clock import VirtualClock, VirtualLoop
from koord.simulator.colocation.control_plane.scheduler import WALL_START_SECONDS
from koord.simulator.colocation.descheduling.movable_services import MovableServices
from koord.simulator.colocation.descheduling.service_api import DayStoppedError
from koord.simulator.colocation.execution.day import DaySimulation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
    from koord.simulator.colocation.descheduling.service_replicas import PodMove
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import DayResult, DaySeries, Ints

    ServicesOfDay = Callable[
        [DeschedulingMode, VirtualClock, int, Callable[[], bool]], MovableServices
    ]

_HOUR_SECONDS = 3600.0


class DeschedulingResult(NamedTuple):
    """What a day leaves behind.

    Attributes:
        mode: who moved pods of services.
        seed: of all that was random.
        hot_percent: node-minutes in which services alone use more of the CPU than each of
            :data:`~koord.simulator.colocation.descheduling.load_account.HOT_PERCENT`, of all.
        moves: parts of a service's load that went to another machine.
        undone: of these, how many were back within an hour.
        suppressions: machine-minutes in which batch pods had less than they wanted.
        short_percent: pod-minutes of services that were short of CPU, of all.
        bound_short_percent: those of them whose pods are bound to CPUs (LSR), which never move.
        cpu_percent: CPU in use, of all machines over all the time.
        above_line_percent: what services and system use of it on machines where that is more than
            may be offered to batch pods (``cpuReclaimThresholdPercent``), beyond that line.
        cpu_services_percent: what services use of it.
        cpu_batch_percent: what batch pods use of it; likewise of all CPU:
        batch_offered_percent: what the manager offers them.
        batch_requested_percent: what those that run request, also where less is offered by now.
        batch_core_hours: done by tasks that finished or still run.
        hot_by_minute: how many machines are hot, ``[minutes, len(HOT_PERCENT)]``.
        move_minutes: when each move was, minutes since the start.
        seconds: of CPU that the run took.
    """

    mode: DeschedulingMode
    seed: int
    hot_percent: tuple[float, ...]
    moves: int
    undone: int
    suppressions: int
    short_percent: float
    bound_short_percent: float
    cpu_percent: float
    above_line_percent: float
    cpu_services_percent: float
    cpu_batch_percent: float
    batch_offered_percent: float
    batch_requested_percent: float
    batch_core_hours: float
    hot_by_minute: Ints
    move_minutes: tuple[float, ...]
    seconds: float


def compare(
    scenario: Scenario,
    seeds: Sequence[int],
    modes: Sequence[DeschedulingMode],
    beside: Path | None = None,
    *,
    progress: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[DeschedulingResult]:
    """Every seed in each mode, seed by seed, in this process.

    Args:
        scenario: what to run.
        seeds: each has the same services, hot spots and jobs in all modes.
        modes: who moves pods of services.
        beside: the folder of arrivals files.
        progress: called with the steps done since its last call.
        stopped: asked every simulated minute; where it says so the result is that of the seeds
            that were done in all modes, or of the first seed in those modes that were.

    Raises:
        KoordError: settings or arrivals that cannot be.
    """
    found = list(_runs(scenario, seeds, modes, beside, progress, stopped))
    if len(found) == len(seeds) * len(modes):
        return found
    # Means over other seeds in one mode than in another say nothing.
    whole = len(found) // len(modes) * len(modes)
    return found[: whole or len(found)]


def _runs(
    scenario: Scenario,
    seeds: Sequence[int],
    modes: Sequence[DeschedulingMode],
    beside: Path | None,
    progress: Callable[[int], None],
    stopped: Callable[[], bool],
) -> Iterator[DeschedulingResult]:
    for seed, mode in itertools.product(seeds, modes):
        if stopped():
            return
        try:
            yield descheduled_day(scenario, seed, mode, beside, progress=progress, stopped=stopped)
        except DayStoppedError:
            return


def descheduled_day(
    scenario: Scenario,
    seed: int,
    mode: DeschedulingMode,
    beside: Path | None = None,
    *,
    progress: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    services: ServicesOfDay = MovableServices,
) -> DeschedulingResult:
    """Runs a day on a loop of its own, in virtual time; arguments as of :func:`compare`.

    Args:
        services: makes what serves the load of the day, of mode, clock, seed and who stops it.

    Raises:
        KoordError: settings or arrivals that cannot be.
        DayStoppedError: it was stopped before its end.
    """
    start = time.process_time()
    clock = VirtualClock(WALL_START_SECONDS)
    movable = services(mode, clock, seed, stopped)
    loop = VirtualLoop(clock)
    try:
        day = loop.run_until_complete(_day(scenario, seed, movable, beside, progress))
    finally:
        _close(loop)
    moves, account = movable.slots.moves, movable.account
    return DeschedulingResult(
        mode, seed, tuple(account.percent().tolist()), len(moves), undone(moves),
        day.suppressions, day.short_pod_minutes_percent, _bound_short_percent(day),
        day.cpu_utilisation_percent, account.above_line_percent(),
        *_shares_of_cpu(day.series, scenario.cluster_cores), day.batch_core_hours,
        account.by_minute(), tuple(move.seconds / 60 for move in moves),
        time.process_time() - start,
    )  # fmt: skip


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what a signal may have left, which would complain of a closed loop later."""
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        # A task that the signal was raised in raises it anew for whoever waits for it.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


async def _day(
    scenario: Scenario,
    seed: int,
    services: MovableServices,
    beside: Path | None,
    progress: Callable[[int], None],
) -> DayResult:
    try:
        await services.prepare()
        day = DaySimulation(scenario, seed, beside, colocated=True, services=services)
        await day.start()
        while steps := await day.minute(lambda: False):
            progress(steps)
            if day.minutes < scenario.minutes:
                services.check()
        found = day.results(0.0)
        await day.close()
        return found
    finally:
        await services.close()


def _shares_of_cpu(series: DaySeries, cores: float) -> tuple[float, float, float, float]:
    """What services and batch pods use, and these are offered and request, of all CPU."""
    columns = (
        series.cpu_services, series.cpu_batch, series.batch_offered_cores,
        series.batch_requested_cores,
    )  # fmt: skip
    services, batch, offered, requested = (100.0 * float(each.mean()) / cores for each in columns)
    return services, batch, offered, requested


def _bound_short_percent(day: DayResult) -> float:
    services = day.shortage.services
    minutes = sum(each.pod_minutes for each in services)
    short = sum(each.short_pod_minutes for each in services if each.qos == "LSR")
    return 100.0 * short / minutes if minutes else 0.0


def undone(moves: Sequence[PodMove]) -> int:
    """How many moves took a part back to where it had been less than an hour before."""
    left: dict[tuple[int, int], float] = {}
    count = 0
    for move in moves:
        before = left.get((move.row, move.target))
        count += before is not None and move.seconds - before < _HOUR_SECONDS
        left[move.row, move.source] = move.seconds
    return count
