# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from koord.kube.daemon.lifecycle import Component, run_until_stopped
from tests.kube.harness import logged, run_virtual


class Parts:
    """Makes components that write down what happens to them."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def part(self, name: str, ready_after: float = 0.0, end_after: float = 0.0) -> Component:
        up = asyncio.Event()

        async def run() -> None:
            self.told.append(f"{name} starts")
            try:
                await asyncio.sleep(ready_after)
                up.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(end_after)
                self.told.append(f"{name} ends")

        return Component(name, run, up.wait)


def test_parts_start_in_order_when_ready_and_stop_in_reverse() -> None:
    parts = Parts()

    async def whole() -> int:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(60, stop.set)
        components = [parts.part("a", 3.0, 1.0), parts.part("b", 1.0, 5.0), parts.part("c")]
        return await run_until_stopped(components, stop=stop)

    assert run_virtual(whole()) == 0
    assert parts.told == ["a starts", "b starts", "c starts", "c ends", "b ends", "a ends"]


def test_a_signal_stops_and_a_second_one_gives_up_waiting() -> None:
    parts = Parts()

    async def whole(end_after: float, signals: int) -> int:
        loop = asyncio.get_running_loop()
        for number in range(signals):
            loop.call_later(10 + number, os.kill, os.getpid(), signal.SIGTERM)
        return await run_until_stopped([parts.part("a", 0, end_after)], grace_seconds=1000)

    assert run_virtual(whole(5.0, 1)) == 0
    assert run_virtual(whole(500.0, 2)) == 1


def test_the_grace_period_ends() -> None:
    parts = Parts()

    async def whole() -> int:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(1, stop.set)
        loop = asyncio.get_running_loop()
        status = await run_until_stopped([parts.part("a", 0, 60.0)], grace_seconds=5, stop=stop)
        assert loop.time() == pytest.approx(6.0)
        return status

    with logged("koord.lifecycle", logging.ERROR) as records:
        assert run_virtual(whole()) == 1
    assert records[0].__dict__["koord_fields"] == {"parts": "a"}


@pytest.mark.parametrize("while_starting", [True, False])
def test_a_part_that_fails_stops_all_with_one_line(while_starting: bool) -> None:
    parts = Parts()

    async def broken() -> None:
        await asyncio.sleep(0.5 if while_starting else 5)
        raise OSError("port\ntaken")

    async def whole() -> int:
        return await run_until_stopped(
            [parts.part("a"), Component("broken", broken), parts.part("c", ready_after=1.0)]
        )

    with logged("koord.lifecycle", logging.ERROR) as records:
        assert run_virtual(whole()) == 1
    assert parts.told == ["a starts", "c starts", "c ends", "a ends"]
    (record,) = records
    assert record.__dict__["koord_fields"] == {"part": "broken", "error": "port\\ntaken"}


def test_of_tasks_that_fail_together_each_failure_is_told() -> None:
    async def fail(text: str) -> None:
        raise OSError(text)

    async def broken() -> None:
        async with asyncio.TaskGroup() as tasks:
            for text in ("lease x was lost", "port taken", "lease x was lost"):
                tasks.create_task(fail(text))

    with logged("koord.lifecycle", logging.ERROR) as records:
        assert run_virtual(run_until_stopped([Component("broken", broken)])) == 1
    (record,) = records
    assert record.__dict__["koord_fields"]["error"] == "lease x was lost; port taken"


def test_parts_that_have_done_their_work_end_the_program() -> None:
    async def work() -> None:
        await asyncio.sleep(1)

    async def whole() -> int:
        return await run_until_stopped([Component("a", work), Component("b", work)])

    assert run_virtual(whole()) == 0


def test_being_not_ready_is_a_failure_when_it_raises() -> None:
    parts = Parts()

    async def never() -> None:
        raise LookupError("no CRDs")

    async def whole() -> int:
        broken = parts.part("b")._replace(ready=never)
        return await run_until_stopped([parts.part("a"), broken, parts.part("c")])

    assert run_virtual(whole()) == 1
    assert parts.told == ["a starts", "b starts", "b ends", "a ends"]
