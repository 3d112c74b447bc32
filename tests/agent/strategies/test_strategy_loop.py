# SPDX-License-Identifier: Apache-2.0
"""The loop: intervals, shared ticks, failures that stay where they are, gates and stopping."""

from __future__ import annotations

import asyncio
import logging

import pytest

from koord.agent.states.snapshot import Snapshot
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.readings import NotMeasuredYetError
from koord.agent.strategies.strategy import Actuators
from koord.agent.strategies.strategy_loop import StrategyLoop, TickSource
from koord.agent.strategies.strategy_metrics import StrategyMetrics
from koord.base import faults
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.errors import KoordError
from koord.base.metrics import registry
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader
from tests.agent.strategies.options import gates
from tests.kube.harness import logged

_SNAPSHOT = Snapshot()


class States:
    def snapshot(self):
        return _SNAPSHOT

    def subscribe(self, parts, changed):
        raise AssertionError("the loop asks")


class Counting:
    """Notes its ticks; takes a while; fails as it is told."""

    def __init__(self, name, interval, clock, gate="", takes=0.0):
        self.name, self.gate, self.interval_seconds = name, gate, interval
        self.clock, self.takes = clock, takes
        self.ticks, self.stopped = [], 0
        self.error = None

    def run(self, tick, hands):
        self.ticks.append(tick)
        self.clock.advance(self.takes)
        if self.error:
            raise self.error
        return {"round": len(self.ticks)}

    def stop(self, hands):
        self.stopped += 1


class Scene:
    def __init__(self, *made, on=(), after=()):
        self.clock = VirtualClock(1_700_000_000.0)
        self.strategies = [
            Counting(name, interval, self.clock, **kw) for name, interval, kw in made
        ]
        self.executor = FakeExecutor()
        self.registry = registry()
        self.gates = gates(*on)
        options = StrategyOptions(gates=self.gates, instruments=StrategyMetrics(self.registry, "n"))
        view = TickSource(States(), FakeReader(), None)
        hands = Actuators(self.executor, FakeEvictor())
        self.loop = StrategyLoop(self.strategies, hands, view, options, self.clock, after)

    def for_seconds(self, seconds):
        """Runs the loop on virtual time, then cancels it."""

        async def scene():
            task = asyncio.create_task(self.loop.run())
            await asyncio.sleep(seconds)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        runner = VirtualLoop(self.clock)
        try:
            runner.run_until_complete(scene())
        finally:
            runner.close()


def _starts(strategy):
    return [round(tick.now_seconds, 3) for tick in strategy.ticks]


def test_each_runs_at_once_and_then_on_its_interval():
    scene = Scene(("fast", 1.0, {}), ("slow", 2.5, {}))
    scene.for_seconds(5.2)
    fast, slow = scene.strategies
    assert _starts(fast) == [0, 1, 2, 3, 4, 5]
    assert _starts(slow) == [0, 2.5, 5.0]
    assert fast.ticks[0] is slow.ticks[0], "one view a round"
    assert fast.ticks[5] is slow.ticks[2]
    assert fast.ticks[1].now_ms == 1_700_000_001_000
    assert scene.executor.settled == 8, "seven rounds and the end"


def test_intervals_count_from_the_end_of_a_round():
    scene = Scene(("long", 1.0, {"takes": 0.5}))
    scene.for_seconds(4.0)
    assert _starts(scene.strategies[0]) == [0, 1.5, 3.0]


def test_those_of_one_interval_stay_together_however_long_one_takes():
    scene = Scene(("long", 1.0, {"takes": 0.25}), ("short", 1.0, {}))
    scene.for_seconds(4.0)
    long, short = scene.strategies
    assert _starts(long) == [0, 1.25, 2.5, 3.75]
    assert [a is b for a, b in zip(long.ticks, short.ticks, strict=True)] == [True] * 4


