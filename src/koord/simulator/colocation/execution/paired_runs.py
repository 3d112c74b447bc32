# SPDX-License-Identifier: Apache-2.0
"""Both runs of a seed minute by minute, so that they can be stopped at the same one.

Either in turn in one process, or side by side: the run without co-location in a process of its own,
neither more than :data:`AHEAD_MINUTES` before the other. That process heeds no signals, which the
whole group may get: it ends when its parent says so or is gone.

Every :data:`KEPT_MINUTES` each side keeps what it would leave behind now. Who stops them waits for
one step at most, and gets the last of these that both have.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base.errors import KoordError
from koord.simulator.colocation.execution.day import DaySimulation

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import DayResult

    Progress = Callable[[int], None]
    Stopped = Callable[[], bool]

AHEAD_MINUTES = 2
KEPT_MINUTES = 5
# How long news of the other process are waited for before a stop is looked for again.
_LISTEN_SECONDS = 0.2


class StoppedError(Exception):
    """Stopped before there was anything to keep."""


class RunSide:
    """One run; for the arguments see :func:`koord.simulator.colocation.execution.run.run`."""

    def __init__(
        self, scenario: Scenario, seed: int, beside: Path | None, *, colocated: bool
    ) -> None:
        start = time.process_time()
        self._day = DaySimulation(scenario, seed, beside, colocated=colocated)
        # A loop of its own: what a day leaves to its loop is done before its next minute.
        self._runner = asyncio.Runner()
        # The other side is this far behind at most, and what it asks for is there.
        self._kept: deque[tuple[int, DayResult]] = deque(maxlen=2 + AHEAD_MINUTES // KEPT_MINUTES)
        self._seconds = time.process_time() - start

    @property
    def minutes(self) -> int:
        """Simulated so far, whole ones."""
        return self._day.minutes

    def minute(self, stopped: Stopped = lambda: False) -> int:
        """Simulates another one, or less of it if stopped; gives its steps."""
        start, before = time.process_time(), self.minutes
        steps = self._runner.run(self._day.minute(stopped))
        self._seconds += time.process_time() - start
        if self.minutes > before and self.minutes % KEPT_MINUTES == 0:
            self._kept.append((self.minutes, self._day.results(self._seconds)))
        return steps

    def results(self, minutes: int | None = None) -> DayResult:
        """What so many minutes leave behind, of those kept; by default all."""
        return self._day.results(self._seconds) if minutes is None else dict(self._kept)[minutes]

    def close(self) -> None:
        """Ends the run."""
        self._runner.run(self._day.close())
        self._runner.close()


class PairedDays(NamedTuple):
    """Both runs of so many minutes."""

    without: DayResult
    with_: DayResult
    minutes: int


def in_turn(
    scenario: Scenario, seed: int, beside: Path | None, progress: Progress, stopped: Stopped
) -> PairedDays:
    """Both runs in this process; the arguments are those of ``simulate``.

    Raises:
        StoppedError: stopped before anything was kept.
    """
    sides = [RunSide(scenario, seed, beside, colocated=colocated) for colocated in (False, True)]
    try:
        while sides[1].minutes < scenario.minutes and not stopped():
            for side in sides:
                progress(side.minute(stopped))
        end = _common([side.minutes for side in sides], scenario.minutes)
        without, with_ = (side.results(end) for side in sides)
        return PairedDays(without, with_, end or scenario.minutes)
    finally:
        for side in sides:
            side.close()


def side_by_side(
    scenario: Scenario, seed: int, beside: Path | None, progress: Progress, stopped: Stopped
) -> PairedDays:
    """The same with the run without co-location in another process."""
    # A fresh interpreter: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, scenario, seed, beside), daemon=True)
    process.start()
    there.close()
    side = None
    try:
        side = RunSide(scenario, seed, beside, colocated=True)
        other = _OtherProcess(here, progress)
        while side.minutes < scenario.minutes and other.keeps_up(side.minutes, stopped):
            progress(side.minute(stopped))
        while not stopped() and other.minutes < scenario.minutes:
            other.hear()
        end = _common([other.minutes, side.minutes], scenario.minutes)
        return PairedDays(other.results(end), side.results(end), end or scenario.minutes)
    finally:
        process.kill()
        process.join()
        here.close()
        if side is not None:
            side.close()


def _common(minutes: list[int], whole: int) -> int | None:
    """The last minute that all sides kept; None where they are at the end."""
    least = min(minutes)
    if least == whole:
        return None
    if least < KEPT_MINUTES:
        raise StoppedError
    return least - least % KEPT_MINUTES


class _OtherProcess:
    """The other process.

    Args:
        pipe: to it.
        progress: told of its steps too.

    Attributes:
        minutes: simulated so far.
    """

    def __init__(self, pipe: Connection, progress: Progress) -> None:
        self._pipe = pipe
        self._progress = progress
        self.minutes = 0

    def keeps_up(self, minutes: int, stopped: Stopped) -> bool:
        """Lets it go on as far as it may, and waits while it is too far behind.

        Args:
            minutes: how far this side is.
            stopped: ends the waiting.

        Returns:
            Whether this side may go on; False if stopped.
        """
        self._send(minutes + AHEAD_MINUTES)
        while self._pipe.poll() or self.minutes < minutes - AHEAD_MINUTES:
            if stopped():
                break
            self.hear()
        return not stopped()

    def hear(self) -> None:
        """Takes up that it has simulated another minute; waits a moment for it."""
        if not self._pipe.poll(_LISTEN_SECONDS):
            return
        steps: int = self._receive()
        self.minutes += 1
        self._progress(steps)

    def results(self, minutes: int | None) -> DayResult:
        """What so many minutes of it leave behind; None for all."""
        self._send(_RunResults(minutes))
        while isinstance(message := self._receive(), int):
            self._progress(message)
        run: DayResult = message
        return run

    def _send(self, message: object) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise _gone() from None

    def _receive(self) -> Any:
        try:
            message = self._pipe.recv()
        except (EOFError, OSError):
            raise _gone() from None
        if isinstance(message, str):
            raise RuntimeError(message)
        return message


class _RunResults(NamedTuple):
    """Asks for what so many minutes leave behind; None for all."""

    minutes: int | None


class _Follower:
    """What the other process does: goes to the minute that it is told, then says what it found."""

    def __init__(self, pipe: Connection, side: RunSide) -> None:
        self._pipe = pipe
        self._side = side
        self._limit = 0
        self._requested: _RunResults | None = None

    def run(self) -> None:
        """Until it is asked for what it found."""
        side = self._side
        while not self._stopped():
            steps = side.minute(self._stopped) if side.minutes < self._limit else 0
            if self._requested is not None:
                break  # asked in the middle of the minute, or before its first step
            if steps:
                self._pipe.send(steps)
            else:
                self._hear()
        assert self._requested is not None, "it stopped"
        self._pipe.send(side.results(self._requested.minutes))

    def _stopped(self) -> bool:
        while self._requested is None and self._pipe.poll():
            self._hear()
        return self._requested is not None

    def _hear(self) -> None:
        message: int | _RunResults = self._pipe.recv()
        if isinstance(message, _RunResults):
            self._requested = message
        else:
            self._limit = message


def _serve(pipe: Connection, scenario: Scenario, seed: int, beside: Path | None) -> None:
    """The other process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        _Follower(pipe, RunSide(scenario, seed, beside, colocated=False)).run()
    except (EOFError, OSError):
        return  # Nobody is there any more.
    except Exception as error:
        pipe.send(f"without co-location: {type(error).__name__}: {error}")


def _gone() -> KoordError:
    return KoordError("koord simulate colocation", "", "an end", "its second process to go on")
