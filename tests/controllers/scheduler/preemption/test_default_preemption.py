# SPDX-License-Identifier: Apache-2.0
"""DefaultPreemption: who may, where, what is said and written."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.preemption.evaluator import PreemptionEvaluator
from koord.controllers.scheduler.preemption.victims import VictimPolicy
from koord.kube.errors import ApiError, Status
from tests.controllers.scheduler.pods import info, node, pod
from tests.controllers.scheduler.preemption.world import Cluster, Room, SlowRoom
from tests.kube.harness import run_virtual


def low(name: str, cpu: str = "2", priority: int = 0, **more: Any) -> PodInfo:
    return info(pod(name, cpu=cpu, priority=priority, **more))


def high(name: str = "p", cpu: str = "2", priority: int = 10, **more: Any) -> PodInfo:
    return info(pod(name, cpu=cpu, priority=priority, **more))


def started(second: int) -> dict[str, Any]:
    return {"startTime": f"2026-01-01T00:00:{second:02d}Z"}


def names(result: Any) -> list[str]:
    return [victim.pod.metadata.name for victim in result.victims]


def test_the_fewest_and_least_important_go() -> None:
    cluster = Cluster(node("a", cpu="6"))
    for name, priority in (("x", 1), ("y", 3), ("z", 2)):
        cluster.put("a", low(name, priority=priority))
    result = cluster.preempt(high())
    assert (result.node, result.success, names(result)) == ("a", True, ["x"])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([("a1", 5, 1)], [("b1", 4, 1), ("b2", 4, 1)]),  # the lower highest victim
        ([("a1", 4, 1), ("a2", 3, 1)], [("b1", 4, 1), ("b2", 2, 1)]),  # the lower sum
        ([("a1", 4, 1)], [("b1", 4, 2)]),  # the later start
    ],
)
def test_which_node_is_cheaper(left: Any, right: Any) -> None:
    cluster = Cluster(node("a", cpu="4"), node("b", cpu="4"))
    for where, pods in (("a", left), ("b", right)):
        cpu = str(4 // len(pods))
        for name, priority, second in pods:
            cluster.put(where, low(name, cpu, priority, status=started(second)))
    assert cluster.preempt(high(cpu="4")).node == "b"


def test_equal_nodes_go_by_name() -> None:
    cluster = Cluster(node("b", cpu="2"), node("a", cpu="2"))
    cluster.put("b", low("x"))
    cluster.put("a", low("y"))
    assert cluster.preempt(high()).node == "a"


def test_no_annotation_saves_a_pod_of_lower_priority() -> None:
    cluster = Cluster(node("a", cpu="2"))
    cluster.put("a", low("x", annotations={"scheduling.koordinator.sh/reserve-pod": "true"}))
    assert names(cluster.preempt(high())) == ["x"]


def test_a_budget_is_kept_where_it_can_be() -> None:
    cluster = Cluster(node("a", cpu="2"), node("b", cpu="2"))
    cluster.put("a", low("x", labels={"app": "web"}, priority=1))
    cluster.put("b", low("y", priority=5))
    cluster.budget("web", 0)
    assert cluster.preempt(high()).node == "b"
    cluster.budget("web", 1)
    assert cluster.preempt(high("q")).node == "a"


def test_a_violated_budget_does_not_stop_the_last_resort() -> None:
    cluster = Cluster(node("a", cpu="4"))
    cluster.put("a", low("x", labels={"app": "web"}, priority=1))
    cluster.put("a", low("y", labels={"app": "web"}, priority=2))
    cluster.budget("web", 0)
    # The most important of those is tried first when pods come back.
    assert names(cluster.preempt(high())) == ["x"]


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
    ],
)
def test_a_malformed_or_empty_selector_protects_nobody(selector: Any) -> None:
    cluster = Cluster(node("a", cpu="2"), node("b", cpu="2"))
    cluster.put("a", low("x", labels={"app": "web"}, priority=1))
    cluster.put("b", low("y", priority=5))
    cluster.budget("web", 0, selector=selector)
    assert cluster.preempt(high()).node == "a"


def test_never() -> None:
    cluster = Cluster(node("a", cpu="2"))
    cluster.put("a", low("x"))
    result = cluster.preempt(high(preemptionPolicy="Never"))
    assert not result.success
    assert result.message == "preemption: not eligible due to preemptionPolicy=Never."
    assert not result.clear


def test_messages() -> None:
    nodes = (node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="1"), node("d", cpu="3"))
    for room in (Room, SlowRoom):
        cluster = Cluster(*nodes, room=room)
        cluster.put("a", high("x", priority=20))
        cluster.put("b", high("y", cpu="1", priority=20))
        cluster.put("b", low("z", cpu="1"))
        cluster.put("d", high("w", cpu="3", priority=10))
        result = cluster.preempt(high())
        assert result.message == (
            "preemption: 0/4 nodes are available: 1 Insufficient cpu, "
            "1 Preemption is not helpful for scheduling, "
            "2 No preemption victims found for incoming pod."
        )
        assert result.clear
    assert Cluster().preempt(high()).message == "preemption: no nodes available"


def _dying(name: str, reason: str = "PreemptionByScheduler", **more: Any) -> PodInfo:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    made = low(name, status={"conditions": [condition]}, **more)
    made.pod.metadata.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    return made


def test_a_pod_waits_for_its_victims() -> None:
    cluster = Cluster(node("a", cpu="2"), node("b", cpu="2"))
    cluster.put("a", _dying("x"))
    cluster.put("b", low("y"))
    waiting = high()
    cluster.promised.by_row[0] = [waiting]
    result = cluster.preempt(waiting)
    expected = "preemption: not eligible due to a terminating pod on the nominated node."
    assert (result.message, result.clear) == (expected, False)
    cluster.promised.by_row[0] = []
    assert cluster.preempt(waiting).success


def test_a_victim_that_was_deleted_by_somebody_else_is_not_waited_for() -> None:
    cluster = Cluster(node("a", cpu="2"))
    cluster.put("a", _dying("x", reason="EvictionByEvictionAPI"))
    waiting = high()
    cluster.promised.by_row[0] = [waiting]
    assert cluster.preempt(waiting).success


def test_enough_candidates() -> None:
    cluster = Cluster(*(node(f"n{i}", cpu="2") for i in range(5)), percentage=10, absolute=2)
    for i in range(5):
        cluster.put(f"n{i}", low(f"x{i}", priority=9 - i))
    # The fifth node would be cheapest, but two candidates are enough.
    assert cluster.preempt(high()).node == "n1"


def test_lower_nominations_are_taken_back() -> None:
    cluster = Cluster(node("a", cpu="2"))
    cluster.put("a", low("x"))
    cluster.promised.by_row[0] = [low("promised", priority=5), high("above", cpu="0")]
    assert cluster.preempt(high()).success
    assert [p.pod.metadata.name for p in cluster.promised.by_row[0]] == ["above"]


def test_a_policy_of_its_own() -> None:
    class SameTeam(VictimPolicy):
        def may_preempt(self, pod: PodInfo, victim: PodInfo) -> bool:
            team = pod.shape.labels.get("team")
            return super().may_preempt(pod, victim) and victim.shape.labels.get("team") == team

        def admits(self, cycle: Cycle, row: int) -> Rejection | None:
            if cycle.table.name(row) == "a":
                return Rejection("Team", ("not here",))
            return None

    cluster = Cluster(node("a", cpu="2"), node("b", cpu="2"), node("c", cpu="2"))
    engine = PreemptionEvaluator("Team", cluster.world, SameTeam())
    for name in "abc":
        cluster.put(name, low(f"x{name}", labels={"team": "red" if name < "c" else "blue"}))
    decision = cluster.decider.decide(high(labels={"team": "red"}))
    assert decision.diagnosis is not None
    found = engine.find(decision.cycle, decision.diagnosis)
    assert [cluster.world.table.name(c.row) for c in found.candidates] == ["b"]
    assert {r: why.text for r, why in found.refused.items()} == {
        0: "not here",
        2: "No preemption victims found for incoming pod",
    }


class Quota:
    """A PreFilter that refuses while more than so many pods of a label count."""

    name = "Quota"

    def __init__(self) -> None:
        self.used = 0

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        return Rejection(self.name, ("over quota",)) if self.used >= 1 else None

    def pod_added(self, row: int, pod: PodInfo) -> None:
        self.used += "counted" in pod.shape.labels

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        self.used -= "counted" in pod.shape.labels


def test_a_pod_refused_as_a_whole() -> None:
    cluster = Cluster(node("a", cpu="2"), node("b", cpu="4"), filters=[Quota()])
    cluster.put("a", low("x"))
    cluster.put("b", low("y", labels={"counted": ""}))
    result = cluster.preempt(high())
    assert (result.node, names(result)) == ("b", ["y"])


class Client:
    """Takes writes down; refuses the deletion of pods named in ``failing``; has these pods."""

    def __init__(self, *there: PodInfo, **failing: int) -> None:
        self.writes: list[Any] = []
        self.failing = failing
        self.there = {each.pod.metadata.name: each.pod for each in there}

    async def get(self, kind: Any, name: str, namespace: str) -> Any:
        await asyncio.sleep(0)
        if name not in self.there:
            raise ApiError(Status(code=404, reason="NotFound", message="no"))
        return self.there[name]

    async def patch(
        self, kind: Any, name: str, patch: Any, namespace: str, subresource: str
    ) -> None:
        await asyncio.sleep(0)
        self.writes.append(("patch", namespace, name, subresource, patch.body.decode()))

    async def delete(self, kind: Any, name: str, namespace: str, uid: str) -> None:
        await asyncio.sleep(0)
        if name in self.failing:
            raise ApiError(Status(code=self.failing[name], reason="x", message="no"))
        self.writes.append(("delete", namespace, name, uid))


def test_what_is_written() -> None:
    async def run() -> None:
        client = Client()
        cluster = Cluster(node("a", cpu="4"), client=client)
        cluster.put("a", low("x"))
        cluster.put("a", low("y", priority=1))
        waiting = high(cpu="4")
        result = cluster.preempt(waiting)
        assert names(result) == ["y", "x"]
        gate = cluster.plugin.pre_enqueue(waiting)
        assert gate is not None
        assert gate.text == "waiting for the preemption for this pod to be finished"
        await cluster.plugin.engine.effects.settled()
        assert cluster.plugin.pre_enqueue(waiting) is None
        condition = (
            '{"metadata":{"uid":"uid-%s"},"status":{"conditions":[{"type":"DisruptionTarget",'
            '"status":"True","reason":"PreemptionByScheduler","message":"koord-scheduler: '
            'preempting to accommodate a higher priority pod",'
            '"lastTransitionTime":"1970-01-01T00:00:00Z"}]}}'
        )
        assert client.writes == [
            ("patch", "default", "y", "status", condition % "y"),
            ("delete", "default", "y", "uid-y"),
            ("patch", "default", "x", "status", condition % "x"),
            ("delete", "default", "x", "uid-x"),
        ]
        assert cluster.events == [
            ("y", "Preempted by pod uid-p on node a"),
            ("x", "Preempted by pod uid-p on node a"),
        ]

    asyncio.run(run())


def test_a_failed_preemption_wakes_the_pod_after_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(code: int, *there: PodInfo) -> list[list[str]]:
        cluster = Cluster(node("a", cpu="2"), client=Client(*there, x=code))
        woken: list[list[str]] = []
        monkeypatch.setattr(cluster.world, "activate", lambda uids: woken.append(list(uids)))
        cluster.put("a", low("x"))
        assert cluster.preempt(high()).success
        loop = asyncio.get_running_loop()
        begins = loop.time()
        await cluster.plugin.engine.effects.settled()
        found = [uids for uids in woken if uids]
        assert loop.time() - begins == (1.0 if found else 0.0)
        return found

    assert run_virtual(run(403)) == [["uid-p"]]
    assert "a preemption failed" in caplog.text
    assert run_virtual(run(404)) == []
    # A conflict says little: the pod may be there still, or be gone, or another one of its name.
    assert run_virtual(run(409, low("x"))) == [["uid-p"]]
    assert run_virtual(run(409)) == []
    assert run_virtual(run(409, low("x", uid="another"))) == []


def test_a_victim_that_waits_on_permit_is_given_up() -> None:
    cluster = Cluster(node("a", cpu="2"))
    rejected: list[Any] = []
    binder = SimpleNamespace(reject=lambda uid, why: rejected.append((uid, why.text)) or True)
    cluster.world.binder = binder  # type: ignore[assignment]
    cluster.put("a", low("x"))
    assert cluster.preempt(high()).success
    assert rejected == [("uid-x", "preempted")]
    assert cluster.events == [("x", "Preempted by pod uid-p on node a")]