def test_a_failure_stays_where_it_is_and_is_told_once(caplog):
    caplog.set_level(logging.INFO)
    scene = Scene(("bad", 1.0, {}), ("good", 1.0, {}))
    bad, good = scene.strategies
    scene.loop.round()
    bad.error = KoordError("Node", "", None, "one")
    for _ in range(3):
        scene.clock.advance(1.0)
        scene.loop.round()
    assert len(good.ticks) == 4
    said = [r for r in caplog.records if r.getMessage() == "failed"]
    assert len(said) == 1
    assert scene.loop.rounds["bad"].error == "Node: got None, expected one"
    assert scene.loop.rounds["bad"].result == {"round": 1}, "what it last knew"
    bad.error = ValueError("a mistake")
    scene.clock.advance(1.0)
    scene.loop.round()
    assert len([r for r in caplog.records if r.getMessage() == "failed"]) == 2
    bad.error = None
    scene.clock.advance(1.0)
    scene.loop.round()
    assert scene.loop.rounds["bad"].error == ""
    assert any(r.getMessage() == "works again" for r in caplog.records)
    text = scene.registry.expose().decode()
    assert 'failures_total{code="Invalid",node="n",strategy="bad"} 3.0' in text


def test_what_waits_for_its_first_sample_at_the_start_has_not_failed(caplog):
    scene = Scene(("early", 1.0, {}))
    early = scene.strategies[0]
    early.error = NotMeasuredYetError("metric node_cpu_usage", "", None, "a sample")
    for _ in range(3):
        scene.clock.advance(scene.loop.round())
    assert len(early.ticks) == 3
    assert scene.loop.rounds["early"].error == ""
    waits = {"state": "waits for the first sample of metric node_cpu_usage"}
    assert scene.loop.rounds["early"].result == waits
    assert not caplog.records

    # By then there should be one.
    scene.clock.advance(scene.loop.round())
    scene.clock.advance(scene.loop.round())
    assert scene.loop.rounds["early"].error == str(early.error)
    assert [record.getMessage() for record in caplog.records] == ["failed"]


def test_every_decision_is_in_a_log_for_finding_faults():
    scene = Scene(("a", 10, {}))
    with logged("koord.agent.strategies", logging.DEBUG) as records:
        scene.for_seconds(15)
    assert [(r.getMessage(), r.koord_fields) for r in records] == [
        ("round", {"strategy": "a", "round": 1}),
        ("round", {"strategy": "a", "round": 2}),
    ]


def test_gates_and_intervals_decide_who_runs():
    scene = Scene(
        ("on", 1.0, {"gate": "CPUEvict|MemoryEvict"}), ("off", 1.0, {"gate": "BlkIOReconcile"}),
        ("never", 0.0, {}), on=["MemoryEvict"],
    )  # fmt: skip
    on, off, never = scene.strategies
    scene.loop.round()
    assert (len(on.ticks), len(off.ticks), len(never.ticks)) == (1, 0, 0)
    scene.gates.set_from("MemoryEvict=false,BlkIOReconcile=true")
    scene.clock.advance(1.0)
    scene.loop.round()
    assert (len(on.ticks), len(off.ticks), on.stopped) == (1, 1, 1)
    assert list(scene.loop.rounds) == ["off"]
    scene.loop.stop()
    assert (on.stopped, off.stopped, never.stopped) == (1, 1, 0)


def test_nothing_on_waits_for_a_gate():
    scene = Scene(("off", 1.0, {"gate": "BlkIOReconcile"}))
    assert scene.loop.round() == 1.0
    assert scene.executor.settled == 0


def test_the_end_stops_all_and_settles():
    scene = Scene(("a", 1.0, {}), ("b", 1.0, {}))
    scene.for_seconds(0.5)
    assert [each.stopped for each in scene.strategies] == [1, 1]
    assert scene.executor.settled == 2


def test_what_comes_after_a_round_gets_its_tick_and_may_fail():
    seen = []

    def fails(tick):
        raise OSError(5, "broken")

    scene = Scene(("a", 1.0, {}), after=[fails, seen.append])
    scene.loop.round()
    assert seen == scene.strategies[0].ticks


def test_an_injected_fault_gives_a_round_up():
    scene = Scene(("a", 1.0, {}))
    error = KoordError("x", "", 1, "2")
    plan = faults.FaultPlan(1, {"agent.strategy.run": faults.FaultRule(1.0, error)})
    with faults.inject(plan):
        scene.loop.round()
    assert scene.strategies[0].ticks == []
    assert scene.loop.rounds["a"].error == str(error)
