# SPDX-License-Identifier: Apache-2.0
"""Over-use: which pods go, when, and what becomes of those that cannot."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.groups import Place
from koord.controllers.scheduler.plugins.elasticquota.revoke import (
    Held,
    OveruseMonitor,
    exceeds,
    importance,
    revoked,
)
from tests.controllers.scheduler.plugins.elasticquota.harness import Cluster
from tests.controllers.scheduler.plugins.elasticquota.objects import cluster, pod, quota
from tests.controllers.scheduler.pods import node


def names(pods: list[PodInfo]) -> list[str]:
    return [each.pod.metadata.name for each in pods]


def held(name: str, priority: int, cpu: int, memory: int = 0, **more: Any) -> Held:
    amounts = {"cpu": cpu, "memory": memory} if memory else {"cpu": cpu}
    return Held(pod(name, "a", priority=priority), amounts, **more)


EXAMPLE = [held("p1", 10, 20), held("p2", 9, 10, 1), held("p3", 8, 20), held("p4", 7, 40)]


def test_the_worked_example() -> None:
    """docs/reference/quota-scheduling.md#revocation."""
    used = {"cpu": 90, "memory": 1}
    assert names(revoked(used, {"cpu": 50, "memory": 0}, EXAMPLE)) == ["p2", "p4"]
    assert names(revoked(used, {"cpu": -1, "memory": 0}, EXAMPLE)) == ["p4", "p3", "p2", "p1"]
    assert revoked(used, {"cpu": 90, "memory": 1}, EXAMPLE) == []


def test_what_a_victim_does_not_ask_for_still_counts() -> None:
    """Koordinator forgets a resource over its limit once a victim without it was taken."""
    pods = [held("m", 9, 1, 5), held("c", 1, 5)]
    assert names(revoked({"cpu": 6, "memory": 5}, {"cpu": 3, "memory": 2}, pods)) == ["m", "c"]


def test_pods_that_must_stay_are_passed_over() -> None:
    pods = [held("p", 1, 4, preemptible=False), held("q", 2, 4), held("r", 3, 4)]
    assert names(revoked({"cpu": 12}, {"cpu": 8}, pods)) == ["q"]
    assert names(revoked({"cpu": 12}, {"cpu": 2}, pods)) == ["q", "r"]


amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9))


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), amounts, st.booleans()), max_size=7),
    limit=amounts, below=amounts,
)  # fmt: skip
def test_no_more_go_than_must(rows: Any, limit: Any, below: Any) -> None:
    """Against the rule in plain words: what stays fits, and nobody who went could have stayed."""
    pods = [Held(pod(f"p{i}", "a", priority=rank), asked, may)
            for i, (rank, asked, may) in enumerate(rows)]  # fmt: skip
    used = dict(below)
    for each in pods:
        for key, amount in each.amounts.items():
            used[key] = used.get(key, 0) + amount
    gone = {each.uid for each in revoked(used, limit, pods)}
    assert gone <= {each.pod.uid for each in pods if each.preemptible}

    def rest(stay: set[str]) -> dict[str, int]:
        left = dict(used)
        for each in pods:
            if each.pod.uid in gone - stay:
                for key, amount in each.amounts.items():
                    left[key] -= amount
        return left

    everybody = {each.pod.uid for each in pods if each.preemptible}
    if exceeds(rest(set()), limit):
        # All that may go is not enough; those who came last in the walk need not have been met.
        assert gone == everybody
        return
    for uid in gone:
        assert exceeds(rest({uid}), limit)


def test_the_more_important_pod_is_of_higher_priority_older_and_first_by_name() -> None:
    started = {"startTime": "2026-01-01T00:00:00Z"}
    pods = [
        pod("a", priority=9), pod("c", priority=1, status=started), pod("b", priority=1),
        pod("d", priority=1, status={"startTime": "2026-01-02T00:00:00Z"}),
    ]  # fmt: skip
    assert names(sorted(pods, key=importance)) == ["a", "c", "d", "b"]


def overused() -> tuple[Any, OveruseMonitor]:
    groups, kept, _ = cluster({"cpu": 4000})
    groups.put(quota("a", max={"cpu": "4"}))
    groups.put(quota("b", min={"cpu": "3"}, max={"cpu": "4"}))
    for i in range(4):
        kept.list_pod(pod(f"p{i}", "a", cpu="1", priority=i, nodeName="n"))
    return (groups, kept), OveruseMonitor(groups, kept, delay_seconds=120.0)


def test_a_group_has_its_time() -> None:
    (_, kept), monitor = overused()
    assert monitor.tick(0.0) == {}
    kept.list_pod(pod("claim", "b", cpu="3"))
    assert monitor.tick(1.0) == {}
    assert monitor.tick(120.0) == {}
    found = monitor.tick(120.1)
    assert {place: names(pods) for place, pods in found.items()} == {
        Place("", "a"): ["p2", "p1", "p0"]
    }
    # Once told, the group has its time again.
    assert monitor.tick(200.0) == {}
    kept.unlist("claim")
    assert monitor.tick(300.0) == {}
    kept.list_pod(pod("claim", "b", cpu="3"))
    assert monitor.tick(420.0) == {}
    assert list(monitor.tick(420.1)) == [Place("", "a")]


def test_a_group_that_comes_back_has_its_time() -> None:
    (groups, kept), monitor = overused()
    kept.list_pod(pod("claim", "b", cpu="3"))
    monitor.tick(0.0)
    groups.remove(quota("a"))
    monitor.tick(100.0)
    groups.put(quota("a", max={"cpu": "4"}))
    assert monitor.tick(130.0) == {}
    assert monitor.tick(251.0) != {}


class Evictions:
    """A client that refuses to evict some pods."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.done = refused, []

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        if name in self.refused:
            raise OSError(f"the budget of {name} has nothing left")
        self.done.append((namespace, name, uid))


def test_the_controller_evicts_what_it_may() -> None:
    async def run() -> None:
        client = Evictions("p1")
        made = Cluster(client, monitor_all_quotas=True)
        made.put(node("n", cpu="4"), quota("a", max={"cpu": "4"}))
        made.put(quota("b", min={"cpu": "3"}, max={"cpu": "4"}), pod("claim", "b", cpu="3"))
        made.put(*(pod(f"p{i}", "a", cpu="1", priority=i, nodeName="n") for i in range(4)))
        assert "quota revocation" in dict(made.quota.controllers())
        controller = made.quota.revoke_controller()
        assert await controller.step() == 0
        made.clock.advance(121.0)
        assert await controller.step() == 2
        assert client.done == [("default", "p2", "p2"), ("default", "p0", "p0")]
        made.clock.advance(121.0)
        assert await controller.step() == 2

    asyncio.run(run())


def test_it_runs_only_where_it_is_wanted() -> None:
    for wanted in ({}, {"monitor_all_quotas": True, "enable_runtime_quota": False}):
        assert "quota revocation" not in dict(Cluster(Evictions(), **wanted).quota.controllers())
    alone = Cluster(monitor_all_quotas=True)
    assert sorted(dict(alone.quota.controllers())) == ["quota metrics", "quota upkeep"]
