# SPDX-License-Identifier: Apache-2.0
"""What the descheduler serves: by whom, for whom, and what of wrong questions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp

from koord.base.errors import Code, KoordError
from koord.controllers.descheduler.endpoints import DEFAULT_ROUNDS, DeschedulerEndpoints
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.metrics import DeschedulerMetrics
from koord.controllers.descheduler.round_history import RoundHistory
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from tests.controllers.descheduler.program_scene import configuration
from tests.controllers.descheduler.world import pod

Get = Callable[[str], Awaitable[tuple[int, Any]]]


def _served(story: Callable[[DeschedulerEndpoints, Get], Awaitable[None]]) -> None:
    async def run() -> None:
        endpoints = DeschedulerEndpoints(DeschedulerMetrics(), "127.0.0.1", 0)
        await endpoints.start()
        try:
            async with aiohttp.ClientSession(endpoints.url) as session:

                async def get(path: str) -> tuple[int, Any]:
                    async with session.get(path) as answer:
                        text = await answer.text()
                        return answer.status, json.loads(text) if _is_json(answer) else text

                await story(endpoints, get)
        finally:
            await endpoints.stop()

    asyncio.run(run())


def _is_json(answer: aiohttp.ClientResponse) -> bool:
    return answer.content_type == "application/json"


def _app(**more: Any) -> Any:
    """Stands in for a descheduler that leads."""

    def unknown(*names: str) -> Any:
        raise KoordError("POD", "", "/".join(names), "another", Code.NOT_FOUND)

    history = RoundHistory(False)
    for number in range(DEFAULT_ROUNDS + 5):
        record = RoundRecord()
        record.refused(pod(f"p{number}"), PodEviction("S", "why"), "the limit")
        history.add(record, ClusterSnapshot(()), float(number), 0.5)
    given = {
        "leading": True, "healthy": lambda: True, "history": history,
        "views": SimpleNamespace(readiness=lambda: None),
        "supervisor": SimpleNamespace(status=lambda: [{"name": "rounds"}]),
        "configuration": configuration("MarkedPods", maxNoOfPodsToEvictTotal=3),
        "explainer": SimpleNamespace(pod=unknown, node=lambda name: {"name": name}),
    }  # fmt: skip
    return SimpleNamespace(**given | more)


def test_before_and_after_it_is_there() -> None:
    async def story(endpoints: DeschedulerEndpoints, get: Get) -> None:
        assert (await get("/healthz"))[0] == 200
        assert (await get("/readyz"))[0] == 500
        assert (await get("/debug/rounds"))[0] == 503
        endpoints.attach(_app())
        assert (await get("/readyz"))[0] == 200
        endpoints.attach(_app(healthy=lambda: False))
        assert (await get("/healthz"))[0] == 500

    _served(story)


def test_who_does_not_lead_says_so_and_tells_of_itself_alone() -> None:
    async def story(endpoints: DeschedulerEndpoints, get: Get) -> None:
        endpoints.attach(_app(leading=False))
        for path in ("/debug/rounds", "/apis/v1/explain/nodes/a", "/apis/v1/explain/pods/a/b"):
            assert await get(path) == (503, {"message": "the instance is not leader"})
        assert await get("/debug/parts") == (200, [{"name": "rounds"}])
        status, config = await get("/configz")
        assert (status, config["maxNoOfPodsToEvictTotal"]) == (200, 3)
        assert config["profiles"][0]["plugins"]["deschedule"]["enabled"] == [{"name": "MarkedPods"}]

    _served(story)


def test_rounds_come_the_newest_first_and_as_many_as_are_asked_for() -> None:
    async def story(endpoints: DeschedulerEndpoints, get: Get) -> None:
        endpoints.attach(_app())
        _, told = await get("/debug/rounds")
        numbers = [each["number"] for each in told["rounds"]]
        assert numbers == list(range(DEFAULT_ROUNDS + 5, 5, -1))
        assert told["rounds"][0]["outcomes"][0]["message"] == "the limit"
        _, told = await get("/debug/rounds?limit=2")
        assert len(told["rounds"]) == 2
        for text in ("0", "-1", "x", "9" * 30):
            status, told = await get(f"/debug/rounds?limit={text}")
            assert (status, "a whole number above 0" in told["message"]) == (400, True)

    _served(story)


def test_what_nobody_knows_is_not_found() -> None:
    async def story(endpoints: DeschedulerEndpoints, get: Get) -> None:
        endpoints.attach(_app())
        status, told = await get("/apis/v1/explain/pods/a/b")
        assert (status, told["message"]) == (404, "POD: got 'a/b', expected another")
        assert await get("/apis/v1/explain/nodes/n") == (200, {"name": "n"})

    _served(story)
