# SPDX-License-Identifier: Apache-2.0
"""What is served: the list of services is true, what is not there is 404, who does not lead 503."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp

from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.debug.flags import DebugFlags
from koord.controllers.scheduler.endpoints import SchedulerEndpoints
from tests.controllers.scheduler.explain.test_gang_forecast import member
from tests.controllers.scheduler.explain.test_what_if import shipped_scheduler
from tests.controllers.scheduler.pods import node, pod

Get = Callable[[str], Awaitable[tuple[int, Any]]]


def served(story: Callable[[SimpleNamespace, Get], Awaitable[None]]) -> None:
    async def run() -> None:
        made, _, explainer = shipped_scheduler([node("a"), node("b")], [pod("p", cpu="99")])
        made.loop.schedule(1.0)
        app: Any = SimpleNamespace(
            leading=True, scheduler=made, explainer=explainer, switches=DebugFlags(), views=None,
            drift=lambda: checker.look(made), supervisor=made.world.supervisor,
        )  # fmt: skip
        endpoints = SchedulerEndpoints(made.metrics, "127.0.0.1", 0)
        await endpoints.start()
        endpoints.attach(app)
        try:
            async with aiohttp.ClientSession(endpoints.url) as session:

                async def get(path: str) -> tuple[int, Any]:
                    async with session.get(path) as answer:
                        return answer.status, await answer.json()

                await story(app, get)
        finally:
            await endpoints.stop()

    asyncio.run(run())


# What stands for ``:name`` in the list of services where something is to be found.
THERE = {":namespace": "default", ":name": "a", ":node": "a"}


def test_every_service_that_is_listed_answers() -> None:
    async def story(app: SimpleNamespace, get: Get) -> None:
        status, services = await get("/apis/v1/__services__")
        assert status == 200
        paths = services["GET"]
        assert paths == sorted(paths)
        for wanted in (
            "/apis/v1/plugins/Coscheduling/gang/:namespace/:name",
            "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/:name",
            "/apis/v1/plugins/ElasticQuota/quotas/:name",
            "/apis/v1/plugins/LoadAwareScheduling/node/:name",
            "/apis/v1/plugins/NodeNUMAResource/nodes/:name",
            "/apis/v1/plugins/Reservation/nodeReservations/:node",
        ):
            assert wanted in paths
        for path in paths:
            parts = [THERE.get(part, part) for part in path.split("/")]
            status, answer = await get("/".join(parts))
            # Nobody made that gang, quota or pod; yet it is the plugin that says so.
            assert status == 200 or (status in (404, 500) and answer["message"]), path
            assert "has nothing at" not in str(answer), path
            assert "no such path" not in str(answer), path

    served(story)


def test_what_is_not_there() -> None:
    async def story(app: SimpleNamespace, get: Get) -> None:
        for path, message in (
            ("/apis/v1/nodes/nope", "cannot find node nope"),
            ("/apis/v1/explain/pods/default/nope", "cannot find pod default/nope"),
            ("/apis/v1/plugins/Nope/x", "no plugin Nope is enabled"),
            ("/apis/v1/plugins/ElasticQuota/quotas/nope", "cannot find quota nope"),
            ("/apis/v1/plugins/Coscheduling/gang/default/nope", "cannot find gang default/nope"),
            ("/apis/v1/plugins/NodeNUMAResource/nodes/nope", "cannot find node nope"),
            ("/apis/v1/plugins/LoadAwareScheduling/node/nope", "cannot find node nope"),
            ("/apis/v1/plugins/Reservation/nodeReservations/nope", "cannot find node nope"),
            ("/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/nope", "cannot find node nope"),
            (
                "/apis/v1/plugins/DeviceShare/x",
                "DeviceShare has nothing at 'x'; "
                "there is nodeDeviceSummaries, nodeDeviceSummaries/:name",
            ),
        ):
            assert await get(path) == (404, {"message": message})

    served(story)


def test_what_cannot_be_told_of_a_node_is_a_failure_of_the_server() -> None:
    async def story(app: SimpleNamespace, get: Get) -> None:
        path = "/apis/v1/plugins/NodeNUMAResource/nodes"
        assert await get(f"{path}/a") == (
            500,
            {
                "message": "Node a: cpuTopology: got None, "
                "expected a valid topology, see its NodeResourceTopology"
            },
        )
        ratio = "node.koordinator.sh/resource-amplification-ratio"
        app.scheduler.world.table.put(node("b", annotations={ratio: "much"}))
        status, answer = await get(f"{path}/b")
        assert status == 500
        assert answer["message"].startswith(f"Node b: annotations[{ratio}]: got ")

    served(story)


def test_who_does_not_lead_says_so() -> None:
    async def story(app: SimpleNamespace, get: Get) -> None:
        app.leading = False
        for path in ("/apis/v1/nodes/a", "/apis/v1/explain/pods/default/p", "/debug/queue"):
            assert await get(path) == (503, {"message": "the instance is not leader"})

    served(story)


def test_state_and_explanations() -> None:
    async def story(app: SimpleNamespace, get: Get) -> None:
        _, queue = await get("/debug/queue")
        assert queue["pending"]["unschedulable"] == 1
        assert queue["waiting"][0]["pod"] == "default/p"
        _, cache = await get("/debug/cache")
        assert sorted(cache["nodes"]) == ["a", "b"]
        status, drift = await get("/debug/drift")
        assert status == 200
        assert {"pod", "requested", "cpus", "devices", "quotas", "reservations"} < drift.keys()
        assert not any(drift.values())
        status, answer = await get("/apis/v1/explain/pods/default/p")
        assert (status, answer["state"], answer["nodes"]) == (200, "unschedulable", 2)
        assert answer["nearest"][0]["missing"] == {"cpu": 67000}
        _, found = await get("/apis/v1/nodes/a")
        assert found["remaining"]["cpu"] == 32000

    served(story)


def test_a_gang_is_explained_as_a_whole() -> None:
    async def story(app: SimpleNamespace, get: Get) -> None:
        for name, cpu in (("g0", "4"), ("g1", "40")):
            app.scheduler.world.view(Pod).put(member(name, 2, cpu=cpu))
        _, answer = await get("/apis/v1/explain/pods/default/g0")
        assert answer["fitting"] == 2
        assert answer["gang"] == {
            "members": [{"gang": "default/g", "pods": 2, "minimum": 2, "bound": 0, "held": 0}],
            "tried": 2, "placed": 1, "missing": 1, "first": "default/g1", "chosen": "a",
            "message": "0/2 nodes are available: 2 Insufficient cpu.",
        }  # fmt: skip

    served(story)
