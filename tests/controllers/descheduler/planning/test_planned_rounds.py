# SPDX-License-Identifier: Apache-2.0
"""Plans that are carried out: in order, and what a refused step ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.base.clock import VirtualClock
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.planner import PlannedRounds
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, make, node, pod

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

AGE = {"maxPodLifeTimeSeconds": 100}
NODES = [node("n1", cpu="3"), node("n2", cpu="3"), node("n3", cpu="1"),
         node("n4", cpu="100m", labels={"side": "yes"})]  # fmt: skip


def _pod(name: str, place: str, cpu: str, age: int, **spec: Any) -> Pod:
    return pod(name, place, cpu=cpu, age=age, spec={"schedulerName": "koord-scheduler", **spec})


# The second fits n2 only once the first has left it, the third goes by itself.
PODS = [
    _pod("small", "n2", "1", 900), _pod("big", "n1", "2500m", 800),
    _pod("tiny", "n1", "1m", 700, nodeSelector={"side": "yes"}),
]  # fmt: skip


def _landing(snapshot: ClusterSnapshot) -> LandingNodes:
    registry = Registry()
    objects = [*snapshot.nodes, *snapshot.pods]
    return LandingNodes.of(objects, shipped(registry), registry, VirtualClock(NOW))


def _run(evictions: RecordedEvictions, **more: Any) -> tuple[PlannedRounds, list[Any]]:
    limits = {key: more.pop(key) for key in list(more) if key.startswith("max")}
    descheduling = make("deschedule", "PodLifeTime", AGE, evictions, **limits)
    rounds = PlannedRounds(descheduling, _landing, {"cpu": 80.0}, lambda: NOW, **more)
    record = asyncio.run(rounds.run(cluster(NODES, PODS)))
    return rounds, [(each.name, each.result, each.message) for each in record.outcomes]


def test_all_steps_in_their_order() -> None:
    evictions = RecordedEvictions()
    rounds, told = _run(evictions)
    assert evictions.names == ["small", "big", "tiny"]
    assert [step.requires for step in rounds.last.steps] == [[], [1], []]
    assert [result for _, result, _ in told] == ["evicted"] * 3


def test_a_refused_step_ends_those_that_depend_on_it_alone() -> None:
    evictions = RecordedEvictions(refuses={"small"})
    _, told = _run(evictions)
    assert evictions.names == ["tiny"]
    assert [(name, result) for name, result, _ in told] == [
        ("small", "failed"), ("big", "refused"), ("tiny", "evicted"),
    ]  # fmt: skip
    assert told[1][2] == "step 1, which makes room on n2, was not done"


def test_a_pod_that_has_gone_meanwhile_is_left_alone() -> None:
    evictions = RecordedEvictions()
    _, told = _run(evictions, is_current=lambda each: each.metadata.name != "small")
    assert evictions.names == ["tiny"]
    assert told[0] == ("small", "refused", "it is not on n2 any more")


def test_a_dry_run_plans_and_evicts_nothing() -> None:
    evictions = RecordedEvictions()
    rounds, told = _run(evictions, dry_run=True)
    assert evictions.names == []
    assert len(rounds.last.steps) == len(told) == 3


def test_limits_count_once() -> None:
    evictions = RecordedEvictions()
    rounds, told = _run(evictions, maxNoOfPodsToEvictTotal=2)
    assert evictions.names == ["small", "big"]
    assert sorted(result for _, result, _ in told) == ["evicted", "evicted", "refused"]
    assert [each.reason for each in rounds.last.staying] == ["Limit"]


def test_rounds_leave_no_trace_in_the_scheduler() -> None:
    snapshot = cluster(NODES, PODS)
    landing = _landing(snapshot)
    descheduling = make("deschedule", "PodLifeTime", AGE, RecordedEvictions())
    rounds = PlannedRounds(descheduling, lambda _: landing, {}, lambda: NOW, dry_run=True)
    first = asyncio.run(rounds.plan(snapshot))
    assert first == asyncio.run(rounds.plan(snapshot))
    assert len(first.steps) == 3
