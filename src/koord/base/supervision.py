# SPDX-License-Identifier: Apache-2.0
"""Keeps the parts of a program going, each on its own: what one fails of ends no other.

A part is a loop, which :meth:`Supervisor.keep` begins anew after a pause, or what a loop does in
its rounds (one collector, one strategy, one report), which :meth:`Supervisor.round` lets fail until
the next. Either way a failure is logged once a cause, counted under the part's name and remembered
until the part works again. Cancellation passes through.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koord.base import faults, log
from koord.base.clock import Clock, SystemClock
from koord.base.errors import KoordError, one_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from koord.base.metrics import MetricRegistry

    Run = Callable[[], Awaitable[object]]

FIRST_PAUSE_SECONDS = 1.0
"""After a loop's first failure; the pause doubles with each further one."""
LONGEST_PAUSE_SECONDS = 60.0
SOUND_SECONDS = 60.0
"""A loop that goes on for so long, and for twice the time that it went on for before it failed
last, counts as working again."""
LONGEST_SOUND_SECONDS = 900.0
# Causes that are remembered as logged, by part.
_MOST_CAUSES = 64
_LOG = log.get("supervision")


class StrayCancelError(Exception):
    """A loop ended as if it had been cancelled, and nobody had cancelled it."""


@dataclass(slots=True)
class SupervisedPart:
    """A part of a daemon that may fail alone, and how it fares.

    Attributes:
        name: as in logs and metrics.
        failures: how many there were.
        errors: what it fails of, a line each, by what that was about; empty while it works.
        failed_seconds: monotonic time of the last failure; None before.
        tasks: those of a loop, between two tries too; none of what is a loop's round.
    """

    name: str
    failures: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    failed_seconds: float | None = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    causes: set[tuple[str, str]] = field(default_factory=set, repr=False)

    @property
    def error(self) -> str:
        """What it fails of, in one line; empty while it works."""
        return "; ".join(dict.fromkeys(self.errors.values()))


