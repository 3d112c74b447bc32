# SPDX-License-Identifier: Apache-2.0
"""What is counted of reviews, under the original's names and those of controller-runtime.

Rule: docs/reference/admission.md#serving-and-certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.base.metrics import registry

if TYPE_CHECKING:
    from koord.base.metrics import Metric, MetricRegistry

_SECONDS = tuple(10.0**power for power in range(-8, 4))
_MILLISECONDS = tuple(0.001 * 2**power for power in range(20))


class ReviewOutcome(NamedTuple):
    """One review that was answered.

    Attributes:
        path: where it was asked.
        mutating: whether the webhook may change the object.
        resource: in the plural, e.g. ``pods``; empty where the review could not be read.
        operation: what is done to it.
        status: HTTP code of the answer or, where there is one, of the refusal inside.
        seconds: how long it took.
    """

    path: str
    mutating: bool
    resource: str
    operation: str
    status: int
    seconds: float


class WebhookMetrics:
    """Counters and times of reviews.

    Args:
        metrics: the registry; None for one of its own.
        requests: of what controller-runtime counts; None for the same.

    Attributes:
        registry: has them.
    """

    def __init__(
        self, metrics: MetricRegistry | None = None, requests: MetricRegistry | None = None
    ) -> None:
        self.registry = registry() if metrics is None else metrics
        counted = requests or self.registry
        self._seconds = counted.histogram(
            "controller_runtime_webhook_latency_seconds",
            "Histogram of the latency of processing admission requests.", ("webhook",), _SECONDS,
        )  # fmt: skip
        self._requests = counted.counter(
            "controller_runtime_webhook_requests_total",
            "Total number of admission requests by HTTP status code.", ("webhook", "code"),
        )  # fmt: skip
        self._in_flight = counted.gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served.", ("webhook",),
        )  # fmt: skip
        self._milliseconds = self.registry.histogram(
            "koord_manager_webhook_webhook_duration_milliseconds",
            "How long one review took.",
            ("webhook_type", "object_type", "operation", "plugin_name", "status"), _MILLISECONDS,
        )  # fmt: skip
        self._children: dict[tuple[str, ...], Metric] = {}

    def began(self, path: str) -> None:
        """A review is being answered."""
        self._child(self._in_flight, "in flight", path).inc()

    def ended(self, outcome: ReviewOutcome) -> None:
        """A review has been answered."""
        self._child(self._in_flight, "in flight", outcome.path).inc(-1)
        self._child(self._seconds, "seconds", outcome.path).observe(outcome.seconds)
        code = str(outcome.status)
        self._child(self._requests, "requests", outcome.path, code).inc()
        if outcome.resource:
            kind = "mutate" if outcome.mutating else "validate"
            about = outcome.resource.removesuffix("s")
            status = "allowed" if outcome.status < 300 else "rejected"
            labels = (kind, about, outcome.operation, "", status)
            milliseconds = outcome.seconds * 1000
            self._child(self._milliseconds, "milliseconds", *labels).observe(milliseconds)

    def _child(self, metric: Metric, name: str, *labels: str) -> Metric:
        # Looking up a child by its labels costs more than counting.
        found = self._children.get((name, *labels))
        if found is None:
            found = self._children[name, *labels] = metric.labels(*labels)
        return found
