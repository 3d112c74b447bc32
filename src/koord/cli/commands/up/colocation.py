# SPDX-License-Identifier: Apache-2.0
"""What ``koord up --colocation`` does with the cluster that it has started."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.clock import Pace, SystemClock, VirtualClock, VirtualLoop
from koord.base.errors import KoordError
from koord.cli.terminal.output import Format, prepare_report, print_json
from koord.simulator.live import initial_config

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from koord.base.clock import Clock
    from koord.cli.commands.up.cluster import UpCluster
    from koord.cli.commands.up.colocation_screen import RunDisplay, ScreenState
    from koord.simulator.live.run_record import RunRecord
    from koord.simulator.live.workload_generator import WorkloadGenerator
    from koord.simulator.nodes.fleet import Fleet

# Services that do not fit would be waited for without end.
_PLACED_SECONDS = 300.0
_REFRESHES_A_SECOND = 4.0
_SPEED_SECONDS = 5.0


@dataclass(frozen=True)
class ColocationOptions:
    """What was asked for.

    Attributes:
        speed: simulated seconds a second; 0 for as fast as it goes.
        hours: after which it ends; None for never.
        report: folder of the report.
        picture: where the last screen goes, as SVG.
    """

    speed: int
    hours: int | None
    report: Path
    picture: Path | None
    seed: int
    output: Format


class ColocationRun:
    """A day on a cluster in fast time; made before the cluster, for it brings clock and loop.

    Args:
        options: what was asked for.
        real: the real clock.
    """

    def __init__(self, options: ColocationOptions, real: Clock | None = None) -> None:
        prepare_report(options.report)
        self.clock = VirtualClock(initial_config.START_SECONDS)
        self._options = options
        self._real = real or SystemClock()
        self._meter = Speedometer(self._real, self.clock)
        self._record: RunRecord | None = None
        self._generator: WorkloadGenerator | None = None
        self._access = ""

    def loop(self) -> VirtualLoop:
        """The event loop on which everything runs."""
        speed = self._options.speed
        return VirtualLoop(self.clock, Pace(speed, self._real) if speed else None)

    async def run(self, cluster: UpCluster, access: str) -> None:
        """Brings the work, and keeps the record until the hours have passed.

        Args:
            cluster: with all its components.
            access: how kubectl gets there, a line to show.
        """
        from koord.simulator.live.run_record import RunRecord
        from koord.simulator.live.workload_generator import WorkloadGenerator

        fleet, self._access = cluster.fleet, access
        assert fleet is not None, "the nodes cannot be left out"
        names = [machine.name for machine in fleet.machines]
        self._record = RunRecord(names, [machine.pool.cpu for machine in fleet.machines])
        self._generator = WorkloadGenerator(
            cluster.client("koord-up"), self.clock, len(names), self._options.seed
        )
        with self._view() as view:
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(self._show(view))]
                await self._generator.prepare()
                await self._placed(fleet)
                helpers.append(tasks.create_task(self._generator.run()))
                await self._keep(fleet, self._record)
                for each in helpers:
                    each.cancel()

    def finish(self) -> None:
        """Writes the report and says what came of it; nothing where no minute has passed."""
        from koord.simulator.live import page, summary

        if self._record is None or not self._record.samples:
            print("koord up: ended before the first simulated minute: no report", file=sys.stderr)
            return
        state = self._state()
        figures = summary.document(
            self._record, self._options.seed, state.submitted, self._meter.overall()
        )
        command = shlex.join(["koord", *sys.argv[1:]])
        try:
            path = page.write_report(self._record, figures, self._options.report, command)
            if self._options.picture is not None:
                from koord.cli.commands.up.colocation_screen import picture

                self._options.picture.write_text(picture(state), encoding="utf-8")
        except OSError as error:
            raise KoordError.wrap("--report", "", error) from error
        if self._options.output is Format.JSON:
            print_json({**figures, "report": str(path)})
            return
        for name, value in summary.rows(figures):
            print(f"{name:<36} {value}")
        print(f"report: {path}")

    async def _placed(self, fleet: Fleet) -> None:
        """Waits until all services run: they are there before any batch."""
        from koord.simulator.live import workload

        wanted = sum(each["spec"]["replicas"] for each in workload.deployments(len(fleet.machines)))
        end = self.clock.monotonic_seconds() + _PLACED_SECONDS
        while self.clock.monotonic_seconds() < end and len(fleet.agents.load.pods) < wanted:
            await asyncio.sleep(1.0)

    async def _keep(self, fleet: Fleet, kept: RunRecord) -> None:
        from koord.simulator.colocation.inputs import scenario_file
        from koord.simulator.live.run_record import MINUTE_SECONDS
        from koord.simulator.live.sample import ClusterSampler

        sampler = ClusterSampler(fleet, self.clock.wall_seconds, scenario_file.shipped())
        enforcement, seen = fleet.agents.enforcement, 0
        hours = self._options.hours
        while hours is None or len(kept.samples) < hours * 60:
            await asyncio.sleep(MINUTE_SECONDS)
            new = sum(enforcement.evicted.values()) - seen
            seen += new
            evictions = list(enforcement.evictions)[-new:] if new else []
            kept.add(sampler.take(), evictions)

    async def _show(self, view: RunDisplay) -> None:
        wait = max(self._options.speed / _REFRESHES_A_SECOND, 1.0) if self._options.speed else 60.0
        while True:
            view.show(self._state())
            await asyncio.sleep(wait)
            self._meter.read()

    def _view(self) -> AbstractContextManager[RunDisplay]:
        from koord.cli.commands.up.colocation_screen import FullScreenDisplay, LineDisplay

        if self._options.output is Format.JSON:
            return nullcontext(LineDisplay(sys.stderr))
        return FullScreenDisplay() if sys.stdout.isatty() else nullcontext(LineDisplay(sys.stdout))

    def _state(self) -> ScreenState:
        from koord.cli.commands.up.colocation_screen import ScreenState

        assert self._record is not None, "runs"
        assert self._generator is not None, "runs"
        return ScreenState(
            self.clock.wall_seconds(),
            self._options.speed,
            self._meter.now(),
            self._record,
            self._generator.submitted,
            self._access,
            str(self._options.report / "report.html"),
        )


class Speedometer:
    """How fast a virtual clock goes.

    Args:
        real: what it is measured by.
        virtual: what is measured.
    """

    def __init__(self, real: Clock, virtual: Clock) -> None:
        self._real, self._virtual = real, virtual
        self._readings: deque[tuple[float, float]] = deque()
        self._first = self.read()

    def read(self) -> tuple[float, float]:
        """Takes a reading; forgets those that are too old."""
        reading = (self._real.monotonic_seconds(), self._virtual.monotonic_seconds())
        self._readings.append(reading)
        while len(self._readings) > 2 and reading[0] - self._readings[1][0] > _SPEED_SECONDS:
            self._readings.popleft()
        return reading

    def now(self) -> float:
        """Virtual seconds a real second over the last seconds; 0 before two readings."""
        return _rate(self._readings[0], self._readings[-1])

    def overall(self) -> float:
        """The same since the beginning."""
        return _rate(self._first, self.read())


def _rate(first: tuple[float, float], last: tuple[float, float]) -> float:
    passed = last[0] - first[0]
    return (last[1] - first[1]) / passed if passed > 0 else 0.0
