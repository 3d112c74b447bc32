# SPDX-License-Identifier: Apache-2.0
"""What answers reviews with all of koord's handlers, over TLS (``app``) or for an API server in the
same process.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from koord.base.loop_share import LARGE_BYTES, loop_share
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS
from koord.controllers.webhook.handler_makers import all_makers, enabled_makers
from koord.controllers.webhook.server import review_codec
from koord.controllers.webhook.server.metrics import WebhookMetrics
from koord.controllers.webhook.server.review_service import (
    FAILED,
    Reviewed,
    ReviewService,
    served_paths,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.base.documents import Document
    from koord.base.metrics import MetricRegistry
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.handler_makers import Makers

    ReviewAnswer = Document | Awaitable[Document]


class ReviewFailedError(OSError):
    """A review that was not answered: a failed call, for which the failure policy decides."""


def review_service(
    dependencies: HandlerDependencies,
    makers: Makers | None = None,
    request_metrics: MetricRegistry | None = None,
) -> ReviewService:
    """Handlers whose webhooks' gates are on; none without ``WebhookFramework``.

    Args:
        dependencies: of handlers; their views are to be run before the service is asked.
        makers: by path; None for all of koord's.
        request_metrics: where requests are counted; None for the handlers' registry.
    """
    known = all_makers() if makers is None else makers
    chosen = enabled_makers(known, dependencies.gates, dependencies.options)
    handlers = {path: make(dependencies) for path, make in chosen.items()}
    return ReviewService(
        served_paths(handlers, WEBHOOKS),
        WebhookMetrics(dependencies.metrics, request_metrics),
        dependencies.supervisor,
        dependencies.clock,
        dependencies.worker,
    )


def review_call(service: ReviewService) -> Callable[[str, Document], ReviewAnswer]:
    """What an API server in the same process calls, with documents in the place of JSON.

    Returns:
        Takes path and review, gives the review that answers: at once, or to be waited for where a
        handler waits or the object is large.
    """

    def call(path: str, review: Document) -> ReviewAnswer:
        if path not in service.paths:
            raise ReviewFailedError(f"nobody answers {path}")
        request, version = review_codec.request_of(review), review["apiVersion"]
        if len(request.raw_object or b"") + len(request.raw_old_object or b"") >= LARGE_BYTES:
            return _in_its_turn(service, path, request, version)
        found = service.review(path, request)
        if inspect.isawaitable(found):
            return _waited(found, request, version)
        return _answer(found, request, version)

    return call


async def _in_its_turn(
    service: ReviewService, path: str, request: AdmissionRequest, version: str
) -> Document:
    share = loop_share()
    await share.wait()
    with share.taken():
        found = service.review(path, request)
        if inspect.isawaitable(found):
            found = await found
    return _answer(found, request, version)


async def _waited(
    outcome: Awaitable[Reviewed], request: AdmissionRequest, version: str
) -> Document:
    return _answer(await outcome, request, version)


def _answer(outcome: Reviewed, request: AdmissionRequest, version: str) -> Document:
    if outcome.decision is None:
        raise ReviewFailedError(FAILED)
    return review_codec.response(version, request.uid, outcome.decision, outcome.operations)
