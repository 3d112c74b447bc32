# SPDX-License-Identifier: Apache-2.0
"""An embedded API server that a test attacks, and what becomes of others meanwhile."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from yarl import URL

from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import JSON, Request, Response

CONFIGS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# For whatever must end: long enough for any machine, and never waited for in full.
END_SECONDS = 30.0

Document = dict[str, Any]


class Target:
    """A running server and the ways to ask it."""

    def __init__(self, plane: EmbeddedControlPlane) -> None:
        self.plane = plane
        self._transport = plane.transport()
        config = json.loads(plane.kubeconfig)
        self.token = config["users"][0]["user"].get("token", "")

    @property
    def port(self) -> int:
        """Where it listens."""
        port = URL(self.plane.url).port
        assert port is not None
        return port

    def trust(self) -> ssl.SSLContext:
        """Of a client that knows the server's authority."""
        return ssl.create_default_context(cadata=self.plane.authority.decode())

    async def ask(
        self, method: str, path: str, body: object = None, content: str = JSON, **query: str
    ) -> Response:
        """The answer to a request; a body that is not bytes goes as JSON."""
        data = body if isinstance(body, bytes) else b"" if body is None else encoded(body)
        return await self._transport.send(
            Request(method, path, tuple(query.items()), data, content)
        )

    async def others_asked(self, work: Awaitable[Response]) -> tuple[Response, int]:
        """The answer to a request, and how many small ones are answered one by one meanwhile."""
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)
        answered = 0
        while not task.done():
            assert (await self.ask("GET", "/api/v1/namespaces/default")).status == 200
            answered += 1
            await asyncio.sleep(0.001)
        return await task, answered

    async def raw(
        self, sent: bytes, tls: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection over which some bytes went."""
        context = self.trust() if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def exchange(self, sent: bytes) -> bytes:
        """All that comes back for some bytes until the server hangs up."""
        reader, writer = await self.raw(sent)
        try:
            async with asyncio.timeout(END_SECONDS):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def attack(test: Callable[[Target], Awaitable[None]], **options: Any) -> None:
    """Runs a test against a fresh server on plain HTTP, or as the options say."""

    async def run() -> None:
        chosen = Options(**{"port": 0, "insecure": True, "seed": 1, **options})
        async with EmbeddedControlPlane(chosen) as plane:
            await test(Target(plane))

    asyncio.run(run())


def encoded(value: object) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def said(answer: Response) -> str:
    """The message of a refusal."""
    message: str = json.loads(answer.body)["message"]
    return message


def config_map(name: str, data: Mapping[str, str] | None = None) -> Document:
    """A ConfigMap."""
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A POST as it is on the wire, after which the server is to hang up."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
