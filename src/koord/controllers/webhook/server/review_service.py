# SPDX-License-Identifier: Apache-2.0
"""Answers the body of a review: who is asked, what it costs at most, what a failure means.

Rule: docs/reference/admission.md#webhooks. Knows no HTTP but its codes.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api import codec
from koord.base.errors import KoordError
from koord.base.worker import Worker
from koord.controllers.webhook.framework.admission_decision import ALLOWED, AdmissionDecision
from koord.controllers.webhook.server import review_codec
from koord.controllers.webhook.server.json_patch import difference
from koord.controllers.webhook.server.metrics import ReviewOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.controllers.webhook.framework.admission_request import (
        AdmissionRequest,
        ResourceName,
    )
    from koord.controllers.webhook.framework.handler import Handler
    from koord.controllers.webhook.framework.webhook_table import Webhook
    from koord.controllers.webhook.server.metrics import WebhookMetrics

LONGEST_REVIEW_SECONDS = 30.0
"""No API server waits longer for a webhook."""

_FAILED = "koord could not judge the request; its log says why"
_TOO_DEEP = "an object of fewer levels of nesting"


class Answer(NamedTuple):
    """What goes back.

    Attributes:
        status: HTTP code; anything but 200 is a failed call, for which the webhook's
            ``failurePolicy`` decides.
        body: an AdmissionReview, or one line of text where the status is not 200.
    """

    status: int
    body: bytes


@dataclass(frozen=True)
class ServedPath:
    """A path that reviews are asked at.

    Attributes:
        handler: answers.
        resource: what it is asked about; everything else is allowed unseen.
        mutating: whether it may change the object.
    """

    handler: Handler
    resource: ResourceName
    mutating: bool


def served_paths(
    handlers: Mapping[str, Handler], webhooks: Iterable[Webhook]
) -> dict[str, ServedPath]:
    """The paths that have a handler, with what the table says of each."""
    return {
        each.path: ServedPath(handlers[each.path], each.resource, each.mutating)
        for each in webhooks
        if each.path in handlers
    }


class ReviewService:
    """Answers reviews.

    Args:
        paths: by path.
        metrics: counts.
        supervisor: failures of handlers are counted under their paths, and logged once a cause.
        clock: of the times that are measured.
        worker: finds out what of large objects has changed; None does it at once.
    """

    def __init__(
        self,
        paths: Mapping[str, ServedPath],
        metrics: WebhookMetrics,
        supervisor: Supervisor,
        clock: Clock,
        worker: Worker | None = None,
    ) -> None:
        self._paths = dict(paths)
        self._worker = worker or Worker()
        self._metrics = metrics
        self._supervisor = supervisor
        self._clock = clock

    @property
    def paths(self) -> frozenset[str]:
        """Where reviews are answered."""
        return frozenset(self._paths)

    async def answer(self, path: str, body: bytes) -> Answer:
        """The answer to the body of a review.

        Args:
            path: one of :attr:`paths`.
            body: as it came, its size bounded by the caller.
        """
        began, served = self._clock.monotonic_seconds(), self._paths[path]
        self._metrics.began(path)
        resource, operation, status = "", "", 500
        try:
            try:
                version, request = review_codec.decode(body)
            except KoordError as error:
                status = HTTPStatus.BAD_REQUEST
                return Answer(status, str(error).encode())
            resource, operation = request.resource.resource, str(request.operation)
            if request.resource != served.resource:
                resource, status = "", HTTPStatus.OK
                return Answer(status, review_codec.encode(version, request.uid, ALLOWED))
            answered = await self._decision_and_patch(path, served, request)
            if answered is None:
                return Answer(status, _FAILED.encode())
            decision, operations = answered
            status = int(decision.status)
            answer = review_codec.encode(version, request.uid, decision, operations)
            return Answer(HTTPStatus.OK, answer)
        finally:
            seconds = self._clock.monotonic_seconds() - began
            self._metrics.ended(
                ReviewOutcome(path, served.mutating, resource, operation, status, seconds)
            )

    async def _decision_and_patch(
        self, path: str, served: ServedPath, request: AdmissionRequest
    ) -> tuple[AdmissionDecision, Sequence[dict[str, Any]]] | None:
        """Decision and patch; None where the handler failed."""
        with self._supervisor.round(path):
            try:
                decision = await _decision(served.handler, request)
                weight = len(request.raw_object or b"")
                patch = await self._worker.call(weight, _patch, served, request, decision)
                return decision, patch
            except KoordError as error:
                return _refusal(str(error)), ()
            except RecursionError:
                deep = KoordError(request.title, "", "one nested too deeply", _TOO_DEEP)
                return _refusal(str(deep)), ()
        return None


async def _decision(handler: Handler, request: AdmissionRequest) -> AdmissionDecision:
    found = handler.admit(request)
    if inspect.isawaitable(found):
        async with asyncio.timeout(LONGEST_REVIEW_SECONDS):
            return await found
    return found


def _patch(
    served: ServedPath, request: AdmissionRequest, decision: AdmissionDecision
) -> Sequence[dict[str, Any]]:
    """What makes the object of the request the decision's; the object is read anew, as it came."""
    if not (served.mutating and decision.allowed) or decision.document is None:
        return ()
    assert request.raw_object is not None
    before = codec.parse_json(request.raw_object, request.title)
    return difference(before, decision.document)


def _refusal(message: str) -> AdmissionDecision:
    return AdmissionDecision(False, HTTPStatus.BAD_REQUEST, message)
