# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.clock import Clock, DeadlockError, SystemClock, VirtualClock, VirtualLoop


def test_a_virtual_clock_stands_still_until_told() -> None:
    clock: Clock = VirtualClock(wall_start_seconds=1_000.0)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (1_000.0, 0.0)
    clock.advance(2.5)
    assert (clock.wall_seconds(), clock.monotonic_seconds()) == (1_002.5, 2.5)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_virtual_clock_never_goes_back(seconds: float) -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="seconds: got"):
        clock.advance(seconds)


def test_the_system_clock_reads_both_clocks() -> None:
    before = time.monotonic()
    clock = SystemClock()
    assert clock.wall_seconds() == pytest.approx(time.time(), abs=60)
    assert before <= clock.monotonic_seconds() <= time.monotonic()


def test_a_day_of_timers_passes_at_once_and_in_order() -> None:
    clock = VirtualClock()
    loop = VirtualLoop(clock)
    seen: list[tuple[float, str]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((clock.monotonic_seconds(), name))

    async def day() -> None:
        await asyncio.gather(wait("evening", 64_800), wait("morning", 21_600), wait("noon", 43_200))

    started = time.monotonic()
    loop.run_until_complete(day())
    loop.close()
    assert seen == [(21_600.0, "morning"), (43_200.0, "noon"), (64_800.0, "evening")]
    assert time.monotonic() - started < 60


def test_timeouts_run_on_virtual_time_too() -> None:
    clock = VirtualClock()
    loop = VirtualLoop(clock)

    async def hang() -> None:
        async with asyncio.timeout(300):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        loop.run_until_complete(hang())
    loop.close()
    assert clock.monotonic_seconds() == pytest.approx(300)


def test_waiting_for_nothing_is_an_error_not_a_hang() -> None:
    loop = VirtualLoop(VirtualClock())
    task = loop.create_task(asyncio.Event().wait())
    with pytest.raises(DeadlockError):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


@given(st.floats(0, 1e5), st.lists(st.integers(1, 1_000), min_size=2, max_size=9))
def test_who_waits_for_what_is_left_gets_there(start: float, ulps: list[int]) -> None:
    """As work queues do: woken too early, each waits for less than a clock resolves.

    While some are at it the others are ready, so that the loop does not come to move the clock.
    """
    clock = VirtualClock()
    clock.advance(start)
    loop = VirtualLoop(clock)

    async def until(due: float, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        rounds = 0
        while (left := due - loop.time()) > 0:
            rounds += 1
            assert rounds < 100
            await asyncio.sleep(left)

    async def everybody() -> None:
        step = math.ulp(start)
        await asyncio.gather(*(until(start + n * step, at) for at, n in enumerate(ulps)))

    loop.run_until_complete(everybody())
    loop.close()
