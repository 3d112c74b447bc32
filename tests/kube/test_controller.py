# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from koord.base.metrics import registry
from koord.kube.controller import Controller, ControllerMetrics, TerminalError
from koord.kube.errors import PodRefusalError, Status
from tests.kube.harness import run_virtual


def test_a_key_is_reconciled_by_one_worker_at_a_time_and_others_beside_it() -> None:
    running: Counter[str] = Counter()
    together: list[int] = []

    async def reconcile(key: str) -> None:
        running[key] += 1
        assert running[key] == 1
        together.append(running.total())
        await asyncio.sleep(1)
        running[key] -= 1

    async def history() -> None:
        controller = Controller("c", reconcile, workers=3)
        work = asyncio.create_task(controller.run())
        for _ in range(5):
            for key in "abcd":
                controller.queue.add(key)
            await asyncio.sleep(0.5)
        await controller.stop()
        await work

    run_virtual(history())
    assert max(together) == 3


def test_what_no_try_mends_is_an_error_at_the_ninth_and_then_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A Deployment that a quota lets no pod of in for an hour: one line, not one a try."""
    metrics = registry()

    async def reconcile(key: str) -> None:
        raise OSError(key)

    async def history() -> None:
        controller = Controller("c", reconcile, metrics=ControllerMetrics(metrics))
        work = asyncio.create_task(controller.run())
        controller.queue.add("a")
        await asyncio.sleep(3600)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    with caplog.at_level(logging.INFO, "koord"):
        run_virtual(history())
    # 5 ms, and twice as long each time: the ninth try comes after 1.275 s, the twentieth after
    # 44 minutes.
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO"] * 8 + ["ERROR"] + ["INFO"] * (len(levels) - 9)
    assert len(levels) > 15
    counted = f'koord_controller_reconciles_total{{controller="c",result="failed"}} {len(levels)}.0'
    assert counted in metrics.expose().decode()


def test_a_pod_that_is_refused_alarms_its_author_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: str) -> None:
        raise PodRefusalError(Status(code=403, message="exceeded quota"))

    async def history() -> None:
        controller = Controller("c", reconcile)
        work = asyncio.create_task(controller.run())
        controller.queue.add("a")
        await asyncio.sleep(60)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    with caplog.at_level(logging.INFO, "koord"):
        run_virtual(history())
    assert len(caplog.records) > 9
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_failures_come_back_and_success_forgets_them(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[float] = []

    async def reconcile(key: str) -> None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 4:
            raise OSError(f"{key} is\nnot there")

    async def history() -> None:
        controller = Controller("c", reconcile)
        work = asyncio.create_task(controller.run())
        controller.queue.add("a")
        await asyncio.sleep(1)
        assert controller.queue.num_requeues("a") == 0
        await controller.stop()
        await work

    with caplog.at_level(logging.INFO, "koord"):
        run_virtual(history())
    assert tries == pytest.approx([0.0, 0.005, 0.015, 0.035])
    # The next try mended it: nothing to be alarmed at.
    assert {record.levelname for record in caplog.records} == {"INFO"}
    told = [getattr(record, "koord_fields", {}) for record in caplog.records]
    assert [fields["failures"] for fields in told] == [1, 2, 3]
    assert told[0]["key"] == "a"
    assert told[0]["error"] == "a is\\nnot there"


def test_a_terminal_error_is_not_tried_again_and_a_wish_comes_back() -> None:
    metrics = registry()
    tries: Counter[str] = Counter()

    async def reconcile(key: str) -> float | None:
        tries[key] += 1
        if key == "never":
            raise TerminalError("no such thing")
        return 10.0 if tries[key] < 3 else None

    async def history() -> None:
        controller = Controller("c", reconcile, metrics=ControllerMetrics(metrics))
        work = asyncio.create_task(controller.run())
        controller.queue.add("never")
        controller.queue.add("often")
        await asyncio.sleep(1000)
        await controller.stop()
        await work

    run_virtual(history())
    assert tries == {"never": 1, "often": 3}
    text = metrics.expose().decode()
    assert 'koord_controller_reconciles_total{controller="c",result="given up"} 1.0' in text
    assert 'koord_controller_reconciles_total{controller="c",result="requeued"} 2.0' in text


def test_cancelling_ends_the_work_in_progress() -> None:
    ended: list[str] = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(key)

    async def history() -> None:
        controller = Controller("c", reconcile, workers=2)
        work = asyncio.create_task(controller.run())
        controller.queue.add("a")
        await asyncio.sleep(1)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    run_virtual(history())
    assert ended == ["a"]
