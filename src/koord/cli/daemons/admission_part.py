# SPDX-License-Identifier: Apache-2.0
"""Admission as a part of koord-manager: over the manager's caches, in every replica."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.controllers.manager.app import ManagerApp
    from koord.controllers.manager.options import ManagerOptions
    from koord.controllers.webhook.app import WebhookApp
    from koord.controllers.webhook.environment import WebhookEnvironment
    from koord.kube.client import Client
    from koord.kube.daemon.lifecycle import Component
    from koord.kube.events import EventRecorder
    from koord.kube.transport.messages import Transport

FIELD_MANAGER = "koord-webhook"


class AdmissionPart:
    """Admission of one manager; nothing where its gates are off."""

    def __init__(self) -> None:
        self._app: WebhookApp | None = None

    def readiness(self) -> str | None:
        """For the manager's readiness: the Service in front sends reviews to who is ready."""
        return self._app.readiness() if self._app is not None else None

    def debug_page(self, path: str) -> Document | None:
        """What a handler tells of what it knows, of every replica; None where there is none."""
        return self._app.debug_page(path) if self._app is not None else None

    async def parts(
        self,
        manager: ManagerApp,
        client: Client,
        transport: Transport,
        options: ManagerOptions,
        recorder: EventRecorder,
    ) -> list[Component]:
        """What runs beside the manager; it listens already.

        Raises:
            KoordError: an environment variable that cannot be meant, or a port that is taken.
        """
        from koord.controllers.webhook.environment import WebhookEnvironment
        from koord.kube.client import Client
        from koord.kube.daemon.lifecycle import Component

        # The manager's own client writes only while it leads; replicas charge quotas, too.
        own = Client(
            transport, FIELD_MANAGER,
            requests_per_second=float(options.rest_config_qps or 50),
            burst=options.rest_config_burst or 100, dry_run=client.dry_run,
        )  # fmt: skip
        app = admission_app(manager, own, options, recorder, WebhookEnvironment.of(os.environ))
        if not app.paths:
            return []
        await app.listen()
        self._app = app
        return [Component("webhook", app.run)]


def admission_app(
    manager: ManagerApp,
    client: Client,
    options: ManagerOptions,
    recorder: EventRecorder,
    environment: WebhookEnvironment,
) -> WebhookApp:
    """Admission over a manager's caches; made before these run.

    Args:
        manager: whose views, supervisor and lead it shares.
        client: of admission's own.
        options: both's.
        recorder: of events.
        environment: where to serve.
    """
    from koord.base.worker import Worker
    from koord.controllers.webhook.app import DRAIN_SECONDS, WebhookApp
    from koord.controllers.webhook.framework.handler import HandlerDependencies

    shared = manager.dependencies
    dependencies = HandlerDependencies(
        client, manager.views, shared.gates, options, shared.clock, recorder.event,
        manager.metrics.internal, manager.supervisor, worker=Worker(threaded=True),
    )  # fmt: skip
    return WebhookApp(
        dependencies, environment, lambda: manager.leading,
        request_metrics=manager.metrics.controllers, drain_seconds=DRAIN_SECONDS,
    )  # fmt: skip
