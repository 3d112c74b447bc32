# SPDX-License-Identifier: Apache-2.0
"""A handler answers the requests of one path, from caches alone.

Rule: docs/reference/admission.md#webhooks. Where a rule needs an object that was made a moment ago
and is not in its cache yet, it is looked up once, with a bound in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from koord.base.metrics import registry
from koord.base.supervision import Supervisor
from koord.base.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.base.feature_gates import FeatureGates
    from koord.base.metrics import MetricRegistry
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.webhook.framework.admission_decision import AdmissionDecision
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.options import WebhookOptions
    from koord.kube.client import Client


@dataclass(frozen=True)
class HandlerDependencies:
    """What a handler works with.

    Attributes:
        client: looks up what is missing; writes only for quota admission and a parent's minimum.
        views: an informer a kind, shared: ``views.view(ElasticQuota)``. Asked when a handler is
            made.
        gates: feature gates.
        options: flags.
        clock: the time.
        write_event: ``(object, type, reason, message)``; writes events about configuration objects
            that a rule cannot use.
        metrics: where a rule counts; each handler makes what it needs there, once.
        supervisor: keeps ``loops`` going.
        loops: what a handler does beside answering, by name; put there when it is made, begun once
            all views are complete, in every replica.
        worker: does what large objects cost; the default does it at once.
        debug_pages: what a handler tells of what it knows, by path; put there when it is made.
    """

    client: Client
    views: InformerViews
    gates: FeatureGates
    options: WebhookOptions
    clock: Clock
    write_event: Callable[..., None]
    metrics: MetricRegistry = field(default_factory=registry)
    supervisor: Supervisor = field(default_factory=lambda: Supervisor("webhook"))
    loops: dict[str, Callable[[], Awaitable[object]]] = field(default_factory=dict)
    worker: Worker = field(default_factory=Worker)
    debug_pages: dict[str, Callable[[], Document]] = field(default_factory=dict)


class Handler(Protocol):
    """Answers requests. Made once; asked for many at a time, from one thread."""

    def admit(self, request: AdmissionRequest) -> AdmissionDecision | Awaitable[AdmissionDecision]:
        """The answer to one request.

        Raises:
            KoordError: what is asked about cannot be read: 400. Anything else is a failure of
                ours: 500, logged, and counted.
        """
        ...
