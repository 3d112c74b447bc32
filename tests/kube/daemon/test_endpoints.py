# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from koord.base.metrics import registry
from koord.kube.daemon.endpoints import Endpoints
from koord.kube.daemon.missing_kinds import ReadinessNote


def answers(endpoints: Endpoints, *paths: str) -> list[tuple[int, str]]:
    """What the paths answer, asked over a socket."""

    async def ask() -> list[tuple[int, str]]:
        await endpoints.start()
        try:
            found = []
            async with aiohttp.ClientSession() as session:
                for path in paths:
                    async with session.get(endpoints.url + path) as response:
                        found.append((response.status, await response.text()))
            return found
        finally:
            await endpoints.stop()

    return asyncio.run(ask())


def test_a_healthy_component_says_ok_and_more_if_asked() -> None:
    endpoints = Endpoints(live={"loop": lambda: True}, ready={"informers": lambda: None})
    assert answers(endpoints, "/healthz", "/livez?verbose", "/readyz?verbose", "/livez/loop") == [
        (200, "ok"),
        (200, "[+]ping ok\n[+]loop ok\nlivez check passed\n"),
        (200, "[+]ping ok\n[+]loop ok\n[+]informers ok\nreadyz check passed\n"),
        (200, "ok"),
    ]


def test_a_check_that_passes_may_say_something() -> None:
    endpoints = Endpoints(ready={"informers": lambda: ReadinessNote("not served: NodeMetric")})
    paths = ("/readyz", "/readyz?verbose", "/readyz/informers")
    assert answers(endpoints, *paths) == [
        (200, "ok"),
        (200, "[+]ping ok\n[+]informers ok: not served: NodeMetric\nreadyz check passed\n"),
        (200, "ok: not served: NodeMetric"),
    ]


def test_a_failing_check_is_named_and_can_be_left_out() -> None:
    async def never() -> bool:
        raise LookupError("secret")

    endpoints = Endpoints(ready={"synced": lambda: "not yet", "never": never})
    found = answers(
        endpoints, "/livez", "/readyz", "/readyz?exclude=synced&exclude=never&exclude=what&verbose",
        "/readyz/synced", "/readyz/what",
    )  # fmt: skip
    assert found == [
        (200, "ok"),
        (500, "[+]ping ok\n[-]synced failed\n[-]never failed\nreadyz check failed\n"),
        (
            200,
            "[+]ping ok\n[+]synced excluded: ok\n[+]never excluded: ok\n"
            "warn: what cannot be excluded: no such check\nreadyz check passed\n",
        ),
        (500, "synced failed\n"),
        (404, "404 page not found\n"),
    ]


def test_metrics_of_all_registries_are_served_and_brought_up_to_date() -> None:
    first, second = registry(), registry()
    first.counter("koord_a_total", "A.").inc()
    gauge = second.gauge("koord_b", "B.")
    endpoints = Endpoints([first, second], before_metrics=[lambda: gauge.set(7)])
    ((status, text),) = answers(endpoints, "/metrics")
    assert status == 200
    assert "koord_a_total 1.0" in text
    assert "koord_b 7.0" in text


def test_other_routes_are_served_too_and_unknown_ones_are_404() -> None:
    async def explain(request: web.Request) -> web.Response:
        return web.json_response({"why": request.match_info["name"]})

    endpoints = Endpoints(routes={"/explain/pod/{name}": explain})
    found = answers(endpoints, "/explain/pod/web-0", "/what")
    assert found[0] == (200, '{"why": "web-0"}')
    assert found[1][0] == 404


def test_it_listens_on_loopback_alone_and_not_after_the_end() -> None:
    endpoints = Endpoints()
    with pytest.raises(RuntimeError):
        _ = endpoints.url

    async def whole() -> Any:
        task = asyncio.create_task(endpoints.run())
        while True:
            await asyncio.sleep(0)
            try:
                url = endpoints.url
                break
            except RuntimeError:
                continue
        task.cancel()
        await asyncio.wait({task})
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(url)
        return url

    assert asyncio.run(whole()).startswith("http://127.0.0.1:")


def test_an_address_that_is_taken_is_an_os_error() -> None:
    async def whole() -> None:
        first = Endpoints()
        await first.start()
        port = int(first.url.rpartition(":")[2])
        try:
            with pytest.raises(OSError, match="address already in use"):
                await Endpoints(port=port).start()
        finally:
            await first.stop()

    asyncio.run(whole())
