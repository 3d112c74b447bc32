# SPDX-License-Identifier: Apache-2.0
"""The Service by which a cluster knows its API server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import Request

CORE = "/api/v1/namespaces/default"
SERVICE, ENDPOINTS = f"{CORE}/services/kubernetes", f"{CORE}/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"


async def asked(plane: EmbeddedControlPlane, method: str, path: str) -> dict[str, Any]:
    answer = await plane.transport().send(Request(method, path))
    return {**json.loads(answer.body), "code": answer.status}


async def ports(plane: EmbeddedControlPlane) -> list[int]:
    """Where each of the three says that the server listens."""
    service = await asked(plane, "GET", SERVICE)
    endpoints = await asked(plane, "GET", ENDPOINTS)
    endpoint_slice = await asked(plane, "GET", SLICE)
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]
    assert endpoint_slice["endpoints"][0]["addresses"] == ["127.0.0.1"]
    return [
        service["spec"]["ports"][0]["targetPort"],
        endpoints["subsets"][0]["ports"][0]["port"],
        endpoint_slice["ports"][0]["port"],
    ]


def test_it_leads_to_the_server_also_after_a_start_on_another_port(tmp_path: Path) -> None:
    async def run() -> tuple[str, list[int], int]:
        async with EmbeddedControlPlane(Options(port=0, data=tmp_path)) as plane:
            uid = (await asked(plane, "GET", SERVICE))["metadata"]["uid"]
            version = plane.store.version
            return uid, await ports(plane), version

    async def again(port: int) -> tuple[str, list[int], int]:
        async with EmbeddedControlPlane(Options(port=port, data=tmp_path)) as plane:
            assert await ports(plane) == [URL(plane.url).port] * 3
            uid = (await asked(plane, "GET", SERVICE))["metadata"]["uid"]
            return uid, await ports(plane), plane.store.version

    first = asyncio.run(run())
    assert len(set(first[1])) == 1
    same = asyncio.run(again(first[1][0]))
    assert same == first, "nothing is written where nothing has changed"
    other = asyncio.run(again(0))
    assert other[0] == first[0]


@pytest.mark.parametrize("path", [SERVICE, ENDPOINTS, SLICE])
def test_it_comes_back_when_it_is_deleted(path: str) -> None:
    async def run() -> None:
        async with EmbeddedControlPlane(Options(port=0, insecure=True)) as plane:
            before = await asked(plane, "GET", path)
            assert (await asked(plane, "DELETE", path))["code"] == 200
            async with asyncio.timeout(10):
                while (after := await asked(plane, "GET", path))["code"] != 200:
                    await asyncio.sleep(0.001)
            assert after["metadata"]["uid"] != before["metadata"]["uid"]
            assert await ports(plane) == [URL(plane.url).port] * 3

    asyncio.run(run())


def test_what_is_reached_in_process_alone_has_none() -> None:
    async def run() -> int:
        async with EmbeddedControlPlane(Options(port=None)) as plane:
            return int((await asked(plane, "GET", SERVICE))["code"])

    assert asyncio.run(run()) == 404
