# SPDX-License-Identifier: Apache-2.0
"""One process of admission, and an API server's calls of several."""

from __future__ import annotations

import asyncio
import base64
import copy
import inspect
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jsonpatch

from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol.keys import QUOTA_NAME
from koord.base.clock import Clock
from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.controllers.manager.feature_gates import feature_gates
from koord.controllers.webhook.all_reviews import ReviewFailedError, review_call, review_service
from koord.controllers.webhook.certificates.certificate_keeper import (
    CertificateKeeper,
    ConfigurationNames,
)
from koord.controllers.webhook.certificates.certificate_store import SECRET as SECRET_KIND
from koord.controllers.webhook.certificates.certificate_store import SecretStore
from koord.controllers.webhook.certificates.key_material import KeyMaterial
from koord.controllers.webhook.certificates.watched_documents import NamedObject, WatchedDocuments
from koord.controllers.webhook.certificates.webhook_configuration import WebhookAddress
from koord.controllers.webhook.framework.default_configurations import (
    MUTATING_NAME,
    NAMESPACE,
    SERVICE,
    VALIDATING_NAME,
)
from koord.controllers.webhook.framework.handler import HandlerDependencies
from koord.controllers.webhook.framework.webhook_table import VALIDATE_POD
from koord.controllers.webhook.informer_views import admission_views
from koord.controllers.webhook.options import WebhookOptions
from koord.controllers.webhook.server.serving_certificate import ServingCertificate
from koord.controlplane.admission.webhook_client import WebhookCallError, WebhookClient
from koord.kube.client import Client
from tests.controllers.webhook.histories.connection import LateConnection

Document = dict[str, Any]
GATES = "EnableQuotaAdmission=true,MultiQuotaTree=true"
SECRET = "koordinator-webhook-certs"
ADDRESS = WebhookAddress(SERVICE, NAMESPACE)
# An API server follows its own configurations by a watch.
_SERVER_BEHIND_SECONDS = 20.0


class ReviewedPod(NamedTuple):
    """A new pod of a quota that was validated.

    Attributes:
        pod: as it was.
        quota: that it names.
        allowed: None for no answer, or one of a failure.
        known: whether the replica had the quota all the time, so that it was charged if allowed.
    """

    pod: Document
    quota: str
    allowed: bool | None
    known: bool


class _Shown(ServingCertificate):
    """Remembers what is shown."""

    pair = (b"", b"")

    def show(self, certificate: bytes, key: bytes) -> bool:
        self.pair = (certificate, key)
        return super().show(certificate, key)


