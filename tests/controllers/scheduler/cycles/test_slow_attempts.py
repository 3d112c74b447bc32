# SPDX-License-Identifier: Apache-2.0
"""Attempts that take too long: what their pods are told, and how long they wait.

Rule: docs/reference/scheduling.md#slow-attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from koord.controllers.scheduler.cycles.slow_attempts import wait_seconds
from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
from koord.controllers.scheduler.explain.pod_explainer import PodExplainer
from tests.controllers.scheduler.cycles.test_scheduling_loop import WakingRoom, settle
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.queue.test_oversized_pods import affine
from tests.controllers.scheduler.world import scheduler


class SlowRoom(WakingRoom):
    """Takes long to say no or yes."""

    clock: Any = None
    seconds = 6.0

    def filter(self, cycle: Any, rows: Any) -> Any:
        self.clock.advance(self.seconds)
        return super().filter(cycle, rows)


class Bench:
    """A scheduler of one slow plugin."""

    def __init__(self, cpu: str, **spec: Any) -> None:
        self.room = SlowRoom()
        points = {"filter": [self.room], "score": [self.room]}
        pods = [pod("p", cpu=cpu, **spec)]
        self.made, self.views, self.clock, self.told = scheduler(points, [node("a")], pods)
        self.room.clock = self.clock
        self.reported: list[str] = []
        self.made.loop.failures.report = (  # type: ignore[method-assign]
            lambda failure: self.reported.append(failure.message)
        )

    def events(self) -> list[str]:
        return [text for _, reason, text in self.told.events if reason == "SlowScheduling"]

    def attempt(self) -> int:
        self.made.queue.tick()
        return self.made.loop.schedule(1.0, 1)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize(
    ("count", "seconds", "waits"),
    [(1, 6.0, 12.0), (2, 6.0, 24.0), (5, 6.0, 192.0), (9, 6.0, 600.0)],
)
def test_the_wait_doubles_up_to_ten_minutes(count: int, seconds: float, waits: float) -> None:
    assert wait_seconds(count, seconds) == waits


def test_a_pod_that_fails_slowly_is_told_where_the_time_went_and_waits() -> None:
    async def story() -> None:
        bench = Bench("64")
        assert bench.attempt() == 1
        text = "The attempt took 6.0 s, over 5 s: PreFilter to Reserve 6.0 s."
        text += " The next follows after 12 s at the earliest."
        assert bench.events() == [text]
        assert bench.reported[-1] == f"0/1 nodes are available: 1 Insufficient cpu. {text}"
        queued = bench.made.queue.get("uid-p")
        assert queued is not None
        assert queued.slow is not None
        assert queued.slow.until == bench.clock.monotonic_seconds() + 12.0

    run(story())


def test_neither_events_nor_promises_nor_an_idle_queue_have_it_tried_earlier() -> None:
    async def story() -> None:
        bench = Bench("64")
        bench.attempt()
        bench.views.view(type(node("b"))).put(node("b"))
        bench.made.queue.activate(["uid-p"])
        assert bench.attempt() == 0
        bench.clock.advance(11.0)
        assert bench.attempt() == 0
        bench.clock.advance(1.5)
        assert bench.attempt() == 1

    run(story())


def test_the_second_one_in_a_row_names_the_plugin_and_waits_twice_as_long() -> None:
    async def story() -> None:
        bench = Bench("64")
        bench.attempt()
        bench.views.view(type(node("b"))).put(node("b"))
        bench.clock.advance(13.0)
        assert bench.attempt() == 1
        assert bench.events()[-1] == (
            "The attempt took 6.0 s, over 5 s, the 2nd such in a row: Room Filter 6.0 s."
            " The next follows after 24 s at the earliest."
        )

    run(story())


def test_an_attempt_that_is_fast_again_ends_the_row() -> None:
    async def story() -> None:
        bench = Bench("64")
        bench.attempt()
        bench.room.seconds = 0.5
        bench.views.view(type(node("b"))).put(node("b"))
        bench.clock.advance(13.0)
        assert bench.attempt() == 1
        queued = bench.made.queue.get("uid-p")
        assert queued is not None
        assert queued.slow is None
        assert len(bench.events()) == 1

    run(story())


def test_a_pod_that_finds_its_node_slowly_is_told_too() -> None:
    async def story() -> None:
        bench = Bench("1")
        bench.attempt()
        await settle()
        assert bench.events() == ["The attempt took 6.0 s, over 5 s: PreFilter to Reserve 6.0 s."]
        assert "Scheduled" in [reason for _, reason, _ in bench.told.events]
        assert not bench.reported

    run(story())


def test_an_oversized_pod_is_measured_by_plugin_from_its_first_attempt_on() -> None:
    async def story() -> None:
        bench = Bench("64", **affine(1200))
        bench.attempt()
        assert "over 5 s: Room Filter 6.0 s." in bench.events()[0]

    run(story())


def test_explain_says_how_large_and_how_slow() -> None:
    async def story() -> None:
        bench = Bench("64", **affine(1200))
        bench.attempt()
        history = AttemptHistory(bench.made.world.table, bench.clock)
        bench.room.seconds = 0.0
        notes = PodExplainer(bench.made, history).pod("default", "p").notes
        assert (
            "its 1203 values (affinity 1202, containers 1) are over 1000: tried after other pods"
            in (notes)
        )
        assert any("Room Filter 6.0 s. The next follows in 12 s" in note for note in notes)

    run(story())
