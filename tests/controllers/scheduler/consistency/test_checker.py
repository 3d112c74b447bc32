# SPDX-License-Identifier: Apache-2.0
"""Planted differences between cache and API are found, each under its kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.recounting import by_row
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.cycles.test_scheduling_loop import bound, points
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import scheduler

Plant = Callable[[Scheduler, LocalViews], None]


def _requested(made: Scheduler, views: LocalViews) -> None:
    made.world.table.requested[0, 0] += 1


def _forgotten(made: Scheduler, views: LocalViews) -> None:
    info = made.world.accounts.get("uid-there")
    assert info is not None
    made.world.accounts.drop(info)


def _elsewhere(made: Scheduler, views: LocalViews) -> None:
    info = made.world.accounts.get("uid-there")
    assert info is not None
    made.world.accounts.drop(info)
    made.world.accounts.add(1, info)


def _unqueued(made: Scheduler, views: LocalViews) -> None:
    made.queue.delete("uid-waits")


def _unheard_node(made: Scheduler, views: LocalViews) -> None:
    # Into the informer's cache behind its listeners' back.
    views.view(Node)._objects.put("c", node("c"))


def _unheard_end(made: Scheduler, views: LocalViews) -> None:
    views.view(Pod)._objects.remove("default/there")


@pytest.mark.parametrize(
    ("plant", "kind", "name"),
    [
        (_requested, "requested", "a"),
        (_forgotten, "pod", "default/there"),
        (_elsewhere, "pod", "default/there"),
        (_unqueued, "queue", "default/waits"),
        (_unheard_node, "node", "c"),
        (_unheard_end, "pod", "default/there"),
    ],
)
def test_a_planted_difference_is_found(plant: Plant, kind: str, name: str) -> None:
    async def run() -> None:
        pods = [bound(pod("there", cpu="1"), "a"), pod("waits", cpu="1")]
        made, views, _, _ = scheduler(points(), [node("a"), node("b")], pods)
        assert not any(checker.drift(made).values())
        plant(made, views)
        found = checker.drift(made)
        assert found.pop(kind) == [name]
        assert not any(found.values())

    asyncio.run(run())


class Tally(Plugin):
    """An outside plugin that keeps an account of nodes, and has one wrong."""

    name = "Tally"
    account = "tallies"

    def recount(self) -> Iterator[str | None]:
        """Node by node."""
        return by_row(self.handle.table, lambda row: row == 1)


def test_outside_plugins_take_part() -> None:
    async def run() -> None:
        made, _, _, _ = scheduler(points(), [node("a"), node("b"), node("c")])
        made.plugins.append(Tally(None, made.world))
        assert checker.drift(made)["tallies"] == ["b"]
        assert await checker.look(made) == checker.drift(made)

    asyncio.run(run())


def test_pods_that_nobody_need_count_are_no_difference() -> None:
    async def run() -> None:
        strange = pod("strange", cpu="1", schedulerName="another")
        nowhere = bound(pod("nowhere", cpu="1"), "gone")
        made, _, _, _ = scheduler(points(), [node("a")], [strange, nowhere])
        assert not any(checker.drift(made).values())

    asyncio.run(run())
