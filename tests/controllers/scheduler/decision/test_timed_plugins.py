# SPDX-License-Identifier: Apache-2.0
"""What the loop tells of itself: sampled times, slow attempts, switches, counts; and its order."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from koord.base.errors import KoordError
from koord.controllers.scheduler.debug.flags import DebugFlags
from koord.controllers.scheduler.decision.timed_plugins import (
    EVERY,
    LEAST_SECONDS,
    SHARE,
    status_of,
)
from koord.controllers.scheduler.endpoints import SchedulerEndpoints
from koord.controllers.scheduler.framework.plugin import PostFilterResult
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.metrics import SchedulerMetrics
from koord.controllers.scheduler.queue.events import HintedEvent
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.cycles.test_scheduling_loop import WakingRoom, points, settle
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import scheduler


def exposed(made: Scheduler) -> dict[str, float]:
    """Every sample of the scheduler's metrics."""
    found = {}
    for line in made.metrics.registry.expose().decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_every_tenth_attempt_is_timed_and_decided_alike() -> None:
    async def run() -> None:
        pods = [pod(f"p{i:02}", cpu="1") for i in range(25)]
        nodes = [node("a", cpu="16"), node("b", cpu="16")]
        made, _, clock, _ = scheduler(points(), nodes, pods)
        for _ in pods:
            assert made.loop.schedule(5.0, 1) == 1
            clock.advance(LEAST_SECONDS)
        await settle()
        table = made.world.table
        assert [len(table.pods[row]) for row in (0, 1)] == [13, 12], "as without samples"
        found = exposed(made)
        scored = 'plugin="Room",status="Success"'
        for point in ("Filter", "Score"):
            name = "scheduler_plugin_execution_duration_seconds_count"
            # The answers of the one before are kept: it asks about one row, once.
            assert found[f'{name}{{extension_point="{point}",{scored}}}'] == 25 // EVERY
            name = "scheduler_framework_extension_point_duration_seconds_count"
            labels = f'extension_point="{point}",profile="koord-scheduler",status="Success"'
            assert found[f"{name}{{{labels}}}"] == 25 // EVERY

    asyncio.run(run())


def test_timed_attempts_have_a_share_of_the_time() -> None:
    async def run() -> None:
        pods = [pod(f"p{i:03}", cpu="1m") for i in range(260)]
        made, _, clock, _ = scheduler(points(), [node("a", cpu="64", pods="300")], pods)
        # So long every attempt takes.
        made.loop.observe(lambda decision, message: clock.advance(LEAST_SECONDS))
        name = "scheduler_framework_extension_point_duration_seconds_count"
        labels = 'extension_point="Filter",profile="koord-scheduler",status="Success"'

        def timed(attempts: int) -> float:
            for _ in range(attempts):
                assert made.loop.schedule(5.0, 1) == 1
            return exposed(made).get(f"{name}{{{labels}}}", 0)

        assert timed(EVERY) == 1
        assert timed(SHARE - 1) == 1
        assert timed(2) == 2
        assert timed(SHARE + 1) == 3

    asyncio.run(run())


def test_attempts_that_follow_closely_are_not_all_timed() -> None:
    async def run() -> None:
        pods = [pod(f"p{i:02}", cpu="1") for i in range(45)]
        made, _, clock, _ = scheduler(points(), [node("a", cpu="64")], pods)
        name = "scheduler_framework_extension_point_duration_seconds_count"
        labels = 'extension_point="Filter",profile="koord-scheduler",status="Success"'

        def timed(attempts: int) -> float:
            assert made.loop.schedule(5.0, attempts) == attempts
            return exposed(made).get(f"{name}{{{labels}}}", 0)

        assert timed(9) == 0
        assert timed(1) == 1
        assert timed(25) == 1, "no time has passed"
        clock.advance(LEAST_SECONDS)
        assert timed(1) == 2, "due since long"
        clock.advance(LEAST_SECONDS)
        assert timed(9) == 2, "every tenth at most"

    asyncio.run(run())


def test_answers_have_their_kubernetes_names() -> None:
    no = Rejection("P", ("no",))
    assert status_of(None) == "Success"
    assert status_of(no) == "Unschedulable"
    assert status_of(no._replace(unresolvable=True)) == "UnschedulableAndUnresolvable"
    assert status_of(no._replace(error=True)) == "Error"


class Slow(WakingRoom):
    """Takes its time: on the clock of the test."""

    clock: Any = None

    def filter(self, cycle: Any, rows: Any) -> Any:
        self.clock.advance(31.0)
        return super().filter(cycle, rows)


def test_an_attempt_that_takes_too_long_is_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        slow = Slow()
        made, _, slow.clock, _ = scheduler({"filter": [slow]}, [node("a")], [pod("p", cpu="1")])
        with caplog.at_level(logging.WARNING):
            made.loop.schedule(1.0)
        name = 'scheduler_scheduling_timeout{profile="koord-scheduler"}'
        assert exposed(made)[name] == 1
        assert "an attempt to schedule a pod took too long" in caplog.text
        made.loop.monitor.timeout_seconds = 0
        made.loop.monitor.ended("koord-scheduler", "default/p", 1e9)
        assert exposed(made)[name] == 1

    asyncio.run(run())


class Preempting:
    """Claims to have made room."""

    name = "Preempting"

    def events(self) -> list[HintedEvent]:
        return []

    def post_filter(self, cycle: Any, diagnosis: Any) -> PostFilterResult:
        return PostFilterResult("a", success=True, victims=[cycle.pod, cycle.pod])


