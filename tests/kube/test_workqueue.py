# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.metrics import registry
from koord.kube.workqueue import FailureDelay, QueueMetrics, ShutDown, WorkQueue
from tests.kube.harness import run_virtual
from tests.models.queue import QueueModel

KEYS = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.integers(0, 2)),
        st.tuples(st.just("add_all"), st.lists(KEYS).map(tuple), st.none()),
        st.tuples(st.just("add_after"), KEYS, st.sampled_from([0.0, 0.25, 1.0, 3.0])),
        st.tuples(st.just("fail"), KEYS, st.integers(1, 60)),
        st.tuples(st.just("forget"), KEYS, st.none()),
        st.tuples(st.just("get"), st.none(), st.none()),
        st.tuples(st.just("done"), st.none(), st.integers(0, 3)),
        st.tuples(st.just("advance"), st.none(), st.sampled_from([0.1, 1.1, 20.3])),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_every_history_gives_what_the_model_gives(steps: list[tuple]) -> None:
    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        model = QueueModel()
        working: list[str] = []
        for step, key, value in steps:
            if step == "add":
                queue.add(key, value)
                model.add(key, value)
            elif step == "add_all":
                queue.add_all(key)
                for each in key:
                    model.add(each, 0)
            elif step == "add_after":
                queue.add_after(key, value)
                model.add_after(key, value)
            elif step == "fail":
                for _ in range(value):
                    queue.add_rate_limited(key)
                    model.fail(key)
                assert queue.num_requeues(key) == model.failures[key]
            elif step == "forget":
                queue.forget(key)
                model.failures.pop(key, None)
            elif step == "get" and len(queue):
                got = await queue.get()
                assert got == model.get()
                assert got not in working
                working.append(got)
            elif step == "done" and working:
                finished = working.pop(value % len(working))
                queue.done(finished)
                model.done(finished)
            elif step == "advance":
                await asyncio.sleep(value)
                model.advance(value)
            assert len(queue) == len(model.waiting)
        for key in working:
            queue.done(key)
            model.done(key)
        queue.shut_down()
        assert [await queue.get() for _ in range(len(queue))] == list(iter(model.get, None))

    run_virtual(history())


def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_afterwards() -> None:
    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        queue.add("a")
        assert await queue.get() == "a"
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        assert len(queue) == 0

    run_virtual(history())


def test_a_worker_waits_and_is_woken_by_each_way_in() -> None:
    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        ways: list[Callable[[], None]] = [
            lambda: queue.add("now"),
            lambda: queue.add_after("later", 5.0),
            lambda: queue.add_rate_limited("failed"),
        ]
        for way in ways:
            waiting = asyncio.create_task(queue.get())
            await asyncio.sleep(0)
            way()
            queue.done(await waiting)

    run_virtual(history())


def test_a_wake_up_for_a_cancelled_worker_goes_to_another() -> None:
    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"
        assert first.cancelled()

    run_virtual(history())


def test_drain_waits_for_work_in_progress_and_drops_what_was_to_come_later() -> None:
    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue("q")
        queue.add("a")
        queue.add("b")
        queue.add_after("c", 60.0)
        await queue.get()
        draining = asyncio.create_task(queue.drain())
        await asyncio.sleep(1)
        queue.add("d")
        queue.done("a")
        assert await queue.get() == "b"
        assert not draining.done()
        queue.done("b")
        await draining
        with pytest.raises(ShutDown):
            await queue.get()

    run_virtual(history())


def test_delays_double_up_to_the_bound_and_all_failures_take_turns() -> None:
    delay = FailureDelay()
    assert [delay.seconds(n, 0.0) for n in (0, 1, 2, 10)] == [0.005, 0.01, 0.02, 5.12]
    assert delay.seconds(10_000, 0.0) == 1000.0
    for _ in range(95):
        delay.seconds(0, 0.0)
    assert delay.seconds(0, 0.0) == pytest.approx(0.1)
    assert delay.seconds(0, 0.0) == pytest.approx(0.2)
    assert delay.seconds(0, 60.0) == 0.005


def test_metrics_have_the_names_of_client_go() -> None:
    metrics = registry()
    shared = QueueMetrics(metrics)

    async def history() -> None:
        queue: WorkQueue[str] = WorkQueue("pods", metrics=shared)
        for key in "abb":
            queue.add(key)
        queue.done(await queue.get())
        await queue.get()
        await asyncio.sleep(3)
        queue.add_rate_limited("c")
        shared.refresh()

    run_virtual(history())
    text = metrics.expose().decode()
    assert 'workqueue_adds_total{name="pods"} 2.0' in text
    assert 'workqueue_depth{name="pods"} 0.0' in text
    assert 'workqueue_retries_total{name="pods"} 1.0' in text
    assert 'workqueue_work_duration_seconds_count{name="pods"} 1.0' in text
    assert 'workqueue_queue_duration_seconds_count{name="pods"} 2.0' in text
    assert 'workqueue_unfinished_work_seconds{name="pods"} 3.0' in text
    assert 'workqueue_longest_running_processor_seconds{name="pods"} 3.0' in text
