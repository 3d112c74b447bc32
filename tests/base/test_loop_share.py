# SPDX-License-Identifier: Apache-2.0
"""Large work takes a third of the loop's time, or a ninth, and one piece after the other."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.loop_share import OTHERS, LoopShare, loop_share

PIECES, TASKS = 4, 3


def test_others_have_the_loop_for_longer_than_each_piece_took() -> None:
    pieces: list[tuple[float, float, int]] = []

    async def work(who: int) -> None:
        share = loop_share()
        for _ in range(PIECES):
            await share.wait()
            with share.taken():
                begun = asyncio.get_running_loop().time()
                used = time.thread_time()
                while time.thread_time() - used < 0.002:
                    pass
                pieces.append((begun, asyncio.get_running_loop().time(), who))

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            for who in range(TASKS):
                tasks.create_task(work(who))

    asyncio.run(run())
    assert len(pieces) == PIECES * TASKS
    for (begun, ended, _), (after, _, _) in pairwise(pieces):
        # What takes over 0.1 s has waited for something too, and counts as that.
        assert after - ended >= OTHERS * min(ended - begun, 0.1)
    # In turn, once all have come.
    turns = [who for _, _, who in pieces][1 : 1 + TASKS * (PIECES - 1)]
    assert all(len({*turns[i : i + TASKS]}) == TASKS for i in range(0, len(turns), TASKS)), turns


def fail(share: LoopShare, loop: asyncio.AbstractEventLoop) -> None:
    with share.taken():
        begun = loop.time()
        while loop.time() == begun:
            pass
        raise ValueError("odd")


def test_work_that_raises_counts_too() -> None:
    async def run() -> None:
        share, loop = loop_share(), asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(ValueError, match="odd"):
            fail(share, loop)
        ended = loop.time()
        await share.wait()
        assert loop.time() - begun >= ended - begun
        assert share.free()
        assert loop_share() is share

    asyncio.run(run())


def test_on_virtual_time_nobody_waits() -> None:
    clock = VirtualClock(1.0)

    async def run() -> None:
        share, loop = loop_share(), asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(100):
            await share.wait()
            with share.taken():
                pass
        assert loop.time() == begun

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(run())


def test_nobody_begins_while_another_thread_works() -> None:
    async def run() -> None:
        share, order = loop_share(), []

        async def wait() -> None:
            await share.wait()
            order.append("next")

        assert share.free()
        async with share.aside():
            assert not share.free()
            task = asyncio.create_task(wait())
            await asyncio.sleep(0.001)
            order.append("thread")
        await task
        assert order == ["thread", "next"]

    asyncio.run(run())


def test_a_piece_that_waited_for_something_too_delays_others_for_a_bounded_time() -> None:
    async def run() -> None:
        share, loop = loop_share(), asyncio.get_running_loop()
        begun = loop.time()
        share.used(3600.0)
        await share.wait()
        assert loop.time() - begun < 60.0

    asyncio.run(run())
