# SPDX-License-Identifier: Apache-2.0
"""Admission as a part of a program: handlers over views, the HTTPS server, the certificate.

Every replica serves; who leads writes the certificate and the webhook configurations. Until all
views are complete reviews are refused with 503, for which their failure policy decides.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.webhook.all_reviews import review_service
from koord.controllers.webhook.certificates.certificate_keeper import CertificateKeeper
from koord.controllers.webhook.certificates.certificate_store import (
    SECRET,
    SecretStore,
    UnwrittenStore,
)
from koord.controllers.webhook.certificates.file_store import FileStore
from koord.controllers.webhook.certificates.watched_documents import (
    NamedObject,
    WatchedDocuments,
)
from koord.controllers.webhook.server.https_server import HTTPSServer
from koord.controllers.webhook.server.serving_certificate import ServingCertificate
from koord.kube.daemon.missing_kinds import ReadinessNote, log_missing_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.documents import Document
    from koord.base.metrics import MetricRegistry
    from koord.controllers.webhook.certificates.certificate_store import CertificateStore
    from koord.controllers.webhook.environment import WebhookEnvironment
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.handler_makers import Makers

START_SECONDS = 20.0
DRAIN_SECONDS = 3.0
"""So long after a pod has begun to end API servers may still be led to it."""
ANSWERING_SECONDS = 30.0
"""Ready for so long, a process is known to all API servers and to the Service in front of it."""
"""A start whose first round of certificates takes longer says so, and goes on trying."""

_LOOK_SECONDS = 0.05
_LOG = log.get("webhook")
_WITHOUT = {
    "ClusterColocationProfile": "no pod is changed by a profile",
    "ElasticQuota.scheduling.sigs.k8s.io": "there are no quotas to keep",
    "ElasticQuotaProfile": "no pod is kept on the nodes of its quota tree",
}
"""What is not done without a kind, by its informer's name."""


class WebhookApp:
    """Admission in one process.

    Args:
        dependencies: of handlers; its views are run by the caller.
        environment: where to serve, and where the certificate is kept.
        leading: whether this process may write certificate and configurations.
        makers: of handlers, by path; None for all of koord's.
        request_metrics: where requests are counted; None for the handlers' registry.
        drain_seconds: how long reviews are answered after the end has been asked for.

    Attributes:
        paths: where reviews are answered.
        server: answers.
    """

    def __init__(
        self,
        dependencies: HandlerDependencies,
        environment: WebhookEnvironment,
        leading: Callable[[], bool] = lambda: True,
        makers: Makers | None = None,
        request_metrics: MetricRegistry | None = None,
        drain_seconds: float = 0.0,
    ) -> None:
        self._dependencies, self._drain_seconds = dependencies, drain_seconds
        self._service = review_service(dependencies, makers, request_metrics)
        self.paths = self._service.paths
        self._certificate = ServingCertificate()
        self.server = HTTPSServer(
            self._certificate.context, self.paths, self.readiness, environment.listen,
            environment.port,
        )  # fmt: skip
        self._environment, self._leading = environment, leading
        self._keeper: CertificateKeeper | None = None
        self._synced = False
        self._ready_since: float | None = None

    def readiness(self) -> str | None:
        """Why it is not ready; None, or a note, if it is: certificate and caches are good."""
        if self._keeper is None:
            return "starting"
        certificate = self._keeper.readiness()
        if certificate is not None and not isinstance(certificate, ReadinessNote):
            return certificate
        views = self._dependencies.views.readiness()
        if views is not None and not isinstance(views, ReadinessNote):
            return views
        if not self._synced:
            return "starting"
        return ReadinessNote("; ".join(filter(None, (views, certificate)))) or None

    def debug_page(self, path: str) -> Document | None:
        """What a handler tells of what it knows; None without that handler, or before it knows."""
        page = self._dependencies.debug_pages.get(path)
        return page() if page is not None and self._synced else None

    async def ready(self) -> None:
        """Waits until it listens, shows a certificate and knows all objects."""
        while (why := self.readiness()) and not isinstance(why, ReadinessNote):
            await asyncio.sleep(_LOOK_SECONDS)

    async def listen(self) -> None:
        """Listens; :meth:`run` does where this was not called.

        Raises:
            KoordError: the port cannot be listened on.
        """
        try:
            await self.server.start()
        except OSError as error:
            environment = self._environment
            address = f"{environment.listen}:{environment.port}"
            expected = f"a free address ({error.strerror or error})"
            raise KoordError("WEBHOOK_PORT", "", address, expected) from None

    async def run(self) -> None:
        """Serves until cancelled.

        Raises:
            KoordError: the port cannot be listened on.
        """
        supervisor = self._dependencies.supervisor
        if not self.server.listening:
            await self.listen()
        _LOG.info("listening", extra=log.fields(port=self.server.port, paths=len(self.paths)))
        watched = self._watched()
        self._keeper = keeper = self._made_keeper(watched)
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = supervisor.keep("certificate watches", watched.run)
                tasks.create_task(watch, name="certificate watches")
                tasks.create_task(supervisor.keep("certificates", keeper.run), name="certificates")
                tasks.create_task(self._serve(tasks), name="reviews")
                tasks.create_task(self._warn_if_late(), name="start")
        finally:
            await self.server.stop(self._drain_seconds)
            self._dependencies.worker.close()

    async def _serve(self, tasks: asyncio.TaskGroup) -> None:
        """Answers reviews from when all views are complete."""
        views, supervisor = self._dependencies.views, self._dependencies.supervisor
        await views.synced()
        await log_missing_kinds(_LOG, views.informers(), _WITHOUT)
        self.server.serve(self._service)
        self._synced = True
        for name, run in self._dependencies.loops.items():
            tasks.create_task(supervisor.keep(name, run), name=name)

    async def _warn_if_late(self) -> None:
        await asyncio.sleep(START_SECONDS)
        why = self.readiness()
        if why and not isinstance(why, ReadinessNote):
            _LOG.warning("not ready yet", extra=log.fields(why=why))

    def _watched(self) -> WatchedDocuments:
        """The configurations and, where the certificate is kept in it, the Secret."""
        environment, dependencies = self._environment, self._dependencies
        objects = environment.configurations.objects()
        if not environment.in_files:
            objects += (NamedObject(SECRET, environment.secret, environment.namespace),)
        return WatchedDocuments(dependencies.client, objects, dependencies.supervisor, self._wake)

    def _wake(self) -> None:
        if self._keeper is not None:
            self._keeper.wake()

    def _made_keeper(self, watched: WatchedDocuments) -> CertificateKeeper:
        dependencies, environment = self._dependencies, self._environment
        client = dependencies.client
        store: CertificateStore = (
            FileStore(environment.folder, dependencies.clock)
            if environment.in_files
            else SecretStore(client, environment.namespace, environment.secret, watched)
        )
        if client.dry_run is not None:
            store = UnwrittenStore(store)
        return CertificateKeeper(
            client,
            watched,
            store,
            self._certificate,
            environment.configurations,
            environment.address(self.server.port),
            self.paths,
            self._leading,
            dependencies.supervisor,
            dependencies.clock,
            self._answering,
        )

    def _answering(self) -> bool:
        """Whether API servers can have known for a while that this process is ready."""
        why, now = self.readiness(), self._dependencies.clock.monotonic_seconds()
        if why is not None and not isinstance(why, ReadinessNote):
            self._ready_since = None
            return False
        if self._ready_since is None:
            self._ready_since = now
        return now - self._ready_since >= ANSWERING_SECONDS
