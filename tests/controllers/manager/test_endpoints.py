# SPDX-License-Identifier: Apache-2.0
"""What is served: metrics in their parts, readiness, explanations by who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp

from koord.base.errors import Code, KoordError
from koord.controllers.manager.endpoints import ManagerEndpoints
from koord.controllers.manager.metrics import ManagerMetrics

Get = Callable[[str], Awaitable[tuple[int, str]]]


def served(story: Callable[[ManagerEndpoints, ManagerMetrics, Get], Awaitable[None]]) -> None:
    async def run() -> None:
        metrics = ManagerMetrics()
        endpoints = ManagerEndpoints(metrics, "127.0.0.1", 0)
        await endpoints.start()
        try:
            async with aiohttp.ClientSession(endpoints.url) as session:

                async def get(path: str) -> tuple[int, str]:
                    async with session.get(path) as answer:
                        return answer.status, await answer.text()

                await story(endpoints, metrics, get)
        finally:
            await endpoints.stop()

    asyncio.run(run())


def test_each_series_is_where_it_belongs() -> None:
    series = {
        "/internal-metrics": "koordinator_manager_is_leader",
        "/external-metrics": "slo_controller_nodeslo_reconcile_count",
        "/metrics": "workqueue_depth",
    }

    async def story(endpoints: ManagerEndpoints, metrics: ManagerMetrics, get: Get) -> None:
        metrics.counted(series["/external-metrics"], "x").failed("update")
        metrics.leads(True)
        for path in series:
            status, text = await get(path)
            assert status == 200
            assert {name for name in series.values() if name in text} == {series[path]}
        _, text = await get("/all-metrics")
        assert all(name in text for name in series.values())
        assert "koordinator_manager_is_leader 1.0" in text
        # Without the suffix that the text format gives to counters: dashboards know this name.
        assert 'reconcile_count{reason="update",status="failed"} 1.0' in text

    served(story)


def test_it_is_ready_once_all_objects_are_known() -> None:
    async def story(endpoints: ManagerEndpoints, metrics: ManagerMetrics, get: Get) -> None:
        assert (await get("/readyz"))[0] == 500
        assert (await get("/healthz"))[0] == 200
        said: list[str | None] = ["not listed yet: Node"]
        app: Any = SimpleNamespace(views=SimpleNamespace(readiness=lambda: said[0]))
        endpoints.attach(app)
        assert (await get("/readyz"))[0] == 500
        said[0] = None
        assert (await get("/readyz"))[0] == 200

    served(story)


def test_the_leader_explains() -> None:
    def explain(name: str) -> Any:
        if name == "wrong":
            raise KoordError("node", "name", name, "another")
        if name == "gone":
            raise KoordError("node", "", name, "a node", Code.NOT_FOUND)
        return {"a": {"offers": 3}}[name]

    async def story(endpoints: ManagerEndpoints, metrics: ManagerMetrics, get: Get) -> None:
        path = "/apis/v1/explain/nodes"
        assert (await get(f"{path}/a"))[0] == 503
        dependencies = SimpleNamespace(explanations={"nodes": explain})
        app: Any = SimpleNamespace(leading=False, dependencies=dependencies)
        endpoints.attach(app)
        assert (await get(f"{path}/a"))[0] == 503, "only the leader knows"
        app.leading = True
        assert await get(f"{path}/a") == (200, '{"offers":3}')
        for name, status in (("b", 404), ("gone", 404), ("wrong", 400)):
            assert (await get(f"{path}/{name}"))[0] == status
        status, text = await get("/apis/v1/explain/pods/a")
        assert status == 404
        assert "explains no pods" in text

    served(story)
