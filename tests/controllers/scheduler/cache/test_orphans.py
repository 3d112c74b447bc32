# SPDX-License-Identifier: Apache-2.0
"""Pods whose node goes while they are on their way to it: they count once, where the API says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec import structs

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.cycles.test_scheduling_loop import Gate, bound, points, settle
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import scheduler


def version(pod: Pod, number: int, **labels: str) -> Pod:
    """A later state of a pod."""
    meta = structs.replace(pod.metadata, resource_version=str(number), labels=labels)
    return structs.replace(pod, metadata=meta)


def counted(made: Scheduler) -> dict[str, list[str]]:
    """By node, the pods that count there."""
    table = made.world.table
    return {
        name: sorted(info.pod.metadata.name for info in table.pods[row].values())
        for name in table.names()
        if (row := table.row(name)) is not None
    }


def run(history: Coroutine[Any, Any, None]) -> None:
    asyncio.run(history)


async def on_its_way() -> tuple[Scheduler, LocalViews]:
    """Pod p is bound to node a as far as the scheduler knows; a has gone, and b has come."""
    made, views, _, _ = scheduler(points(), [node("a", cpu="4")], [version(pod("p", "2"), 1)])
    made.loop.schedule(1.0)
    await settle()
    assert sorted(made.feed.assumed) == ["uid-p"]
    views.view(Node).remove("a")
    views.view(Node).put(node("b", cpu="4"))
    return made, views


def test_a_change_that_comes_late_brings_no_bound_pod_back_to_the_queue() -> None:
    async def history() -> None:
        made, views = await on_its_way()
        views.view(Pod).put(version(pod("p", "2"), 2, noted="yes"))
        assert made.queue.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
        views.view(Pod).put(bound(version(pod("p", "2"), 3, noted="yes"), "a"))
        assert made.loop.schedule(1.0) == 0
        assert counted(made) == {"b": []}
        views.view(Node).put(node("a", cpu="4"))
        assert counted(made) == {"a": ["p"], "b": []}

    run(history())


def test_the_first_sight_of_a_bound_pod_ends_its_wait() -> None:
    """Whatever brought it into the queue."""

    async def history() -> None:
        made, views = await on_its_way()
        waits = version(pod("p", "2"), 2)
        made.queue.add(made.world.shapes.info(waits), "koord-scheduler")
        assert made.loop.schedule(1.0) == 1
        assert counted(made) == {"b": []}, "it has a place already"
        made.queue.add(made.world.shapes.info(waits), "koord-scheduler")
        views.view(Pod).put(bound(version(pod("p", "2"), 3), "a"))
        assert made.queue.get("uid-p") is None

    run(history())


def test_a_pod_that_was_bound_elsewhere_does_not_count_on_the_node_that_comes_back() -> None:
    async def history() -> None:
        made, views = await on_its_way()
        views.view(Pod).put(bound(version(pod("p", "2"), 2), "b"))
        views.view(Node).put(node("a", cpu="4"))
        assert counted(made) == {"a": [], "b": ["p"]}

    run(history())


def test_a_pod_that_went_unseen_does_not_count_on_the_node_that_comes_back() -> None:
    """Of what goes during a gap of the watch the last known state is told: without a node."""

    async def history() -> None:
        made, views = await on_its_way()
        views.view(Pod).remove("default/p")
        views.view(Node).put(node("a", cpu="4"))
        assert counted(made) == {"a": [], "b": []}
        assert made.world.orphans.uids() == {}

    run(history())


def test_nodes_that_go_leave_nothing_behind() -> None:
    async def history() -> None:
        there = bound(pod("p", "2"), "a")
        made, views, _, _ = scheduler(points(), [node("a"), node("b")], [there])
        for name in ("a", "b"):
            views.view(Node).remove(name)
        assert made.world.orphans.uids() == {"a": ["uid-p"]}
        views.view(Pod).remove("default/p")
        assert made.world.orphans.uids() == {}

    run(history())


def test_a_pod_whose_binding_fails_comes_back_as_it_is_by_then() -> None:
    async def history() -> None:
        made, views, _, _ = scheduler(points(Gate()), [node("a")], [version(pod("p", "2"), 1)])
        made.loop.schedule(1.0)
        await settle()
        views.view(Pod).put(version(pod("p", "2"), 2, owner="r"))
        assert counted(made) == {"a": ["p"]}, "it keeps its place until then"
        assert made.world.reject("uid-p", Rejection("Gate", ("closed",)))
        await settle()
        waits = made.queue.get("uid-p")
        assert waits is not None
        assert waits.info.pod.metadata.labels == {"owner": "r"}

    run(history())


def test_the_checker_finds_a_pod_that_counts_though_its_node_is_gone() -> None:
    async def history() -> None:
        made, views = await on_its_way()
        views.view(Pod).put(bound(version(pod("p", "2"), 2), "a"))
        assert not any(checker.drift(made).values())
        info = made.world.orphans.get("uid-p")
        row = made.world.table.row("b")
        assert info is not None
        assert row is not None
        made.world.orphans.drop("uid-p")
        made.world.accounts.add(row, info)
        assert checker.drift(made)["pod"] == ["default/p"]

    run(history())