class AdmissionReplica:
    """One process.

    Args:
        connection: its way to the API server.
        clock: the time.
        leading: whether it may write certificate and configurations.

    Attributes:
        serving: whether it answers.
    """

    def __init__(
        self, connection: LateConnection, clock: Clock, leading: Callable[[], bool]
    ) -> None:
        self.connection = connection
        client = Client(connection, "koord-webhook", requests_per_second=None)
        metrics = registry()
        supervisor = Supervisor("webhook", metrics, clock)
        self.views = admission_views(client, metrics, supervisor, feature_gates(GATES))
        self._given = HandlerDependencies(
            client, self.views, feature_gates(GATES), WebhookOptions(), clock,
            lambda *_: None, metrics, supervisor,
        )  # fmt: skip
        service = review_service(self._given)
        self._call = review_call(service)
        self._shown = _Shown()
        names = ConfigurationNames(MUTATING_NAME, VALIDATING_NAME)
        objects = (*names.objects(), NamedObject(SECRET_KIND, SECRET, NAMESPACE))
        self._watched = WatchedDocuments(client, objects, supervisor, lambda: self.keeper.wake())
        store = SecretStore(client, NAMESPACE, SECRET, self._watched)
        self.keeper = CertificateKeeper(
            client, self._watched, store, self._shown, names, ADDRESS, service.paths, leading,
            supervisor, clock,
        )  # fmt: skip
        self.serving = False
        self._calls: set[asyncio.Task[Document]] = set()
        self._life = asyncio.create_task(self._run())

    async def _run(self) -> None:
        keep = self._given.supervisor.keep
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep("informers", self.views.run))
            tasks.create_task(keep("certificate watches", self._watched.run))
            tasks.create_task(keep("certificates", self.keeper.run))
            await self.views.synced()
            for name, run in self._given.loops.items():
                tasks.create_task(keep(name, run))
            # A Service leads to what is ready, and takes it away late.
            while self.keeper.readiness() is not None:
                await asyncio.sleep(1.0)
            self.serving = True

    async def end(self) -> None:
        """As a kill: what it was answering has no answer."""
        self.serving = False
        tasks = [self._life, *self._calls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def certificate_holds(self, bundle: bytes, when: datetime) -> bool:
        """Whether who trusts a bundle takes what is shown."""
        certificate, key = self._shown.pair
        return KeyMaterial(b"", bundle, key, certificate).holds(ADDRESS.name, when)

    async def answer(self, path: str, review: Document) -> Document:
        """The answer.

        Raises:
            OSError: there is none.
        """
        task = asyncio.create_task(self._asked(path, review))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not self.serving:
                raise ReviewFailedError("connection reset by peer") from None
            raise

    async def _asked(self, path: str, review: Document) -> Document:
        found = self._call(path, review)
        return await found if inspect.isawaitable(found) else found

    def knows_quota(self, name: str) -> bool:
        """Whether it has seen a quota."""
        return self.views.view(ElasticQuota).get(f"default/{name}") is not None

    def profile_versions(self) -> list[tuple[str, str]]:
        """What it knows of profiles."""
        found = self.views.view(ClusterColocationProfile).items()
        return sorted((key, each.metadata.resource_version) for key, each in found)


class ReplicaCaller(WebhookClient):
    """Calls any of several replicas, as a Service does; judges certificates as TLS does.

    Args:
        clock: the time.
        draw: lots.

    Attributes:
        replicas: that there are.
        distrusted: calls that TLS would have refused.
        changed_again: what an answer changed of what an answer had made.
        rotations: how often configurations were told whom to trust.
        reviewed: new pods that were validated.
    """

    def __init__(self, clock: Clock, draw: random.Random) -> None:
        super().__init__()
        self._clock, self._draw = clock, draw
        self.replicas: list[AdmissionReplica] = []
        self.distrusted: list[str] = []
        self.rotations = 0
        self.changed_again: list[Any] = []
        self.reviewed: list[ReviewedPod] = []
        self._bundles: list[tuple[float, str]] = []

    async def call(self, client: Document, review: Document, timeout_seconds: float) -> Any:
        """Sends a review to a replica."""
        await asyncio.sleep(self._draw.choice((0.0, 0.0, 0.01, 0.2)))
        path, request = client["service"]["path"], review["request"]
        serving = [each for each in self.replicas if each.serving]
        if not serving:
            raise WebhookCallError("connect: connection refused")
        chosen = self._draw.choice(serving)
        self._judge(chosen, client.get("caBundle") or "")
        quota = (
            ((request["object"] or {}).get("metadata") or {}).get("labels", {}).get(QUOTA_NAME, "")
        )
        known, allowed = chosen.knows_quota(quota), None
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await chosen.answer(path, review)
            allowed = answer["response"]["allowed"]
            if allowed is False and answer["response"]["status"]["code"] == 500:
                allowed = None
            if answer["response"].get("patch"):
                await self._ask_again(chosen, path, review, answer["response"])
        except (OSError, TimeoutError) as error:
            raise WebhookCallError(str(error) or "no answer in time") from None
        finally:
            if path == VALIDATE_POD and request["operation"] == "CREATE" and quota:
                known = known and chosen.knows_quota(quota)
                self.reviewed.append(ReviewedPod(request["object"], quota, allowed, known))
        return answer

    def _judge(self, chosen: AdmissionReplica, bundle: str) -> None:
        """Whether a server that is somewhat behind trusts the replica."""
        now = self._clock.monotonic_seconds()
        seen = [text for since, text in self._bundles if since <= now - _SERVER_BEHIND_SECONDS]
        when = datetime.fromtimestamp(self._clock.wall_seconds(), UTC)
        for text in (bundle, (seen or [bundle])[-1]):
            if not chosen.certificate_holds(base64.b64decode(text), when):
                self.distrusted.append(f"at {now:.0f} s")

    def configured(self, configuration: Document) -> None:
        """Tells what a configuration says from now on."""
        now = self._clock.monotonic_seconds()
        bundle = configuration["webhooks"][0]["clientConfig"].get("caBundle")
        if bundle and bundle not in [text for _, text in self._bundles[-1:]]:
            self._bundles.append((now, bundle))
            self.rotations += 1

    async def _ask_again(
        self, chosen: AdmissionReplica, path: str, review: Document, response: Document
    ) -> None:
        """Reviews the result: the same replica, knowing the same, has nothing to change."""
        known = chosen.profile_versions()
        patch = json.loads(base64.b64decode(response["patch"]))
        changed = copy.deepcopy(review)
        changed["request"]["object"] = jsonpatch.apply_patch(review["request"]["object"], patch)
        again = await chosen.answer(path, changed)
        if chosen.profile_versions() == known and (again["response"].get("patch")):
            self.changed_again.append(json.loads(base64.b64decode(again["response"]["patch"])))
