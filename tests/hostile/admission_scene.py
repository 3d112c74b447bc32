# SPDX-License-Identifier: Apache-2.0
"""All handlers of admission over TLS, with every gate on, among objects that tests put in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from koord.base.clock import SystemClock
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.webhook.all_reviews import review_service
from koord.controllers.webhook.framework.handler import HandlerDependencies
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS, Webhook
from koord.controllers.webhook.options import WebhookOptions
from koord.controllers.webhook.server.https_server import HTTPSServer
from koord.controllers.webhook.server.review_service import ReviewService
from koord.controllers.webhook.server.serving_certificate import ServingCertificate
from koord.kube.errors import ApiError, Status
from tests.controllers.webhook.reviews import TLSScene, credentials

Document = dict[str, Any]
_OFF = ("DisableDefaultQuota", "DisableExtendedResourceSpec", "DisableDeviceResourceSpec")
_GATES = ",".join(
    f"{gate.name}=true" for gate in feature_gates().known() if gate.effect and gate.name not in _OFF
)


class _EmptyServer:
    """An API server that has nothing."""

    dry_run = None

    async def get(self, *_: Any, **__: Any) -> Any:
        raise ApiError(Status(code=404, reason="NotFound", message="not found"))

    async def list(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[])

    patch = get


class Admission:
    """All of it without a socket.

    Attributes:
        views: what it knows.
        service: answers.
    """

    def __init__(self, **options: Any) -> None:
        self.views, clock = LocalViews(), SystemClock()
        self.given = HandlerDependencies(
            cast("Any", _EmptyServer()), cast("Any", self.views), feature_gates(_GATES),
            WebhookOptions(**options), clock, lambda *_: None, registry(), Supervisor("webhook"),
        )  # fmt: skip
        self.service: ReviewService = review_service(self.given)

    def put(self, *items: Any) -> None:
        for item in items:
            self.views.view(type(item)).put(item)

    async def answer(self, path: str, body: bytes) -> Document:
        """The response, or what is said where there is none."""
        found = await self.service.answer(path, body)
        if found.status != 200:
            return {"status": found.status, "text": found.body.decode()}
        response: Document = json.loads(found.body)["response"]
        return response


def asked(webhook: Webhook, new: Any, old: Any = None, operation: str = "CREATE") -> bytes:
    """A review of a webhook's own resource."""
    resource = webhook.resource
    named = {"group": resource.group, "version": webhook.version, "resource": resource.resource}
    request = {
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Anything"}, "resource": named,
        "name": "a", "namespace": "default", "operation": operation,
        "userInfo": {"username": "tenant", "groups": []}, "object": new, "oldObject": old,
    }  # fmt: skip
    if resource.subresource:
        request["subResource"] = resource.subresource
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review).encode()


def webhook_of(path: str) -> Webhook:
    """The first entry of the table at a path."""
    return next(each for each in WEBHOOKS if each.path == path)


def served_over_tls(script: Callable[[TLSScene], Awaitable[None]], admission: Admission) -> None:
    """Runs a script beside it."""

    async def inner() -> None:
        certificate = ServingCertificate()
        authority, key, chain = credentials()
        certificate.show(chain, key)
        service = admission.service
        server = HTTPSServer(certificate.context, service.paths, lambda: None, "127.0.0.1")
        server.serve(service)
        await server.start()
        scene = TLSScene(server, authority, admission.given.supervisor)
        try:
            await script(scene)
        finally:
            await scene.session.close()
            await server.stop()

    asyncio.run(inner())
