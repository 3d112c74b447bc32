# SPDX-License-Identifier: Apache-2.0
"""What answers reviews with all of koord's handlers, over TLS (``app``) or for an API server in the
same process.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from koord.api import codec
from koord.base.loop_share import LARGE_BYTES, loop_share
from koord.controllers.webhook.framework.webhook_table import WEBHOOKS
from koord.controllers.webhook.handler_makers import all_makers, enabled_makers
from koord.controllers.webhook.server.metrics import WebhookMetrics
from koord.controllers.webhook.server.review_service import ReviewService, served_paths

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.base.documents import Document
    from koord.base.metrics import MetricRegistry
    from koord.controllers.webhook.framework.handler import HandlerDependencies
    from koord.controllers.webhook.handler_makers import Makers


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


def review_call(service: ReviewService) -> Callable[[str, Document], Awaitable[Document]]:
    """What an API server in the same process calls: JSON in and out, as over TLS.

    Returns:
        Takes path and review, gives the review that answers.
    """

    async def call(path: str, review: Document) -> Document:
        if path not in service.paths:
            raise ReviewFailedError(f"nobody answers {path}")
        body = codec.to_json(review)
        if len(body) < LARGE_BYTES:
            answer = await service.answer(path, body)
        else:
            share = loop_share()
            await share.wait()
            with share.taken():
                answer = await service.answer(path, body)
        if answer.status != HTTPStatus.OK:
            raise ReviewFailedError(answer.body.decode("utf-8", "replace"))
        document: Document = codec.parse_json(answer.body, "AdmissionReview")
        return document

    return call
