# SPDX-License-Identifier: Apache-2.0
"""Rounds over virtual time: who is called when, what one failure does to the others, long runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from koord.agent.metrics.collection_loop import CollectionLoop
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.collectors.node import NodeCollector
from koord.agent.metrics.collectors.page_cache import PageCacheCollector
from koord.agent.metrics.collectors.pods import PodsCollector
from koord.agent.metrics.collectors.pressure import PressureCollector
from koord.agent.metrics.collectors.throttling import ThrottlingCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.metrics.samples import Samples
from koord.agent.states.pod_state import PodState
from koord.base.errors import KoordError
from koord.base.faults import FaultPlan, FaultRule, inject
from tests.agent.machine_tree import Group, MachineTree
from tests.agent.metrics.bench import Bench, lay_out, pod_json, pod_of
from tests.descriptors import descriptors
from tests.kube.harness import logged, run, run_virtual


class Counting(Collector):
    """Notes when it was called, and says what it is told to."""

    def __init__(
        self, name: str, interval: float, *, window: float = 0.0, blocking: bool = False
    ) -> None:
        self.name, self.interval_seconds = name, interval
        self.window_seconds, self.blocking = window, blocking
        self.begun: list[float] = []
        self.collected: list[float] = []
        self.error: Exception | None = None
        self.stopped = 0

    def begin(self, now: CollectionRound) -> None:
        self.begun.append(now.now_seconds)

    def collect(self, now: CollectionRound) -> Samples:
        self.collected.append(now.now_seconds)
        if self.error:
            raise self.error
        return Samples(now.now_ms)

    def stop(self) -> None:
        self.stopped += 1


def advise(
    root: Path, *collectors: Collector, aside: Callable[..., Awaitable[Samples]] | None = None
) -> tuple[Bench, CollectionLoop]:
    bench = Bench(MachineTree(root), list(collectors))
    advisor = CollectionLoop(
        bench.machine, lambda: bench.snapshot, bench.cache, collectors, bench.clock,
        bench.groups, aside=aside,
    )  # fmt: skip
    return bench, advisor


def run_for(bench: Bench, advisor: CollectionLoop, seconds: float) -> None:
    async def some_time() -> None:
        task = asyncio.create_task(advisor.run())
        await advisor.wait_ready()
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(some_time(), bench.clock)


def test_each_on_its_own_beat(tmp_path: Path) -> None:
    fast, slow = Counting("fast", 1.0), Counting("slow", 2.5)
    windowed = Counting("windowed", 4.0, window=1.5)
    bench, advisor = advise(tmp_path, fast, slow, windowed)
    run_for(bench, advisor, 9.25)
    assert fast.collected == pytest.approx(list(range(10)))
    assert slow.collected == pytest.approx([0.0, 2.5, 5.0, 7.5])
    assert windowed.begun == pytest.approx([0.0, 4.0, 8.0])
    assert windowed.collected == pytest.approx([1.5, 5.5])
    assert [one.stopped for one in (fast, slow, windowed)] == [1, 1, 1]


def test_beats_that_were_missed_are_left_out(tmp_path: Path) -> None:
    fast = Counting("fast", 1.0)
    bench, advisor = advise(tmp_path, fast)
    advisor.step()
    bench.clock.advance(3.7)
    advisor.step()
    assert advisor.next_due_seconds == pytest.approx(4.0)


def test_one_that_fails_tells_once_and_the_others_go_on(tmp_path: Path) -> None:
    bad, good = Counting("bad", 1.0), Counting("good", 1.0)
    bench, advisor = advise(tmp_path, bad, good)
    with logged("koord.supervision", logging.INFO) as records:
        for error in (
            KoordError("/x", "f", 1, "2"), KoordError("/x", "f", 1, "2"), ValueError("a\nb"),
            ZeroDivisionError(), None, None, ValueError("a\nb"),
        ):  # fmt: skip
            bad.error = error
            advisor.step()
            bench.clock.advance(1.0)
    told = [(r.getMessage(), getattr(r, "koord_fields")) for r in records]  # noqa: B009
    assert len(told) == 5
    assert told[1] == ("failed", {"part": "collector bad", "error": "ValueError: a\\nb"})
    assert told[2] == ("failed", {"part": "collector bad", "error": "ZeroDivisionError"})
    assert told[3] == ("works again", {"part": "collector bad"})
    assert len(good.collected) == len(bad.collected) == 7
    standing = advisor.collector_states["bad"]
    assert (standing.good_rounds, standing.failed_rounds) == (2, 5)


def test_injected_faults_cost_that_collectors_rounds_only(tmp_path: Path) -> None:
    first, second = Counting("first", 1.0), Counting("second", 1.0)
    bench, advisor = advise(tmp_path, first, second)
    plan = FaultPlan(3, {"metrics.collect.first": FaultRule(0.5, OSError(5, "I/O error"))})
    with inject(plan):
        run_for(bench, advisor, 200.0)
    lost = plan.failed["metrics.collect.first"]
    assert 0 < lost < 200
    assert len(first.collected) == len(second.collected) - lost
    assert advisor.collector_states["first"].failed_rounds == lost
    assert advisor.collector_states["second"].failed_rounds == 0


def test_what_may_hang_is_not_called_again_before_it_came_back(tmp_path: Path) -> None:
    stuck, fast = Counting("stuck", 1.0, blocking=True), Counting("fast", 1.0)

    async def hangs(work: Callable[[], Samples]) -> Samples:
        await asyncio.sleep(3.5)
        return work()

    bench, advisor = advise(tmp_path, stuck, fast, aside=hangs)
    run_for(bench, advisor, 8.5)
    assert len(fast.collected) >= 12  # ready only once the stuck one came back
    # Begun at 0, 4, 8 and back 3.5 seconds later; a round is that of its beginning.
    assert stuck.collected == pytest.approx([0.0, 4.0, 8.0])


def test_a_thread_brings_samples_home(tmp_path: Path) -> None:
    class Threaded(Counting):
        def collect(self, now: CollectionRound) -> Samples:
            samples = super().collect(now)
            samples.one(MetricKind.NODE_CPU_USAGE, 2.0)
            return samples

    blocking = Threaded("threaded", 1.0, blocking=True)
    bench, advisor = advise(tmp_path, blocking, aside=asyncio.to_thread)

    async def one_round() -> None:
        task = asyncio.create_task(advisor.run())
        await advisor.wait_ready()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(one_round())
    assert bench.one(MetricKind.NODE_CPU_USAGE) == 2.0
    blocking.error = KoordError("nvml", "", "gone", "a driver")
    bench.clock.advance(1.0)
    _, failing = advise(tmp_path / "again", blocking, aside=asyncio.to_thread)

    async def one_failure() -> None:
        task = asyncio.create_task(failing.run())
        await failing.wait_ready()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(one_failure())
    assert failing.collector_states["threaded"].error == "nvml: got 'gone', expected a driver"


HOURS = 2
ROUND_SECONDS = 10.0
LIVING = 6


def test_hours_of_pods_that_come_and_go(tmp_path: Path) -> None:
    """Series, bytes and descriptors follow what lives, not what ever lived."""
    settings = MetricsOptions(used=ROUND_SECONDS, page_cache=True, pressure=30.0)
    kinds = (
        NodeCollector, PodsCollector, ThrottlingCollector, PageCacheCollector, PressureCollector,
    )  # fmt: skip
    tree = MachineTree(tmp_path)
    bench = Bench(tree, [kind(settings) for kind in kinds], settings, kept_max=400)
    living: list[PodState] = []
    before = descriptors()
    most_series = most_bytes = most_descriptors = 0
    for minute in range(HOURS * 60):
        pod = pod_of(tree, pod_json(f"p{minute}", 2))
        lay_out(tree, pod, Group(10**9, 1 << 20, pages={0: 1}, pressure=(0.5, 0.1)))
        living.append(pod)
        if len(living) > LIVING:
            gone = living.pop(0)
            for directory in (*(c.directory for c in gone.containers), gone.directory):
                tree.remove(directory)
        bench.set_pods(*living)
        for _ in range(int(60 / ROUND_SECONDS)):
            bench.step(ROUND_SECONDS)
        assert bench.errors() == {}
        most_series = max(most_series, bench.cache.series)
        most_bytes = max(most_bytes, bench.cache.bytes)
        most_descriptors = max(most_descriptors, bench.groups.kept)
        if minute == 4 * LIVING:
            settled = most_series, most_bytes, most_descriptors
    series, size, kept = settled
    assert (most_series, most_bytes) == (series, size)
    assert most_descriptors <= kept + 100  # those of a crowd that is gone
    assert len(bench.last(MetricKind.POD_CPU_USAGE)) == LIVING
    bench.advisor.stop()
    assert descriptors() <= before + 1
