# SPDX-License-Identifier: Apache-2.0
"""A coroutine in a thread of its own: it goes on while the loop stands, and ends when told."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from koord.kube.lease_thread import LeaseThread
from tests.kube.harness import run


def test_it_goes_on_while_the_event_loop_stands_still() -> None:
    turned = threading.Event()

    async def work() -> None:
        turned.set()

    async def story() -> None:
        task = asyncio.create_task(LeaseThread("t", work).run())
        await asyncio.sleep(0)
        assert turned.wait(30.0), "the loop stands still here"
        await task

    run(story())


def test_what_it_raises_is_raised() -> None:
    async def work() -> None:
        raise OSError("no way")

    async def story() -> None:
        with pytest.raises(OSError, match="no way"):
            await LeaseThread("t", work).run()

    run(story())


def test_cancelling_ends_the_coroutine_before_it_returns() -> None:
    began, ended = threading.Event(), threading.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    async def story() -> None:
        task = asyncio.create_task(LeaseThread("t", work).run())
        while not began.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    run(story())


def test_one_that_is_cancelled_before_its_thread_has_begun_does_nothing() -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append("began")
        await asyncio.Event().wait()

    async def story() -> None:
        task = asyncio.create_task(LeaseThread("t", work).run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story())
    assert len(seen) <= 1


def test_its_end_after_the_loop_is_closed_disturbs_nobody() -> None:
    proceed, threads = threading.Event(), threading.active_count()

    async def work() -> None:
        proceed.wait(30.0)

    async def story() -> None:
        waits = asyncio.ensure_future(LeaseThread("t", work).run())
        await asyncio.sleep(0.01)
        waits.cancel()
        done, _ = await asyncio.wait({waits}, timeout=0.05)
        assert not done, "it waits for the thread"
        proceed.set()
        await asyncio.wait({waits})

    run(story())
    while threading.active_count() > threads:
        time.sleep(0.01)
