# SPDX-License-Identifier: Apache-2.0
"""Starts the parts of a program in order, and stops them in the opposite one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from koord.base import log
from koord.base.errors import one_line

_LOG = log.get("lifecycle")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Component(NamedTuple):
    """One part of a program.

    Attributes:
        name: in the log.
        run: does the work until it is cancelled; whatever it opened is closed when it returns.
            A part that returns by itself has done its work.
        ready: waits until parts that come later may start; None if they may at once.
    """

    name: str
    run: Callable[[], Awaitable[object]]
    ready: Callable[[], Awaitable[object]] | None = None


async def run_until_stopped(
    components: Sequence[Component],
    *,
    grace_seconds: float = 30.0,
    stop: asyncio.Event | None = None,
) -> int:
    """Runs components until a signal comes, one fails, or all have done their work.

    They start in order, each when the one before is ready, and stop in the opposite order, each
    when the one after has ended. The first SIGTERM or SIGINT stops; a second one, or the end of the
    grace period, gives up waiting.

    Args:
        components: what runs.
        grace_seconds: for all of them to end.
        stop: set to stop without a signal.

    Returns:
        The exit status: 0 after a signal or when all is done, 1 if a component failed or did not
        end in time.
    """
    stopping, forced = stop or asyncio.Event(), asyncio.Event()
    handled = _handle_signals(stopping, forced)
    program = _Program()
    try:
        await _first_of(program.run(components), program.failed.wait(), stopping.wait())
        ended = await program.stop(forced, grace_seconds)
        return 0 if ended and not program.failed.is_set() else 1
    finally:
        program.kill()
        for number in handled:
            asyncio.get_running_loop().remove_signal_handler(number)


class _Program:
    """The parts that run."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, components: Sequence[Component]) -> None:
        """Starts all in order and waits until all have done their work."""
        for component in components:
            running = asyncio.create_task(self._run(component), name=component.name)
            self._tasks.append(running)
            if component.ready is not None:
                await _first_of(self._ready(component), asyncio.shield(running))
            _LOG.info("started", extra=log.fields(part=component.name))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self, forced: asyncio.Event, grace_seconds: float) -> bool:
        """Cancels in reverse order, each part when the one after it has ended.

        Returns:
            Whether all ended in time.
        """
        deadline = asyncio.get_running_loop().time() + grace_seconds
        for task in reversed(self._tasks):
            task.cancel()
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            if not forced.is_set():
                await _first_of(asyncio.wait({task}, timeout=left), forced.wait())
        late = [task.get_name() for task in self._tasks if not task.done()]
        if late:
            _LOG.error("not ended in time", extra=log.fields(parts=",".join(late)))
        return not late

    def kill(self) -> None:
        """Cancels what is left without waiting."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, component: Component) -> None:
        try:
            await component.run()
        except Exception as error:
            self._fail(component, error)

    async def _ready(self, component: Component) -> None:
        assert component.ready is not None
        try:
            await component.ready()
        except Exception as error:
            self._fail(component, error)

    def _fail(self, component: Component, error: Exception) -> None:
        text = "; ".join(dict.fromkeys(_error_lines(error)))
        _LOG.error("failed", extra=log.fields(part=component.name, error=text))
        _LOG.debug("where it failed", exc_info=error, extra=log.fields(part=component.name))
        self.failed.set()


def _error_lines(error: BaseException) -> Iterator[str]:
    """A line of each failure: a group of tasks says only how many it had."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _error_lines(each)
    else:
        yield one_line(str(error)) or type(error).__name__


async def _first_of(*waits: Awaitable[object]) -> None:
    """Waits until one of these is done, and cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _handle_signals(stopping: asyncio.Event, forced: asyncio.Event) -> list[signal.Signals]:
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        _LOG.info("signal", extra=log.fields(signal=number.name, second=stopping.is_set()))
        (forced if stopping.is_set() else stopping).set()

    handled = []
    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, received, number)
        except (RuntimeError, ValueError, NotImplementedError):
            # Not the main thread: whoever owns it sets ``stop``.
            continue
        handled.append(number)
    return handled
