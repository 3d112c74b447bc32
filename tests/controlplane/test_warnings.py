# SPDX-License-Identifier: Apache-2.0
"""Who creates what nothing acts on is warned, as kube-apiserver warns: RFC 7234's code 299."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from typing import Any

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import Request, Response, Transport

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
NOTICE = 'Ingress is only stored: no "ingress" runs here'
NOTICES = {"ingresses.networking.k8s.io": NOTICE}
APPLY = "application/apply-patch+yaml"


def ingress(name: str) -> dict[str, Any]:
    backend = {"service": {"name": "shop", "port": {"number": 80}}}
    head = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name}}
    return {**head, "spec": {"defaultBackend": backend}}


async def send(transport: Transport, method: str, path: str, body: Any = None, **parts: Any) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    path, _, query = path.partition("?")
    pairs = tuple(part.partition("=")[::2] for part in query.split("&") if part)
    answer = await transport.send(Request(method, path, pairs, data, **parts))
    assert isinstance(answer, Response)
    return answer


def test_a_creation_is_warned_of_and_nothing_else() -> None:
    async def run() -> None:
        async with EmbeddedControlPlane(Options(seed=1, notices=NOTICES)) as plane:
            way = plane.transport()
            tried = await send(way, "POST", f"{INGRESSES}?dryRun=All", ingress("a"))
            assert (tried.status, tried.warnings) == (201, (NOTICE,))
            made = await send(way, "POST", INGRESSES, ingress("a"))
            assert (made.status, made.warnings) == (201, (NOTICE,))
            taken = await send(way, "POST", INGRESSES, ingress("a"))
            assert (taken.status, taken.warnings) == (409, ())
            path = f"{INGRESSES}/a"
            stored = json.loads((await send(way, "GET", path)).body)
            stored["metadata"]["labels"] = {"a": "b"}
            for method in ("PUT", "GET", "DELETE"):
                body = stored if method == "PUT" else None
                answer = await send(way, method, path, body)
                assert (answer.status, answer.warnings) == (200, ()), method
            for status, warnings in ((201, (NOTICE,)), (200, ())):
                applied = await send(
                    way, "PATCH", f"{INGRESSES}/b?fieldManager=me", ingress("b"),
                    content_type=APPLY,
                )  # fmt: skip
                assert (applied.status, applied.warnings) == (status, warnings)
            other = {"metadata": {"name": "c"}}
            answer = await send(way, "POST", "/api/v1/namespaces/default/configmaps", other)
            assert (answer.status, answer.warnings) == (201, ())

    asyncio.run(run())


def test_the_header_is_that_of_a_real_server() -> None:
    def ask(port: int, authority: bytes, token: str, path: str, body: object) -> list[str]:
        tls = ssl.create_default_context(cadata=authority.decode())
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls)
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), head)
        answer = connection.getresponse()
        assert answer.status == 201
        connection.close()
        return answer.headers.get_all("Warning") or []

    async def run() -> None:
        async with EmbeddedControlPlane(Options(seed=1, port=0, notices=NOTICES)) as plane:
            config = json.loads(plane.kubeconfig)
            token = config["users"][0]["user"]["token"]
            port = int(plane.url.rpartition(":")[2])
            told = await asyncio.to_thread(
                ask, port, plane.authority, token, INGRESSES, ingress("a")
            )
            assert told == [r'299 - "Ingress is only stored: no \"ingress\" runs here"']
            endpoints = {"metadata": {"name": "e"}}
            path = "/api/v1/namespaces/default/endpoints"
            told = await asyncio.to_thread(ask, port, plane.authority, token, path, endpoints)
            # As a kube-apiserver 1.35 sent it.
            assert told == [
                '299 - "v1 Endpoints is deprecated in v1.33+; '
                'use discovery.k8s.io/v1 EndpointSlice"'
            ]

    asyncio.run(run())
