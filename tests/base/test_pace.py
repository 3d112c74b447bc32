# SPDX-License-Identifier: Apache-2.0
"""Virtual time beside real time: never faster than asked for, and late no more than is allowed."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.clock import MOST_BEHIND_SECONDS, Pace, VirtualClock, VirtualLoop

SECONDS = st.floats(0, 100)


@given(st.floats(0.1, 1_000), st.lists(st.tuples(SECONDS, SECONDS), min_size=1))
def test_virtual_time_keeps_to_its_speed(speed: float, steps: list[tuple[float, float]]) -> None:
    """Each step has some work, which takes real time, and a wait, which takes virtual time."""
    real, virtual = VirtualClock(5_000), VirtualClock()
    pace, end, due = Pace(speed, real), 0.0, 0.0
    for work, wait in steps:
        if end:
            real.advance(work)
        left = pace.wait_seconds(virtual.monotonic_seconds(), virtual.monotonic_seconds() + wait)
        # The plain model: when the wait is over by a plan that is put off by what is too late.
        now = real.monotonic_seconds()
        due = max(due, now - MOST_BEHIND_SECONDS) + wait / speed
        end = 1.0
        assert left == pytest.approx(due - now, abs=1e-6)
        real.advance(max(left, 0.0))
        virtual.advance(wait)
        passed = real.monotonic_seconds() * speed
        assert virtual.monotonic_seconds() <= passed * (1 + 1e-9) + 1e-6


def test_who_keeps_up_goes_at_just_that_speed() -> None:
    real, virtual = VirtualClock(), VirtualClock()
    pace = Pace(60, real)
    for _ in range(100):
        now = virtual.monotonic_seconds()
        real.advance(pace.wait_seconds(now, now + 30))
        virtual.advance(30)
        assert pace.now() == pytest.approx(virtual.monotonic_seconds())
    assert real.monotonic_seconds() == pytest.approx(50)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_a_speed_is_above_nothing(speed: float) -> None:
    with pytest.raises(ValueError, match="speed: got"):
        Pace(speed)


def test_a_paced_loop_wakes_timers_in_order_at_their_time() -> None:
    clock = VirtualClock()
    loop = VirtualLoop(clock, Pace(100_000))
    seen: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, clock.monotonic_seconds()))

    async def day() -> None:
        await asyncio.gather(wait("noon", 7_200), wait("morning", 3_600))

    loop.run_until_complete(day())
    loop.close()
    assert seen == [("morning", 3_600.0), ("noon", 7_200.0)]


def test_what_comes_from_outside_does_not_wait_for_a_timer() -> None:
    clock = VirtualClock()
    loop = VirtualLoop(clock, Pace(10))
    came = asyncio.Event()

    async def wait() -> float:
        far = asyncio.ensure_future(asyncio.sleep(36_000))
        threading.Thread(target=loop.call_soon_threadsafe, args=(came.set,)).start()
        await came.wait()
        far.cancel()
        return clock.monotonic_seconds()

    assert loop.run_until_complete(wait()) < 36_000
    loop.close()
