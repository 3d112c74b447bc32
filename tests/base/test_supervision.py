# SPDX-License-Identifier: Apache-2.0
"""Loops begin anew after a pause, rounds fail alone; each cause is logged once, and all counted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from koord.base import supervision
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.base.metrics import registry
from koord.base.supervision import Supervisor, cause_of
from tests.kube.harness import logged, run_virtual
from tests.striking import Striking, unsupervised


def fields(records: list[logging.LogRecord]) -> list[tuple[str, Any]]:
    return [(r.getMessage(), getattr(r, "koord_fields", None)) for r in records]


def test_a_loop_begins_anew_after_1_2_4_up_to_60_seconds() -> None:
    begun: list[float] = []

    async def fails() -> None:
        begun.append(asyncio.get_running_loop().time())
        raise ValueError("no")

    async def scene() -> None:
        supervisor = Supervisor("test")
        task = supervisor.start("loop", fails)
        await asyncio.sleep(200)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert supervisor.part("loop").failures == len(begun)
        assert supervisor.part("loop").tasks == set()

    run_virtual(scene())
    assert begun == [0, 1, 3, 7, 15, 31, 63, 123, 183]


def test_a_cause_is_logged_once_until_the_loop_works() -> None:
    wrong = ["a", "a", "b", "a", ""]

    async def fails_at_first() -> None:
        await asyncio.sleep(0.1)
        why = wrong.pop(0) if wrong else ""
        if why:
            raise KoordError("x", "", why, "y") if why == "b" else ValueError(why)
        await asyncio.Event().wait()

    async def scene() -> None:
        clock, metrics = VirtualClock(), registry()
        supervisor = Supervisor("test", metrics, clock)
        task = supervisor.start("loop", fails_at_first)
        await asyncio.sleep(30)
        (shown,) = supervisor.status()
        assert (shown["name"], shown["running"], shown["failures"]) == ("loop", 1, 4)
        assert shown["error"] == "ValueError: a"
        await asyncio.sleep(supervision.SOUND_SECONDS)
        assert supervisor.part("loop").error == ""
        assert b'koord_test_failures_total{part="loop"} 4.0' in metrics.expose()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with logged("koord.supervision", logging.INFO) as records:
        run_virtual(scene())
    assert fields(records) == [
        ("failed", {"part": "loop", "error": "ValueError: a"}),
        ("failed", {"part": "loop", "error": "x: got 'b', expected y"}),
        ("works again", {"part": "loop"}),
    ]
    # Where nobody expected it, the log says where it was.
    assert [r.exc_info is not None for r in records] == [True, False, False]


def test_a_loop_that_fails_every_five_minutes_does_not_work_in_between() -> None:
    async def fails() -> None:
        await asyncio.sleep(300)
        raise ValueError("no")

    async def scene() -> None:
        supervisor = Supervisor("test")
        task = supervisor.start("loop", fails)
        await asyncio.sleep(700)
        assert supervisor.part("loop").error == "ValueError: no"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with logged("koord.supervision", logging.INFO) as records:
        run_virtual(scene())
    assert len(records) == 1


def test_what_returns_has_done_its_work() -> None:
    async def scene() -> None:
        supervisor = Supervisor("test")
        await supervisor.keep("loop", lambda: asyncio.sleep(1))
        assert supervisor.part("loop").failures == 0

    run_virtual(scene())


def test_cancellation_passes_through_and_nobodys_does_not() -> None:
    async def scene() -> None:
        supervisor = Supervisor("test")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def waits() -> None:
            await (gone if not gone.cancelled() else asyncio.Event().wait())

        task = supervisor.start("loop", waits)
        await asyncio.sleep(1)
        gone.cancel()
        await asyncio.sleep(10)
        assert not task.done()
        assert supervisor.part("loop").error == "StrayCancelError: cancelled by nobody"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run_virtual(scene())


def test_one_that_fails_while_it_is_cancelled_ends() -> None:
    async def scene() -> None:
        supervisor = Supervisor("test")

        async def untidy() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError(5, "broken")

        task = supervisor.start("loop", untidy)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(0.1)
        assert task.cancelled()
        assert supervisor.part("loop").failures == 1

    run_virtual(scene())


def test_rounds_fail_by_what_they_are_about() -> None:
    supervisor = Supervisor("test")
    with logged("koord.supervision", logging.INFO) as records:
        for pod, error in (("a", "x"), ("b", "x"), ("a", "x"), ("a", ""), ("b", "x")):
            with supervisor.round("hook", pod) as this:
                if error:
                    raise ValueError(error)
            assert (this.error is None) == (not error)
    assert supervisor.part("hook").errors == {"b": "ValueError: x"}
    assert supervisor.part("hook").failures == 4
    assert fields(records) == [
        ("failed", {"part": "hook", "about": "a", "error": "ValueError: x"}),
        ("failed", {"part": "hook", "about": "b", "error": "ValueError: x"}),
        ("works again", {"part": "hook", "about": "a"}),
    ]
    supervisor.forget("hook", "b")
    assert supervisor.part("hook").error == ""


def test_a_round_lets_what_is_no_error_through() -> None:
    supervisor = Supervisor("test")
    with pytest.raises(KeyboardInterrupt), supervisor.round("r"):
        raise KeyboardInterrupt
    assert supervisor.part("r").failures == 0


def test_faults_reach_loops_and_rounds() -> None:
    async def scene() -> None:
        supervisor = Supervisor("test")
        plan = FaultPlan(1, {"supervised.a": FaultRule(1.0, ValueError("injected"))})
        with inject(plan):
            with supervisor.round("a") as this:
                pass
            assert str(this.error) == "injected"
            task = supervisor.start("a", lambda: asyncio.sleep(1))
            await asyncio.sleep(0.5)
            assert supervisor.part("a").failures == 2
        await task

    run_virtual(scene())


def test_a_task_on_its_own_is_not_begun_anew() -> None:
    async def scene() -> None:
        supervisor = Supervisor("test")

        async def fails() -> None:
            raise ValueError("no")

        await supervisor.once("write", fails, "write of x")
        assert supervisor.part("write").errors == {"": "ValueError: no"}
        assert supervisor.tasks() == set()

    run_virtual(scene())


def test_causes_are_one_line() -> None:
    assert cause_of(ValueError("a\nb")) == "ValueError: a\\nb"
    assert cause_of(ZeroDivisionError()) == "ZeroDivisionError"
    assert cause_of(OSError(5, "broken")) == "[Errno 5] broken"
    group = ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError()])])
    assert cause_of(group) == "ValueError: a; KeyError"


def test_a_task_outside_the_supervisor_is_found() -> None:
    async def scene() -> None:
        supervisor = Striking("test")
        before = asyncio.all_tasks()

        async def forever() -> None:
            await asyncio.Event().wait()

        inside = supervisor.start("a", forever)
        await asyncio.sleep(1)
        assert unsupervised(supervisor, before) == []
        outside = asyncio.create_task(forever())
        await asyncio.sleep(1)
        (found,) = unsupervised(supervisor, before)
        assert "forever" in found
        for task in (inside, outside):
            task.cancel()
        await asyncio.gather(inside, outside, return_exceptions=True)

    run_virtual(scene())
