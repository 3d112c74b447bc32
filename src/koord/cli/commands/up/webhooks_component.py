# SPDX-License-Identifier: Apache-2.0
"""Admission as a part of ``koord up``: called in the process, as configured on a cluster.

The API server finds koord's service registered with it and hands reviews over as they are, in the
place of JSON and TLS: so days in fast time have webhooks, too, and nothing waits for a certificate.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document
    from koord.cli.commands.up.cluster import UpCluster
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.server.review_service import ReviewService
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import Component

NAME = "koord-webhook"
ADMISSION_SERIES = "/admission/metrics"
"""Where the API server shows what admission counts: in the process it has no port of its own."""


def webhooks_component(cluster: UpCluster) -> Component:
    """Admission with the gates' defaults; in the cluster as deploy/ installs it."""
    from koord.kube.daemon.lifecycle import Component

    ready = asyncio.Event()

    async def life() -> None:
        from koord.controllers.webhook.all_reviews import review_call, review_service
        from koord.controlplane.nonresource import text_page

        given = _dependencies(cluster)
        service = review_service(given)
        cluster.plane.server.pages[ADMISSION_SERIES] = text_page(given.metrics.expose)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(given.supervisor.keep("informers", given.views.run))
            await given.views.synced()
            for name, run in given.loops.items():
                tasks.create_task(given.supervisor.keep(name, run), name=name)
            cluster.plane.options.webhooks.register_local(_service(), review_call(service))
            # Who installs them writes them; admission itself may not create them.
            await _configure(cluster.client("koord-up"), service)
            ready.set()

    return Component("webhooks", life, ready.wait)


def _service() -> str:
    from koord.controllers.webhook.framework.default_configurations import NAMESPACE, SERVICE

    return f"{NAMESPACE}/{SERVICE}"


def _dependencies(cluster: UpCluster) -> HandlerDependencies:
    from koord.base.metrics import registry
    from koord.base.supervision import Supervisor
    from koord.controllers.manager.feature_gates import feature_gates
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.informer_views import admission_views
    from koord.controllers.webhook.options import WebhookOptions

    client, metrics = cluster.client(NAME), registry()
    gates = feature_gates(cluster.manager_gates)
    supervisor = Supervisor("webhook", metrics, cluster.clock)
    return HandlerDependencies(
        client, admission_views(client, metrics, supervisor, gates), gates, WebhookOptions(),
        cluster.clock, cluster.recorder(NAME).event, metrics, supervisor,
    )  # fmt: skip


async def _configure(client: Client, service: ReviewService) -> None:
    """Both configurations, with the entries that have a handler."""
    from koord.controllers.webhook.certificates.certificate_keeper import MUTATING, VALIDATING
    from koord.controllers.webhook.certificates.webhook_configuration import (
        WebhookAddress,
        desired,
    )
    from koord.controllers.webhook.framework.default_configurations import (
        NAMESPACE,
        SERVICE,
        default_configurations,
    )

    address = WebhookAddress(SERVICE, NAMESPACE)
    for kind, document in zip((MUTATING, VALIDATING), default_configurations(), strict=True):
        await _write(client, kind, desired(document, service.paths, address, b""))


async def _write(client: Client, kind: Kind, document: Document) -> None:
    """Creates an object, or replaces what an earlier run left."""
    from koord.kube.errors import ApiError

    try:
        await client.create(document, kind=kind)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        there = await client.get(kind, document["metadata"]["name"])
        await client.update({**there, "webhooks": document["webhooks"]}, kind=kind)
