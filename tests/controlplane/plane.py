# SPDX-License-Identifier: Apache-2.0
"""The embedded server in a test: short ways to call it in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from koord.controlplane.admission import WebhookClient
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.transport.messages import Request, Response, Transport

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


class Api:
    """Calls in documents."""

    def __init__(self, transport: Transport, caller: WebhookClient) -> None:
        self._transport = transport
        self.caller = caller

    async def __call__(self, method: str, path: str, body: Document | None = None) -> Document:
        """The answer's document, with its HTTP status under ``code``."""
        response = await self.send(method, path, body)
        return {**json.loads(response.body), "code": response.status}

    async def send(self, method: str, path: str, body: Document | None = None) -> Response:
        path, _, text = path.partition("?")
        query = tuple(tuple(part.split("=", 1)) for part in text.split("&") if part)
        data = b"" if body is None else json.dumps(body).encode()
        return await self._transport.send(Request(method, path, query, data))

    async def made(self, path: str, body: Document) -> Document:
        """Creates an object that must be accepted."""
        answer = await self("POST", path, body)
        if answer["code"] != 201:  # not an assert: pytest cuts what it shows of one
            raise AssertionError(answer)
        return answer


def with_api(check: Callable[[Api], Awaitable[None]]) -> None:
    """Runs a check on a fresh server in this process."""

    async def run() -> None:
        caller = WebhookClient()
        async with EmbeddedControlPlane(Options(port=None, seed=1, webhooks=caller)) as plane:
            await check(Api(plane.transport(), caller))

    asyncio.run(run())


def pod(name: str = "web", **parts: Any) -> Document:
    """A small pod; ``labels`` and ``spec`` are merged in."""
    spec = {"containers": [{"name": "app", "image": "nginx:1"}], **parts.get("spec", {})}
    metadata = {"name": name, "labels": parts.get("labels", {})}
    return {"metadata": metadata, "spec": spec}
