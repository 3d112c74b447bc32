# SPDX-License-Identifier: Apache-2.0
"""Makes each part of a running daemon fail in turn, as its supervisor's registry has them.

A loop raises where it waits. One that only waits for a group of tasks ends them first, as any
exception in such a group does. A part that is no loop fails in its next round, by a fault point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from koord.base import faults
from koord.base.supervision import Supervisor

Works = Callable[[], Awaitable[None]]
# Longer than the pause after a loop's first failures.
_RECOVERY_SECONDS = 5.0
# All count as working again after so long.
_SOUND_SECONDS = 1000.0


class UnforeseenError(Exception):
    """What nobody expects."""


class Striking(Supervisor):
    """A supervisor whose loops can be made to raise."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._struck: set[asyncio.Task[Any]] = set()
        self._driven: dict[asyncio.Task[Any], Driven] = {}

    async def keep(self, name: str, run: Callable[[], Awaitable[object]]) -> None:
        task = asyncio.current_task()
        assert task is not None

        def driven() -> Driven:
            self._driven[task] = made = Driven(run(), self._struck)
            return made

        await super().keep(name, driven)

    def strike(self, name: str) -> bool:
        """Makes the tasks of a loop raise now; whether they wait for groups of tasks."""
        groups = False
        for task in list(self.part(name).tasks):
            groups = groups or self._driven[task].waits_for_group()
            self._struck.add(task)
            task.cancel()
        return groups


class Driven:
    """Awaits a loop, and raises in it what nobody expects when its task is struck."""

    def __init__(self, work: Awaitable[object], struck: set[asyncio.Task[Any]]) -> None:
        self._work, self._struck = work, struck

    def waits_for_group(self) -> bool:
        """Whether it waits for nothing but the end of a group of tasks."""
        inner: Any = self._work
        while asyncio.iscoroutine(following := getattr(inner, "cr_await", None)):
            inner = following
        code = getattr(inner, "cr_code", None)
        return code is not None and str(code.co_filename).endswith("taskgroups.py")

    def __await__(self) -> Generator[Any, Any, object]:
        task = asyncio.current_task()
        assert task is not None
        inner = self._work.__await__()
        step = inner.send
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                future = step(value) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            value, error = None, None
            try:
                value = yield future
            except asyncio.CancelledError as cancelled:
                error = cancelled
                if task in self._struck:
                    self._struck.discard(task)
                    task.uncancel()
                    if self.waits_for_group():
                        yield from end_group(inner, cancelled)
                        raise UnforeseenError("in a group") from None
                    error = UnforeseenError("struck")


def end_group(
    inner: Generator[Any, Any, Any], cancelled: asyncio.CancelledError
) -> Generator[Any, Any, None]:
    """Lets a group of tasks end its tasks."""
    try:
        future = inner.throw(cancelled)
        while True:
            future = inner.send((yield future))
    except asyncio.CancelledError:
        return


def unsupervised(supervisor: Supervisor, before: set[asyncio.Task[Any]]) -> list[str]:
    """The tasks of a daemon that its supervisor does not know.

    Args:
        before: those that there were before it was started, and the test's own.
    """
    left = asyncio.all_tasks() - before - supervisor.tasks() - {asyncio.current_task()}
    return sorted(
        repr(task.get_coro()) for task in left if "controlplane" not in repr(task.get_coro())
    )


Lacks = Callable[[str, str], bool]


def _independent(failed: str, other: str) -> bool:
    del failed, other
    return False


async def loops_in_turn(
    supervisor: Striking, works: Works, lacks: Lacks = _independent
) -> list[str]:
    """Makes each loop raise once; the others go on, it is tried again, counted and shown.

    Args:
        works: raises where the daemon does not do its work.
        lacks: whether data that the first part should bring may be lacking in the second.

    Returns:
        The names of the loops.
    """
    names = [name for name, part in supervisor.parts.items() if part.tasks]
    for name in names:
        before = {each: set(part.tasks) for each, part in supervisor.parts.items() if part.tasks}
        failures = {each: part.failures for each, part in supervisor.parts.items()}
        part = supervisor.part(name)
        count = len(part.tasks)
        group = supervisor.strike(name)
        await asyncio.sleep(0.1)
        assert part.failures == failures.pop(name) + count, f"{name}: {part}"
        shown = {each["name"]: each for each in supervisor.status()}[name]
        assert "UnforeseenError" in shown["error"], shown
        assert shown["running"] == count, shown
        for each, tasks in before.items():
            if group and supervisor.part(each).tasks != tasks:
                continue  # one of the group's
            assert supervisor.part(each).tasks == tasks, f"{name} ended {each}"
        await asyncio.sleep(_RECOVERY_SECONDS)
        for each, tasks in before.items():
            assert len(supervisor.part(each).tasks) == len(tasks), f"{each} after {name}"
        for each, known in failures.items():
            same = supervisor.part(each).failures == known
            assert same or lacks(name, each), f"{name} made {each} fail: {supervisor.part(each)}"
        await works()
    await asyncio.sleep(_SOUND_SECONDS)
    assert not [part for part in supervisor.parts.values() if part.error]
    return names


async def rounds_in_turn(
    supervisor: Striking,
    seconds: Callable[[str], float],
    works: Works,
    seldom: set[str],
    lacks: Lacks = _independent,
) -> list[str]:
    """Makes all rounds of each part that is no loop fail for a while; otherwise the same.

    Args:
        seconds: within which a part has a round.
        works: raises where the others do not go on.
        seldom: parts that have rounds only where something happens.
        lacks: whether data that the first part should bring may be lacking in the second.

    Returns:
        The names of the parts.
    """
    names = [name for name, part in supervisor.parts.items() if not part.tasks]
    for name in names:
        failures = {each: part.failures for each, part in supervisor.parts.items()}
        tasks = supervisor.tasks()
        point = f"supervised.{name}"
        with faults.inject(
            faults.FaultPlan(1, {point: faults.FaultRule(1.0, UnforeseenError("struck"))})
        ):
            await asyncio.sleep(seconds(name))
            part = supervisor.part(name)
            assert part.failures > failures.pop(name) or name in seldom, name
            if name not in seldom:
                assert part.error == "UnforeseenError: struck", part
        for each, known in failures.items():
            same = supervisor.part(each).failures == known
            assert same or lacks(name, each), f"{name} made {each} fail: {supervisor.part(each)}"
        assert supervisor.tasks() >= tasks, f"{name} ended a loop"
        await asyncio.sleep(seconds(name))
        assert not part.error, part
        await works()
    return names
