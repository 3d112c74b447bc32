# SPDX-License-Identifier: Apache-2.0
"""Admission beside an API server, embedded or real: called over TLS by webhook configurations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from koord.api import Node, Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.base.clock import SystemClock
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.app import WebhookApp
from koord.controllers.webhook.certificates.certificate_keeper import MUTATING, VALIDATING
from koord.controllers.webhook.certificates.certificate_store import SECRET
from koord.controllers.webhook.certificates.webhook_configuration import TEMPLATE
from koord.controllers.webhook.environment import WebhookEnvironment
from koord.controllers.webhook.framework.admission_decision import ALLOWED, AdmissionDecision
from koord.controllers.webhook.framework.admission_request import AdmissionRequest
from koord.controllers.webhook.framework.default_configurations import (
    MUTATING_NAME,
    NAMESPACE,
    VALIDATING_NAME,
    default_configurations,
)
from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies
from koord.controllers.webhook.framework.webhook_table import (
    MUTATE_NODE_STATUS,
    MUTATE_POD,
    VALIDATE_CONFIG_MAP,
    VALIDATE_NODE,
    VALIDATE_POD,
    VALIDATE_POD_BINDING,
)
from koord.controllers.webhook.informer_views import admission_views
from koord.controllers.webhook.options import WebhookOptions
from koord.kube.client import Client
from koord.kube.errors import ApiError
from tests.controllers.webhook.reviews import LabelHandler, RefusingHandler

Document = dict[str, Any]


class AllowingHandler:
    """Lets everything in; where it is not reached nothing does."""

    def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        del request
        return ALLOWED


Makers = Mapping[str, Callable[[HandlerDependencies], Handler]]
HANDLERS: Makers = {
    MUTATE_POD: lambda dependencies: LabelHandler(),
    VALIDATE_POD: lambda dependencies: RefusingHandler(),
    # By gates that are off.
    **dict.fromkeys(
        (VALIDATE_POD_BINDING, MUTATE_NODE_STATUS, VALIDATE_NODE, VALIDATE_CONFIG_MAP),
        lambda dependencies: AllowingHandler(),
    ),
}
PATIENCE_SECONDS = 60.0


class AdmissionScene:
    """An API server as its administrator sees it, and replicas of admission.

    Args:
        client: the administrator's.
        own: admission's; None for the same.
    """

    def __init__(
        self,
        client: Client,
        environment: WebhookEnvironment | None = None,
        own: Client | None = None,
    ) -> None:
        self.client, self._own = client, own or client
        # By URL, since nothing routes to a service here; kept in the Secret all the same.
        self.environment = environment or WebhookEnvironment(
            host="127.0.0.1", listen="127.0.0.1", port=0, writer="secret"
        )

    async def install(self, failure_policy: str = "Ignore", template: bool = False) -> None:
        """The namespace and both configurations, as they are deployed.

        Args:
            failure_policy: of all entries.
            template: whether they name their entries in an annotation already, as the chart's do.
        """
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self.client.apply(namespace, force=True)
        documents = default_configurations(failure_policy=failure_policy)
        for kind, document in zip((MUTATING, VALIDATING), documents, strict=True):
            if template:
                entries = json.dumps(document["webhooks"])
                document["metadata"].setdefault("annotations", {})[TEMPLATE] = entries
            await self.client.create(document, kind=kind)

    async def clear(self) -> None:
        """Takes away what scripts make, until the API server calls nobody any more."""
        named = (
            (MUTATING, MUTATING_NAME, ""),
            (VALIDATING, VALIDATING_NAME, ""),
            (SECRET, self.environment.secret, NAMESPACE),
        )
        for kind, name, namespace in named:
            with _unless_missing():
                await self.client.delete(kind, name, namespace)
        # Of a configuration that it follows by a watch, and whose webhook may not be missed.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self._made("cleared"):
                await asyncio.sleep(0.05)
        for pod in (await self.client.list(Pod)).items:
            where = pod.metadata.namespace
            await self.client.delete(Pod, pod.metadata.name, where, grace_period_seconds=0)
        await self.client.delete_collection(Node)
        with _unless_missing():  # as its kind may be
            await self.client.delete_collection(ClusterColocationProfile)

    async def _made(self, name: str) -> bool:
        try:
            await self.create_pod(name)
        except ApiError as error:
            if "failed calling webhook" not in str(error):
                raise
            return False
        return True

    @asynccontextmanager
    async def replica(
        self,
        leading: bool = True,
        gates: str = "",
        koords: bool = False,
        options: WebhookOptions | None = None,
        makers: Makers = HANDLERS,
        **environment: Any,
    ) -> AsyncIterator[WebhookApp]:
        """One that is ready; with koord's own handlers, or with two for tests."""
        metrics, clock = registry(), SystemClock()
        supervisor = Supervisor("webhook", metrics, clock)
        views = admission_views(self._own, metrics, supervisor, feature_gates(gates))
        dependencies = HandlerDependencies(
            self._own, views, feature_gates(gates), options or WebhookOptions(), clock,
            lambda *_: None, metrics, supervisor,
        )  # fmt: skip
        where = replace(self.environment, **environment)
        app = WebhookApp(dependencies, where, lambda: leading, None if koords else makers)
        running = [asyncio.create_task(views.run()), asyncio.create_task(app.run())]
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await app.ready()
            yield app
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def configuration(self, mutating: bool = True) -> Document:
        """One of both as it is."""
        kind, name = (MUTATING, MUTATING_NAME) if mutating else (VALIDATING, VALIDATING_NAME)
        return await self.client.get(kind, name)

    async def create_pod(self, name: str, namespace: str = "default", **labels: str) -> Document:
        """The pod as it was stored."""
        pod: Document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        }
        return await self.client.create(pod)

    async def until_called(self, prefix: str) -> None:
        """Waits until the API server calls: it follows configurations by a watch."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            number = 0
            while True:
                number += 1
                made = await self.create_pod(f"{prefix}-{number}")
                if "koordinator.sh/qosClass" in made["metadata"].get("labels", {}):
                    return
                await asyncio.sleep(0.05)


@contextmanager
def _unless_missing() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.http_status != HTTPStatus.NOT_FOUND:
            raise


Script = Callable[[AdmissionScene], Awaitable[None]]
Play = Callable[[Script], None]
"""Runs a script against an API server that nobody else uses meanwhile."""
