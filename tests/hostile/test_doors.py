# SPDX-License-Identifier: Apache-2.0
"""Who gets an answer of a daemon's port, and who does not."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from koord.base.metrics import registry
from koord.kube.daemon.endpoints import Endpoints
from koord.kube.daemon.origins import is_foreign

OWN = "127.0.0.1:10251"


@pytest.mark.parametrize(
    ("method", "headers", "foreign"),
    [
        ("GET", {}, False),
        ("GET", {"Host": OWN}, False),
        ("GET", {"Host": "localhost"}, False),
        ("GET", {"Host": "[::1]:10251"}, False),
        ("GET", {"Host": "127.0.0.1.example.com"}, True),
        ("GET", {"Host": "[bad"}, True),
        ("GET", {"Host": ""}, True),
        ("GET", {"Host": OWN, "Origin": "http://localhost:3000"}, False),
        ("GET", {"Host": OWN, "Origin": "https://example.com"}, True),
        ("GET", {"Host": OWN, "Origin": "null"}, True),
        ("GET", {"Host": OWN, "Origin": ""}, True),
        ("PUT", {"Host": OWN}, False),
        ("PUT", {"Host": OWN, "Origin": f"http://{OWN}"}, False),
        ("PUT", {"Host": OWN, "Origin": "http://localhost:3000"}, True),
        ("PUT", {"Host": OWN, "Origin": "http://127.0.0.1"}, True),
        ("post", {"Host": OWN, "Origin": "http://[::1]:10251"}, True),
    ],
)
def test_a_page_of_somebody_elses_is_foreign(
    method: str, headers: dict[str, str], foreign: bool
) -> None:
    assert is_foreign(method, headers) is foreign


def asked(endpoints: Endpoints, *requests: tuple[str, str, dict[str, str]]) -> list[int]:
    """What the requests are answered with, sent over a socket."""

    async def ask() -> list[int]:
        await endpoints.start()
        try:
            found = []
            async with aiohttp.ClientSession() as session:
                for method, path, headers in requests:
                    async with session.request(
                        method, endpoints.url + path, headers=headers
                    ) as response:
                        found.append(response.status)
            return found
        finally:
            await endpoints.stop()

    return asyncio.run(ask())


class Daemon:
    """A daemon with one page that lists pods and one switch.

    Attributes:
        endpoints: its own.
        flags: how often the switch was set.
    """

    def __init__(self, host: str = "127.0.0.1", **options: Any) -> None:
        async def queue(request: web.Request) -> web.Response:
            return web.json_response(["default/web-0"])

        async def flag(request: web.Request) -> web.Response:
            self.flags += 1
            return web.json_response({})

        self.flags = 0
        self.endpoints = Endpoints(
            [registry()],
            routes={"/debug/queue": queue, "/all-metrics": queue},
            puts={"/debug/flags/{flag}": flag},
            host=host,
            **options,
        )


def test_a_rebound_name_and_another_origin_get_nothing_of_a_daemon() -> None:
    daemon = Daemon()
    rebound = {"Host": "rebound.example.com"}
    page = {"Origin": "http://localhost:3000"}
    assert (
        asked(
            daemon.endpoints,
            ("GET", "/debug/queue", rebound),
            ("GET", "/metrics", rebound),
            ("GET", "/what", rebound),
            ("PUT", "/debug/flags/s", rebound),
            ("PUT", "/debug/flags/s", page),
            ("PUT", "/debug/flags/s", {"Origin": "null"}),
        )
        == [403] * 6
    )
    assert daemon.flags == 0
    assert (
        asked(
            daemon.endpoints,
            ("GET", "/debug/queue", {}),
            ("GET", "/metrics", {"Host": "localhost"}),
            ("PUT", "/debug/flags/s", {}),
            ("GET", "/healthz", rebound),
            ("GET", "/readyz/ping", rebound),
            ("GET", "/livez?verbose", page),
        )
        == [200] * 6
    )
    assert daemon.flags == 1
