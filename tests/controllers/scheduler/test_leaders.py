# SPDX-License-Identifier: Apache-2.0
"""Two schedulers on one cluster: both follow it, the leader alone binds, the other takes over."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.kube.client import Client
from koord.kube.election import LeaderElector
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import pod


def contender(history: History, name: str) -> App:
    client = Client(history.plane.transport(), name, requests_per_second=None)
    registry = Registry(outside=[])
    wish = shipped(registry, "koord-scheduler", "default-scheduler")
    elector = LeaderElector(
        client, "koord-scheduler", "koordinator-system", name, clock=history.clock
    )
    return App(client, wish, history.clock, elector=elector, registry=registry)


async def bound(history: History) -> list[str]:
    return [p["metadata"]["name"] for p in await history.list("Pod") if p["spec"].get("nodeName")]


def test_the_leader_alone_binds_and_another_takes_over() -> None:
    async def run(history: History) -> None:
        await history.stop()
        await history.add_node(False)
        apps = [contender(history, name) for name in ("one", "two")]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(app.run()) for app in apps]
        for app in apps:
            await app.ready()
        await asyncio.sleep(5.0)
        leading = [app.leading for app in apps]
        assert sorted(leading) == [False, True]
        first = leading.index(True)
        await history.client.create(pod("p0", "plain", 1, {}))
        await asyncio.sleep(5.0)
        assert await bound(history) == ["p0"]
        assert apps[1 - first].scheduler.loop.decided == 0
        assert len(apps[1 - first].world.accounts.pods()) == 1, "the other follows"
        tasks[first].cancel()
        await asyncio.gather(tasks[first], return_exceptions=True)
        await history.client.create(pod("p1", "plain", 1, {}))
        await asyncio.sleep(60.0)
        assert await bound(history) == ["p0", "p1"]
        assert apps[1 - first].leading
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    live(run)
