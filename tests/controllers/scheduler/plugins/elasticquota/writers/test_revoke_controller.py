# SPDX-License-Identifier: Apache-2.0
"""Over-use: when pods go, and what becomes of those that cannot."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import GroupKey
from koord.controllers.scheduler.plugins.elasticquota.writers.revoke_controller import (
    OveruseMonitor,
)
from tests.controllers.scheduler.plugins.elasticquota.harness import Cluster
from tests.controllers.scheduler.plugins.elasticquota.objects import cluster, pod, quota
from tests.controllers.scheduler.pods import node


def names(pods: list[PodInfo]) -> list[str]:
    return [each.pod.metadata.name for each in pods]


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
        GroupKey("", "a"): ["p2", "p1", "p0"]
    }
    # Once told, the group has its time again.
    assert monitor.tick(200.0) == {}
    kept.unlist("claim")
    assert monitor.tick(300.0) == {}
    kept.list_pod(pod("claim", "b", cpu="3"))
    assert monitor.tick(420.0) == {}
    assert list(monitor.tick(420.1)) == [GroupKey("", "a")]


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