class Supervisor:
    """The parts of one component.

    Args:
        component: of the metric's name, ``koord_COMPONENT_failures_total``.
        metrics: the component's registry; None counts for the status alone.
        clock: of the status.
    """

    def __init__(
        self, component: str, metrics: MetricRegistry | None = None, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._parts: dict[str, SupervisedPart] = {}
        self._count = None
        if metrics is not None:
            self._count = metrics.counter(
                f"koord_{component}_failures_total", "Failures of one part alone.", ("part",)
            )

    @property
    def parts(self) -> Mapping[str, SupervisedPart]:
        """All parts, by name."""
        return self._parts

    def part(self, name: str) -> SupervisedPart:
        """The part of a name, known from now on."""
        found = self._parts.get(name)
        if found is None:
            found = self._parts[name] = SupervisedPart(name)
        return found

    def tasks(self) -> set[asyncio.Task[Any]]:
        """The tasks of all loops."""
        return {task for part in self._parts.values() for task in part.tasks}

    def status(self) -> list[dict[str, Any]]:
        """All parts by name: how many tasks, how many failures, what it fails of and since when."""
        now = self._clock.monotonic_seconds()
        return [
            {
                "name": part.name,
                "running": len(part.tasks),
                "failures": part.failures,
                "error": part.error,
                "lastFailureSeconds": None
                if part.failed_seconds is None
                else round(now - part.failed_seconds, 1),
            }
            for _, part in sorted(self._parts.items())
        ]

    # Loops.

    async def keep(self, name: str, run: Run) -> None:
        """Runs a loop until it returns or is cancelled; begins it anew when it fails.

        Args:
            name: several loops of one kind may share it.
            run: the loop; called again after each failure.
        """
        part, task = self.part(name), asyncio.current_task()
        assert task is not None
        part.tasks.add(task)
        try:
            await self._kept(name, run, task)
        finally:
            part.tasks.discard(task)

    def start(self, name: str, run: Run, title: str = "") -> asyncio.Task[None]:
        """:meth:`keep` as a task of its own, which the caller cancels.

        Args:
            title: of the task; the name if empty.
        """
        return self._task(name, self.keep, run, title)

    def once(self, name: str, run: Run, title: str = "") -> asyncio.Task[None]:
        """A task that is not begun anew: whoever asked for it asks again."""
        return self._task(name, self._once, run, title)

    async def _kept(self, name: str, run: Run, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        pause, lasted = FIRST_PAUSE_SECONDS, 0.0
        while True:
            began = loop.time()
            sound = max(SOUND_SECONDS, min(2 * lasted, LONGEST_SOUND_SECONDS))
            timer = loop.call_later(sound, self.worked, name) if self.part(name).errors else None
            try:
                faults.point(f"supervised.{name}")
                await run()
            except asyncio.CancelledError as error:
                if task.cancelling():
                    raise
                stray = StrayCancelError("cancelled by nobody")
                self.failed(name, stray.with_traceback(error.__traceback__))
            except Exception as error:
                self.failed(name, error)
                if task.cancelling():
                    # It failed while it was cancelled: that it ends is what was asked for.
                    raise asyncio.CancelledError from error
            else:
                return
            finally:
                if timer is not None:
                    timer.cancel()
            lasted = loop.time() - began
            if lasted >= sound:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _once(self, name: str, run: Run) -> None:
        with self.round(name):
            await run()

    def _task(
        self, name: str, way: Callable[[str, Run], Any], run: Run, title: str
    ) -> asyncio.Task[None]:
        part = self.part(name)
        task: asyncio.Task[None] = asyncio.create_task(way(name, run), name=title or name)
        part.tasks.add(task)
        task.add_done_callback(part.tasks.discard)
        return task

    # Rounds.

    def round(self, name: str, about: str = "") -> SupervisedRound:
        """Lets what is done within it fail, and notes that it did, or that it worked.

        Args:
            name: of the part.
            about: what this round is about, where one may fail while another works.
        """
        return SupervisedRound(self, name, about)

    def failed(self, name: str, error: BaseException, about: str = "") -> None:
        """Counts a failure; logs it unless the part has failed of the same since it worked."""
        part, cause = self.part(name), cause_of(error)
        part.failures += 1
        part.errors[about] = cause
        part.failed_seconds = self._clock.monotonic_seconds()
        if self._count is not None:
            self._count.labels(name).inc()
        if (about, cause) in part.causes:
            return
        if len(part.causes) >= _MOST_CAUSES:
            part.causes.clear()
        part.causes.add((about, cause))
        where = log.fields(part=name, **({"about": about} if about else {}), error=cause)
        expected = isinstance(error, KoordError | OSError)
        _LOG.warning("failed", extra=where, exc_info=None if expected else error)

    def worked(self, name: str, about: str = "") -> None:
        """Notes that a part works."""
        part = self.part(name)
        if part.errors.pop(about, None) is None:
            return
        part.causes = {known for known in part.causes if known[0] != about}
        _LOG.info("works again", extra=log.fields(part=name, **({"about": about} if about else {})))

    def forget(self, name: str, about: str) -> None:
        """What a failure was about is gone."""
        part = self.part(name)
        if part.errors.pop(about, None) is not None:
            part.causes = {known for known in part.causes if known[0] != about}


class SupervisedRound:
    """What :meth:`Supervisor.round` gives.

    Attributes:
        error: what the round failed of; None if it did not.
    """

    __slots__ = ("_about", "_name", "_supervisor", "error")

    def __init__(self, supervisor: Supervisor, name: str, about: str) -> None:
        self._supervisor, self._name, self._about = supervisor, name, about
        self.error: Exception | None = None

    def __enter__(self) -> SupervisedRound:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            try:
                faults.point(f"supervised.{self._name}")
            except Exception as injected:
                error = injected
        if error is None:
            self._supervisor.worked(self._name, self._about)
            return False
        if not isinstance(error, Exception):
            return False
        self.error = error
        self._supervisor.failed(self._name, error, self._about)
        return True


def cause_of(error: BaseException) -> str:
    """What went wrong, in one line; of a group of tasks what each failed of."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(cause_of(each) for each in error.exceptions))
    text = one_line(str(error))
    if isinstance(error, KoordError | OSError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
