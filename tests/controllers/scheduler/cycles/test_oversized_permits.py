# SPDX-License-Identifier: Apache-2.0
"""An oversized pod waits for the loop's turn; pods of usual size are decided meanwhile.

Rule: docs/reference/scheduling.md#oversized-pods.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from koord.api.kinds.pod import Pod
from koord.base.loop_share import loop_share
from tests.controllers.scheduler.cycles.test_scheduling_loop import points
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.queue.test_oversized_pods import affine
from tests.controllers.scheduler.world import scheduler


async def bound_within(told: object, count: int) -> list[str]:
    """The first pods that are told of, in their order."""
    events = told.events  # type: ignore[attr-defined]
    async with asyncio.timeout(30.0):
        while len(events) < count:
            await asyncio.sleep(0)
    return [message.split()[2] for _, _, message in events]


def test_usual_pods_are_decided_while_large_work_is_under_way() -> None:
    async def run() -> None:
        first = pod("large", cpu="1", **affine(1000))
        made, views, _, told = scheduler(points(), [node("a", cpu="64")], [first])
        async with loop_share().aside():
            task = asyncio.create_task(made.loop.run())
            for number in range(3):
                await asyncio.sleep(0.001)
                assert made.queue.oversized == 1
                views.view(Pod).put(pod(f"p{number}", cpu="1"))
                made.loop.woken()
            names = await bound_within(told, 3)
            assert names == ["default/p0", "default/p1", "default/p2"]
        # And once the turn is its own, it needs no other pod to wake the loop.
        assert (await bound_within(told, 4))[-1] == "default/large"
        assert not loop_share().free()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_a_loop_that_ends_asks_no_longer() -> None:
    async def run() -> None:
        first = pod("large", cpu="1", **affine(1000))
        made, _, _, told = scheduler(points(), [node("a", cpu="64")], [first])
        async with loop_share().aside():
            task = asyncio.create_task(made.loop.run())
            await asyncio.sleep(0.001)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.sleep(0.001)
        assert len(asyncio.all_tasks()) == 1
        assert not told.events

    asyncio.run(run())