def test_preemptions_and_moves_between_queues_are_counted() -> None:
    async def run() -> None:
        asked = {**points(), "postFilter": [Preempting()]}
        made, _, _, _ = scheduler(asked, [node("a", cpu="1")], [pod("p", cpu="4")])
        made.loop.schedule(1.0)
        for _ in range(2):
            made.metrics.incoming(made.queue.incoming)
        found = exposed(made)
        assert found["scheduler_preemption_attempts_total"] == 1
        assert found["scheduler_preemption_victims_sum"] == 2
        name = "scheduler_queue_incoming_pods_total"
        assert found[f'{name}{{event="UnscheduledPodAdd",queue="active"}}'] == 1
        assert found[f'{name}{{event="ScheduleAttemptFailure",queue="unschedulable"}}'] == 1

    asyncio.run(run())


class Youngest:
    """Last come, first served."""

    name = "Youngest"

    def events(self) -> list[HintedEvent]:
        return []

    def sort_key(self, info: Any, timestamp: float) -> tuple[Any, ...]:
        return (-int(info.key[-1]), timestamp)


def test_the_queue_is_in_the_order_of_the_profiles_plugin() -> None:
    async def run() -> None:
        order = {**points(), "queueSort": [Youngest()]}
        pods = [pod(f"p{i}", cpu="1", priority=i % 2) for i in range(4)]
        made, _, _, _ = scheduler(order, [node("a", cpu="2")], pods)
        made.loop.schedule(1.0)
        assert sorted(made.feed.assumed) == ["uid-p2", "uid-p3"]

    asyncio.run(run())


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    found = [record for record in caplog.records if record.getMessage() == message]
    return [vars(record)["koord_fields"] for record in found]


def test_switches_log_scores_filters_and_diagnoses(caplog: pytest.LogCaptureFixture) -> None:
    switches = DebugFlags()

    async def run() -> None:
        nodes = [node("a", cpu="8"), node("b", cpu="16"), node("c", cpu="1")]
        pods = [pod("fits", cpu="4"), pod("large", cpu="99")]
        made, _, _, _ = scheduler(points(), nodes, pods)
        made.loop._observers = (switches.observe,)
        made.loop.schedule(1.0)

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
        assert not caplog.records, "all are off"
        switches.set("s", "5")
        switches.set("f", "true")
        assert switches.set("d", "1\n") == {"s": 5, "f": True, "d": True}
        asyncio.run(run())
    assert logged(caplog, "scored") == [
        {"pod": "default/fits", "rank": 1, "node": "b", "total": 75, "Room": 75},
        {"pod": "default/fits", "rank": 2, "node": "a", "total": 50, "Room": 50},
    ]
    refused = [(each["pod"], each["node"], each["reason"]) for each in logged(caplog, "filtered")]
    assert refused == [
        ("default/fits", "c", "Insufficient cpu"),
        *(("default/large", name, "Insufficient cpu") for name in "abc"),
    ]
    assert [each["refusals"] for each in logged(caplog, "not scheduled")] == [
        "Room: 3 Insufficient cpu"
    ]


@pytest.mark.parametrize(
    ("flag", "text"), [("s", "-1"), ("s", "many"), ("s", "9" * 5000), ("f", "maybe"), ("d", "")]
)
def test_a_value_that_is_none_changes_nothing(flag: str, text: str) -> None:
    switches = DebugFlags()
    with pytest.raises(KoordError, match=f"/debug/flags/{flag}"):
        switches.set(flag, text)
    assert switches.values() == {"s": 0, "f": False, "d": False}


def test_switches_are_put_over_http() -> None:
    async def run() -> None:
        made, _, _, _ = scheduler(points(), [node("a")], [pod("p", cpu="1")])
        app: Any = SimpleNamespace(leading=True, scheduler=made, switches=DebugFlags(), views=None)
        endpoints = SchedulerEndpoints(made.metrics, "127.0.0.1", 0)
        await endpoints.start()
        try:
            async with aiohttp.ClientSession(endpoints.url) as session:

                async def put(path: str, text: str) -> tuple[int, Any]:
                    async with session.put(path, data=text) as answer:
                        return answer.status, await answer.json()

                assert (await put("/debug/flags/s", "3"))[0] == 503
                endpoints.attach(app)
                assert await put("/debug/flags/s", "3") == (200, {"s": 3, "f": False, "d": False})
                assert (await put("/debug/flags/s", "x"))[0] == 400
                assert (await put("/debug/flags/x", "1"))[0] == 404
                async with session.get("/debug/flags") as answer:
                    assert (await answer.json())["s"] == 3
                async with session.get("/metrics") as answer:
                    assert "scheduler_queue_incoming_pods_total{" in await answer.text()
        finally:
            await endpoints.stop()

    asyncio.run(run())


def test_the_shipped_configuration_has_all_plugins() -> None:
    from koord.controllers.scheduler.built_in_plugins import BUILT_IN
    from koord.controllers.scheduler.config.load import shipped

    registry = Registry(())
    assert {name for name in BUILT_IN if registry.points(name)} == set(BUILT_IN)
    profile = shipped(registry, "koord-scheduler").profiles[0]
    assert profile.at("queueSort") == ("PrioritySort",)
    for point, name in (
        ("filter", "LoadAwareScheduling"),
        ("score", "LoadAwareScheduling"),
        ("reserve", "LoadAwareScheduling"),
        ("preFilter", "SchedulingHint"),
    ):
        assert name in profile.at(point)


def test_metrics_can_be_read_without_prometheus_samples() -> None:
    assert b"scheduler_schedule_attempts_total" in SchedulerMetrics().registry.expose()
