# SPDX-License-Identifier: Apache-2.0
"""What goes to the thread beside the loop takes turns with all other large work."""

from __future__ import annotations

import asyncio
import gc
import sys
import time

import pytest

from koord.base.loop_share import loop_share
from koord.base.worker import HEAVY_BYTES, Worker


def busy(seconds: float) -> float:
    """Works for so long; gives how long the interpreter makes others wait."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        pass
    return sys.getswitchinterval()


def test_heavy_calls_take_their_turn_and_give_one() -> None:
    async def run() -> None:
        worker, share = Worker(threaded=True), loop_share()
        async with share.aside():
            task = asyncio.create_task(worker.call(HEAVY_BYTES, busy, 0.01))
            await asyncio.sleep(0.001)
            assert await worker.call(HEAVY_BYTES - 1, busy, 0.0) == sys.getswitchinterval()
            assert not task.done()
        # While it lasts the loop gets the interpreter far sooner than usual.
        assert await task <= sys.getswitchinterval() / 10
        assert worker.calls == 1
        assert not share.free()
        worker.close()

    asyncio.run(run())


def test_what_a_heavy_call_raises_comes_back_and_all_is_as_before() -> None:
    async def run() -> None:
        worker, before = Worker(threaded=True), sys.getswitchinterval()
        with pytest.raises(ValueError, match="could not convert"):
            await worker.call(HEAVY_BYTES, float, "odd")
        assert sys.getswitchinterval() == before
        assert gc.isenabled()
        worker.close()

    asyncio.run(run())
