# SPDX-License-Identifier: Apache-2.0
"""Tasks of evictions: the plain walk, and histories in which never more goes than is needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.agent.strategies.eviction.tasks import (
    REQUESTED,
    USED,
    EvictionTask,
    EvictionVictim,
    execute,
    merged,
    remaining,
)
from koord.agent.strategies.memoryevict.strategy import MemoryEvict
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.slo_strategies import ResourceThresholdStrategy
from koord.base.errors import KoordError
from tests.agent.strategies.fakes import FakeEvictor, FakeExecutor, FakeReader
from tests.agent.strategies.nodes import node, pod, tick
from tests.agent.strategies.options import gates
from tests.models import agent_strategies_evict as model

_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 10), max_size=2)
_PODS = {name: pod(name, qos="BE") for name in "abcdef"}


@st.composite
def _rounds(draw):
    names = draw(st.lists(st.sampled_from(sorted(_PODS)), unique=True))
    amounts = {name: {t: draw(_AMOUNTS) for t in (USED, REQUESTED)} for name in names}
    tasks = []
    for at in range(draw(st.integers(0, 3))):
        victims = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        wanted = draw(
            st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(-2, 15), max_size=2)
        )
        tasks.append((f"F{at}", draw(st.sampled_from([USED, REQUESTED])), wanted, victims))
    gone = draw(st.sets(st.sampled_from(sorted(_PODS))))
    refused = draw(st.sets(st.sampled_from(sorted(_PODS))))
    return tasks, amounts, gone, refused


@given(_rounds())
def test_execution_is_the_model_and_never_more_than_needed(drawn):
    tasks, amounts, gone, refused = drawn
    evictor = FakeEvictor(frozenset(_PODS[name].uid for name in refused))
    evictor.fates = {_PODS[name].uid: EvictionState.GONE for name in gone}
    given_ = [
        EvictionTask(
            feature, target, wanted, [EvictionVictim(_PODS[n], amounts[n]) for n in victims]
        )
        for feature, target, wanted, victims in tasks
    ]
    outcome = execute(given_, evictor)
    plain = [(t, w, [(n, amounts[n]) for n in victims]) for _, t, w, victims in tasks]
    expected, totals = model.walk(plain, gone, refused)
    started = [n for n in evictor.evicted if n not in refused]
    assert started == expected
    assert {t: dict(r) for t, r in outcome.released.items()} == totals
    for task in given_:
        assert outcome.short.get(task.feature, {}) == remaining(task, outcome.released)
    _no_victim_too_many(tasks, amounts, gone, started)


def _no_victim_too_many(tasks, amounts, gone, started):
    """Without its last victim at least one task would not have had enough."""
    if not started:
        return
    walked = {n for _, _, _, victims in tasks for n in victims}
    counted = [n for n in walked if n in gone or n in started[:-1]]
    short = False
    for _, target, wanted, victims in tasks:
        done = {r: sum(amounts[n][target].get(r, 0) for n in counted) for r in ("cpu", "memory")}
        short |= started[-1] in victims and any(
            amount > 0 and amount > done[r] for r, amount in wanted.items()
        )
    # Pods that went before and would have been walked later count here and not in the round.
    assert short or any(n in gone for n in walked)


def test_two_tasks_of_one_target_take_the_most_of_a_resource():
    parts = [(USED, {"cpu": 3}), (REQUESTED, {"cpu": 5}), (USED, {"cpu": 4, "memory": 1})]
    assert merged(parts) == {USED: {"cpu": 4, "memory": 1}, REQUESTED: {"cpu": 5}}


_GIB = 2**30


class EvictionHistory(RuleBasedStateMachine):
    """A node whose memory fills and empties, and the strategy that looks after it."""

    def __init__(self) -> None:
        super().__init__()
        self.evictor = FakeEvictor()
        self.hands = Actuators(FakeExecutor(), self.evictor)
        options = StrategyOptions(gates=gates("BEMemoryEvict"), memory_evict_cool_seconds=4.0)
        self.strategy = MemoryEvict(options)
        self.pods = {name: pod(name, qos="BE", priority=5000 + i) for i, name in enumerate("abcd")}
        self.usage = dict.fromkeys(self.pods, 2)
        self.now = 1000.0
        self.last = float("-inf")
        self.services = 4

    @rule(gib=st.integers(0, 14))
    def services_use(self, gib):
        self.services = gib

    @rule(name=st.sampled_from("abcd"), gib=st.integers(0, 6))
    def pod_uses(self, name, gib):
        self.usage[name] = gib

    @rule()
    def evicted_pods_end(self):
        for uid in [
            uid for uid, fate in self.evictor.fates.items() if fate is EvictionState.UNDER_WAY
        ]:
            self.usage[uid.removeprefix("uid-")] = 0
            del self.evictor.fates[uid]

    @rule(passed=st.integers(0, 6), stale=st.sampled_from([None, None, None, "pods", "metric"]))
    def look(self, passed, stale):
        self.now += passed
        at = int(self.now * 1000)
        reader = FakeReader()
        used = (self.services + sum(self.usage.values())) * _GIB
        sampled = at - (10_000 if stale == "metric" else 0)
        reader.add(MetricKind.NODE_MEMORY_USAGE, sampled, used)
        for name, gib in self.usage.items():
            reader.add(MetricKind.POD_MEMORY_USAGE, at, gib * _GIB, f"uid-{name}")
        config = ResourceThresholdStrategy(enable=True, memory_evict_threshold_percent=70)
        view = tick(
            None,  # type: ignore[arg-type]
            reader,
            pods=list(self.pods.values()),
            of=node({"cpu": "8", "memory": "20Gi"}),
            slo=NodeSLOSpec(resource_used_threshold_with_be=config),
            now_seconds=self.now,
            now_ms=at,
            age_seconds=100.0 if stale == "pods" else 1.0,
        )
        before = len(self.evictor.calls)
        pending = [u for u, f in self.evictor.fates.items() if f is EvictionState.UNDER_WAY]
        if stale == "pods" and self.now - self.last >= 4.0:
            with pytest.raises(KoordError, match="pods: age"):
                self.strategy.run(view, self.hands)
        else:
            self.strategy.run(view, self.hands)
        new = self.evictor.evicted[before:]
        self._check(new, pending, stale, used)

    def _check(self, new, pending, stale, used):
        due = 20 * _GIB * (used * 100 // (20 * _GIB) - 68) // 100
        if stale or self.now - self.last < 4.0 or used * 100 // (20 * _GIB) < 70:
            assert new == []
            return
        order = sorted(self.pods, key=lambda n: self.pods[n].priority)
        left = due
        expected = []
        for name in order:
            if left <= 0:
                break
            if f"uid-{name}" not in pending:
                expected.append(name)
            left -= self.usage[name] * _GIB
        assert new == expected
        if new:
            self.last = self.now


TestEvictionHistory = EvictionHistory.TestCase
