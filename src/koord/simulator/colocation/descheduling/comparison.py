# SPDX-License-Identifier: Apache-2.0
"""A day whose services may move, with nobody who moves them, one by one, or planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.base.clock import VirtualClock, VirtualLoop
from koord.simulator.colocation.control_plane.scheduler import WALL_START_SECONDS
from koord.simulator.colocation.descheduling.movable_services import MovableServices
from koord.simulator.colocation.execution.day import DaySimulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
    from koord.simulator.colocation.descheduling.service_replicas import PodMove
    from koord.simulator.colocation.inputs.scenario import Scenario

_HOUR_SECONDS = 3600.0


class DeschedulingResult(NamedTuple):
    """What a day leaves behind.

    Attributes:
        hot_percent: node-minutes in which services alone use more of the CPU than each of
            :data:`~koord.simulator.colocation.descheduling.load_account.HOT_PERCENT`, of all.
        moves: parts of a service's load that went to another machine.
        undone: of these, how many were back within an hour.
        suppressions: machine-minutes in which batch pods had less than they wanted.
        short_percent: pod-minutes of services that were short of CPU, of all.
        cpu_percent: CPU in use, of all machines over all the time.
    """

    hot_percent: tuple[float, ...]
    moves: int
    undone: int
    suppressions: int
    short_percent: float
    cpu_percent: float


def descheduled_day(scenario: Scenario, seed: int, mode: DeschedulingMode) -> DeschedulingResult:
    """Runs a day on a loop of its own, in virtual time.

    Args:
        scenario: what to run.
        seed: of all that is random: the same services, hot spots and jobs in each mode.
        mode: who moves pods of services.

    Raises:
        KoordError: settings that cannot be.
    """
    clock = VirtualClock(WALL_START_SECONDS)
    loop = VirtualLoop(clock)
    try:
        return loop.run_until_complete(_day(scenario, seed, mode, clock))
    finally:
        loop.close()


async def _day(
    scenario: Scenario, seed: int, mode: DeschedulingMode, clock: VirtualClock
) -> DeschedulingResult:
    services = MovableServices(mode, clock, seed)
    await services.prepare()
    try:
        day = DaySimulation(scenario, seed, None, colocated=True, services=services)
        await day.start()
        while await day.minute(lambda: False):
            pass
        found = day.results(0.0)
        await day.close()
        moves = services.slots.moves
        return DeschedulingResult(
            tuple(services.account.percent().tolist()), len(moves), undone(moves),
            found.suppressions, found.short_pod_minutes_percent, found.cpu_utilisation_percent,
        )  # fmt: skip
    finally:
        await services.close()


def undone(moves: Sequence[PodMove]) -> int:
    """How many moves took a part back to where it had been less than an hour before."""
    left: dict[tuple[int, int], float] = {}
    count = 0
    for move in moves:
        before = left.get((move.row, move.target))
        count += before is not None and move.seconds - before < _HOUR_SECONDS
        left[move.row, move.source] = move.seconds
    return count
