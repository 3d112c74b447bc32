# SPDX-License-Identifier: Apache-2.0
"""What each webhook would do with a new object: changes, refusals, warnings. Nothing is written."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from koord.api import codec, selectors
from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.meta import LabelSelector
from koord.base.clock import SystemClock
from koord.base.errors import KoordError
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
from koord.controllers.webhook.framework.admission_request import (
    AdmissionRequest,
    Operation,
    Requester,
    ResourceName,
)
from koord.controllers.webhook.framework.handler import HandlerDependencies
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS, Webhook
from koord.controllers.webhook.handler_makers import all_makers, enabled_makers
from koord.controllers.webhook.preview.server_defaults import completed
from koord.kube.errors import ApiError, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document
    from koord.base.feature_gates import FeatureGates
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.webhook.options import WebhookOptions
    from koord.kube.client import Client

_NOT_FOUND = 404


@dataclass(frozen=True)
class WebhookVerdict:
    """What one webhook says.

    Attributes:
        webhook: which.
        decision: its answer.
    """

    webhook: Webhook
    decision: AdmissionDecision


@dataclass(frozen=True)
class ObjectReview:
    """What admission makes of one object.

    Attributes:
        title: the object as errors name it.
        submitted: the object as webhooks get it: completed by the API server.
        admitted: as it is after all that may change it.
        verdicts: of all webhooks that were asked, in order. The first that refuses is the last.
    """

    title: str
    submitted: Document
    admitted: Document
    verdicts: tuple[WebhookVerdict, ...]

    @property
    def allowed(self) -> bool:
        """Whether the object gets in."""
        return all(each.decision.allowed for each in self.verdicts)


class AdmissionPreview:
    """Handlers over objects that are put in by hand.

    Args:
        gates: feature gates.
        options: flags.

    Attributes:
        notes: what would be told of objects by events: title and text.
    """

    def __init__(self, gates: FeatureGates, options: WebhookOptions) -> None:
        self.notes: list[tuple[str, str]] = []
        self._views = LocalViews()
        dependencies = HandlerDependencies(
            cast("Client", _AbsentObjects()), cast("InformerViews", self._views), gates, options,
            SystemClock(), self._note,
        )  # fmt: skip
        makers = enabled_makers(all_makers(), gates, options)
        self._handlers = {path: make(dependencies) for path, make in makers.items()}
        self._gates = gates

    def put(self, item: Any) -> None:
        """Makes an object known."""
        self._views.view(type(item)).put(item)

    def knows_namespace(self, name: str) -> bool:
        """Whether a namespace has been put in."""
        return self._views.view(Namespace).get(name) is not None

    async def review(
        self, document: Document, kind: Kind, namespace: str, username: str = ""
    ) -> ObjectReview:
        """What becomes of a new object.

        Args:
            document: the object; stays as it is.
            kind: of the object.
            namespace: that it is made in where it does not say; ignored for kinds without.
            username: who makes it.
        """
        try:
            read = codec.convert(codec.without_nulls(document, kind.name), kind.type, kind.name)
        except KoordError as error:
            return self._unreadable(document, kind, error)
        name, labels = read.metadata.name or read.metadata.generate_name, read.metadata.labels
        where = (read.metadata.namespace or namespace) if kind.namespaced else ""
        classes = dict(self._views.view(PriorityClass).items())
        submitted = completed(document, kind, where, classes)
        request = AdmissionRequest(
            "preview", Operation.CREATE, kind.name, _resource(kind), kind.version, where, name,
            Requester(username), dry_run=True,
        )  # fmt: skip
        admitted, verdicts = submitted, list[WebhookVerdict]()
        for webhook in self._webhooks_for(kind):
            if not self._is_selected(webhook, labels, where):
                continue
            asked = replace(request, raw_object=codec.to_json(admitted))
            decision = await self._decision(webhook, asked)
            verdicts.append(WebhookVerdict(webhook, decision))
            if not decision.allowed:
                break
            if decision.document is not None:
                admitted = decision.document
        return ObjectReview(request.title, submitted, admitted, tuple(verdicts))

    def _webhooks_for(self, kind: Kind) -> list[Webhook]:
        """The webhooks for new objects of a kind, those that may change the object first."""
        found = [
            each
            for each in WEBHOOKS
            if each.path in self._handlers
            and self._gates.enabled(each.gate)
            and each.resource == _resource(kind)
            and Operation.CREATE in each.operations
        ]
        return sorted(found, key=lambda each: not each.mutating)

    def _is_selected(self, webhook: Webhook, labels: Mapping[str, str], namespace: str) -> bool:
        known = self._views.view(Namespace).get(namespace) if namespace else None
        around = known.metadata.labels if known is not None else {}
        return _matches(webhook.namespace_selector, around) and _matches(
            webhook.object_selector, labels
        )

    def _unreadable(self, document: Document, kind: Kind, error: KoordError) -> ObjectReview:
        """An object that cannot be read: the first webhook says so."""
        decision = AdmissionDecision(False, HTTPStatus.BAD_REQUEST, str(error))
        verdicts = (WebhookVerdict(each, decision) for each in self._webhooks_for(kind)[:1])
        return ObjectReview(kind.name, document, document, tuple(verdicts))

    async def _decision(self, webhook: Webhook, request: AdmissionRequest) -> AdmissionDecision:
        try:
            found = self._handlers[webhook.path].admit(request)
            return await found if inspect.isawaitable(found) else found
        except KoordError as error:
            return AdmissionDecision(False, HTTPStatus.BAD_REQUEST, str(error))

    def _note(self, item: Any, kind: str, reason: str, message: str) -> None:
        self.notes.append((item.title, message))


class _AbsentObjects:
    """A way to a server that has nothing more than what was put in."""

    async def get(self, *_: object, **__: object) -> Any:
        raise ApiError(Status(code=_NOT_FOUND, reason="NotFound", message="not found"))

    async def list(self, *_: object, **__: object) -> Any:
        raise ApiError(Status(code=_NOT_FOUND, reason="NotFound", message="not found"))


def _resource(kind: Kind) -> ResourceName:
    return ResourceName(kind.group, kind.plural)


def _matches(selector: Document, labels: Mapping[str, str]) -> bool:
    if not selector:
        return True
    return selectors.matches(codec.convert(selector, LabelSelector, "selector"), labels)
