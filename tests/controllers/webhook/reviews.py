# SPDX-License-Identifier: Apache-2.0
"""Reviews as an API server sends them, handlers to ask, and a server that answers over TLS."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import aiohttp

from koord.base.clock import SystemClock
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor
from koord.controllers.webhook.certificates.key_material import new_authority, new_certificate
from koord.controllers.webhook.framework.admission_decision import (
    ALLOWED,
    AdmissionDecision,
    denied,
)
from koord.controllers.webhook.framework.admission_request import AdmissionRequest
from koord.controllers.webhook.framework.webhook_table import MUTATE_POD, VALIDATE_POD, WEBHOOKS
from koord.controllers.webhook.server.https_server import HTTPSServer
from koord.controllers.webhook.server.metrics import WebhookMetrics
from koord.controllers.webhook.server.review_service import ReviewService, served_paths
from koord.controllers.webhook.server.serving_certificate import ServingCertificate

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


def review(
    pod: Any = POD, version: str = "v1", resource: str = "pods", subresource: str = "", **more: Any
) -> dict[str, Any]:
    """An AdmissionReview that asks about a pod."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": resource},
            **({"subResource": subresource} if subresource else {}),
            "name": "a",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            **more,
        },
    }


class LabelHandler:
    """Sets a label; fails where a pod asks for that."""

    def __init__(self) -> None:
        self.asked: list[AdmissionRequest] = []

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        self.asked.append(request)
        document = request.document()
        labels = document["metadata"].setdefault("labels", {})
        if labels.get("fail"):
            raise RuntimeError(f"asked to fail: {labels['fail']}")
        labels["koordinator.sh/qosClass"] = "BE"
        return AdmissionDecision(document=document, warnings=("the class is BE",))


class RefusingHandler:
    """Refuses pods with the label ``bad``, after a moment."""

    async def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        await asyncio.sleep(0)
        bad = request.document()["metadata"].get("labels", {}).get("bad")
        if not bad:
            return ALLOWED
        return denied([KoordError(request.title, "metadata.labels[bad]", bad, "no such label")])


class TLSScene:
    """A server on loopback, and a client that trusts it."""

    def __init__(self, server: HTTPSServer, authority: bytes, supervisor: Supervisor) -> None:
        self.server, self.supervisor = server, supervisor
        self.tls = ssl.create_default_context(cadata=authority.decode())
        self.session = aiohttp.ClientSession()
        self.metrics: WebhookMetrics

    def url(self, path: str) -> str:
        return f"https://localhost:{self.server.port}{path}"

    async def post(self, path: str, body: Any, **more: Any) -> tuple[int, bytes]:
        """Status and body of the answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **more}
        async with self.session.post(
            self.url(path), data=io.BytesIO(data), headers=headers, ssl=self.tls
        ) as answer:
            return answer.status, await answer.read()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of the answer."""
        async with self.session.get(self.url(path), ssl=self.tls) as answer:
            return answer.status, await answer.read()

    async def review(self, path: str = MUTATE_POD, **arguments: Any) -> dict[str, Any]:
        """The response inside the review that answers."""
        status, body = await self.post(path, review(**arguments))
        assert status == 200, body
        answered = json.loads(body)
        assert answered["kind"] == "AdmissionReview"
        response: dict[str, Any] = answered["response"]
        return response


@cache
def credentials() -> tuple[bytes, bytes, bytes]:
    """An authority's certificate, a server's key and its certificate; made once."""
    now = datetime.now(UTC)
    authority_key, authority = new_authority(now)
    return (authority, *new_certificate(authority_key, authority, "localhost", now))


def patch_of(response: dict[str, Any]) -> Any:
    """The operations of a response."""
    return json.loads(base64.b64decode(response["patch"]))


def served(script: Callable[[TLSScene], Awaitable[None]], *, serving: bool = True) -> None:
    """Runs a script beside a server with two handlers."""

    async def inner() -> None:
        certificate = ServingCertificate()
        authority, key, chain = credentials()
        certificate.show(chain, key)
        supervisor, metrics = Supervisor("webhook"), WebhookMetrics()
        paths = served_paths(
            {MUTATE_POD: LabelHandler(), VALIDATE_POD: RefusingHandler()}, WEBHOOKS
        )
        server = HTTPSServer(certificate.context, paths, lambda: None, "127.0.0.1")
        if serving:
            server.serve(ReviewService(paths, metrics, supervisor, SystemClock()))
        await server.start()
        scene = TLSScene(server, authority, supervisor)
        scene.metrics = metrics
        try:
            await script(scene)
        finally:
            await scene.session.close()
            await server.stop()

    asyncio.run(inner())
