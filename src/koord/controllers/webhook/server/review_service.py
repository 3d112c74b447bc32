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
from koord.base.worker import HEAVY_BYTES, Worker
from koord.controllers.webhook.framework.admission_decision import ALLOWED, AdmissionDecision
from koord.controllers.webhook.server import review_codec
from koord.controllers.webhook.server.json_patch import difference
from koord.controllers.webhook.server.metrics import ReviewOutcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

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

FAILED = "koord could not judge the request; its log says why"
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


class Reviewed(NamedTuple):
    """What came of a review.

    Attributes:
        decision: None where the handler failed, which the log tells of.
        operations: JSON patch of an object that is to be another.
    """

    decision: AdmissionDecision | None
    operations: Sequence[dict[str, Any]] = ()

    @property
    def status(self) -> int:
        """HTTP code of the decision."""
        failed = HTTPStatus.INTERNAL_SERVER_ERROR
        return int(failed if self.decision is None else self.decision.status)


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
        began = self._clock.monotonic_seconds()
        try:
            version, request = review_codec.decode(body)
        except KoordError as error:
            self._metrics.began(path)
            self._ended(path, None, HTTPStatus.BAD_REQUEST, began)
            return Answer(HTTPStatus.BAD_REQUEST, str(error).encode())
        found = self.review(path, request, began)
        if inspect.isawaitable(found):
            found = await found
        if found.decision is None:
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED.encode())
        answer = review_codec.encode(version, request.uid, found.decision, found.operations)
        return Answer(HTTPStatus.OK, answer)

    def review(
        self, path: str, request: AdmissionRequest, began: float | None = None
    ) -> Reviewed | Awaitable[Reviewed]:
        """What comes of a request that was read; to be waited for where its handler waits.

        Args:
            path: one of :attr:`paths`.
            request: of any resource.
            began: by the clock; None for now.
        """
        began = self._clock.monotonic_seconds() if began is None else began
        self._metrics.began(path)
        served = self._paths[path]
        if request.resource != served.resource:
            self._ended(path, None, HTTPStatus.OK, began)
            return Reviewed(ALLOWED)
        found = self._at_once(path, served, request)
        if not isinstance(found, Reviewed):
            return self._later(path, request, began, found)
        self._ended(path, request, found.status, began)
        return found

    def _at_once(
        self, path: str, served: ServedPath, request: AdmissionRequest
    ) -> Reviewed | Awaitable[AdmissionDecision]:
        with self._supervisor.round(path):
            try:
                decision = served.handler.admit(request)
                if inspect.isawaitable(decision):
                    return decision
                if len(request.raw_object or b"") >= HEAVY_BYTES:
                    return _decided(decision)
                return Reviewed(decision, _patch(served, request, decision))
            except (KoordError, RecursionError) as error:
                return Reviewed(_refusal(request, error))
        return Reviewed(None)

    async def _later(
        self,
        path: str,
        request: AdmissionRequest,
        began: float,
        waited: Awaitable[AdmissionDecision],
    ) -> Reviewed:
        found, served = Reviewed(None), self._paths[path]
        try:
            with self._supervisor.round(path):
                try:
                    async with asyncio.timeout(LONGEST_REVIEW_SECONDS):
                        decision = await waited
                    weight = len(request.raw_object or b"")
                    patch = await self._worker.call(weight, _patch, served, request, decision)
                    found = Reviewed(decision, patch)
                except (KoordError, RecursionError) as error:
                    found = Reviewed(_refusal(request, error))
        finally:
            self._ended(path, request, found.status, began)
        return found

    def _ended(
        self, path: str, request: AdmissionRequest | None, status: int, began: float
    ) -> None:
        resource, operation = "", ""
        if request is not None:
            resource, operation = request.resource.resource, str(request.operation)
        seconds = self._clock.monotonic_seconds() - began
        mutating = self._paths[path].mutating
        self._metrics.ended(
            ReviewOutcome(path, mutating, resource, operation, int(status), seconds)
        )


async def _decided(decision: AdmissionDecision) -> AdmissionDecision:
    return decision


def _patch(
    served: ServedPath, request: AdmissionRequest, decision: AdmissionDecision
) -> Sequence[dict[str, Any]]:
    """What makes the object of the request the decision's; the object is read anew, as it came."""
    if not (served.mutating and decision.allowed) or decision.document is None:
        return ()
    assert request.raw_object is not None
    before = codec.parse_json(request.raw_object, request.title)
    return difference(before, decision.document)


def _refusal(request: AdmissionRequest, error: Exception) -> AdmissionDecision:
    """What cannot be read is refused."""
    if isinstance(error, RecursionError):
        error = KoordError(request.title, "", "one nested too deeply", _TOO_DEEP)
    return AdmissionDecision(False, HTTPStatus.BAD_REQUEST, str(error))
