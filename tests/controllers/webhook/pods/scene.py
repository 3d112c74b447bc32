# SPDX-License-Identifier: Apache-2.0
"""Handlers among objects that are put in by hand, and requests about pods."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.meta import ObjectMeta
from koord.base.clock import VirtualClock
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.webhook.framework.admission_request import (
    AdmissionRequest,
    Operation,
    Requester,
    ResourceName,
)
from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies
from koord.controllers.webhook.options import WebhookOptions
from koord.kube.errors import ApiError, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
    from koord.kube.client import Client

Document = dict[str, Any]
BATCH = PriorityClass(metadata=ObjectMeta(name="koord-batch"), value=5500)


PODS = ResourceName("", "pods")


class Server:
    """An API server that has what is put in, and counts what it is asked for."""

    def __init__(self) -> None:
        self.objects: dict[tuple[type, str], Any] = {}
        self.asked: list[str] = []
        self.is_silent = False

    async def get(self, kind: type, name: str) -> Any:
        self.asked.append(f"{kind.__name__} {name}")
        if self.is_silent:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        found = self.objects.get((kind, name))
        if found is None:
            raise ApiError(Status(code=404, reason="NotFound", message="not found"))
        return found


class Scene:
    """What handlers work with."""

    def __init__(self, gates: tuple[str, ...] = (), **options: Any) -> None:
        self.views, self.server, self.clock = LocalViews(), Server(), VirtualClock()
        self.events: list[tuple[str, ...]] = []
        self.dependencies = HandlerDependencies(
            cast("Client", self.server),
            cast("InformerViews", self.views),
            feature_gates(",".join(f"{name}=true" for name in gates)),
            WebhookOptions(**options),
            self.clock,
            self._event,
        )

    def _event(self, item: Any, kind: str, reason: str, message: str) -> None:
        self.events.append((item.metadata.name, kind, reason, message))

    def put(self, *items: Any) -> None:
        for item in items:
            self.views.view(type(item)).put(item)

    def put_namespace(self, name: str = "d", **labels: str) -> None:
        self.put(Namespace(metadata=ObjectMeta(name=name, labels=labels)))


def request(
    document: Document | None,
    old: Document | None = None,
    *,
    resource: ResourceName = PODS,
    kind: str = "Pod",
    username: str = "someone",
    operation: Operation | None = None,
    uid: str = "1",
) -> AdmissionRequest:
    """A request about an object of namespace ``d``."""
    chosen = operation or (Operation.CREATE if old is None else Operation.UPDATE)
    return AdmissionRequest(
        uid, chosen, kind, resource, namespace="d", name="p",
        requester=Requester(username),
        raw_object=None if document is None else json.dumps(document).encode(),
        raw_old_object=None if old is None else json.dumps(old).encode(),
    )  # fmt: skip


def admitted(handler: Handler, asked: AdmissionRequest) -> AdmissionDecision:
    """The answer, waited for if need be."""
    found = handler.admit(asked)
    if hasattr(found, "__await__"):
        return asyncio.run(_waited(cast("Awaitable[AdmissionDecision]", found)))
    return cast("AdmissionDecision", found)


async def _waited(found: Awaitable[AdmissionDecision]) -> AdmissionDecision:
    return await found
