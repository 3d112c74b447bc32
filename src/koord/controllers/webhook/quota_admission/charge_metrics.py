# SPDX-License-Identifier: Apache-2.0
"""What is counted of pods that are charged to their quota.

Rule: docs/reference/admission.md#metrics-of-reviews. Labels are outcomes alone: names of quotas are
their authors' to choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.base.metrics import MetricRegistry

ADMITTED, REFUSED, FAILED = "admitted", "refused", "failed"
WRITTEN, CONFLICT, LOST = "written", "conflict", "lost"

_PREFIX = "koord_manager_webhook_quota_admission"
_SECONDS = tuple(0.001 * 2**power for power in range(14))
_PODS = tuple(float(2**power) for power in range(11))


class ChargeMetrics:
    """Pods by outcome, writes by outcome, pods a write, seconds a pod waited.

    Args:
        metrics: the registry.
    """

    def __init__(self, metrics: MetricRegistry) -> None:
        pods = metrics.counter(
            f"{_PREFIX}_pods_total", "Pods that were asked to be charged.", ("outcome",)
        )
        writes = metrics.counter(
            f"{_PREFIX}_writes_total", "Writes of quotas that were charged.", ("outcome",)
        )
        self._pods = {name: pods.labels(name) for name in (ADMITTED, REFUSED, FAILED)}
        self._writes = {name: writes.labels(name) for name in (WRITTEN, CONFLICT, LOST)}
        self._batch = metrics.histogram(
            f"{_PREFIX}_batch_pods", "How many pods one write has charged.", (), _PODS
        )
        self._seconds = metrics.histogram(
            f"{_PREFIX}_duration_seconds", "How long a pod waited to be charged.", (), _SECONDS
        )

    def answered(self, outcome: str, seconds: float) -> None:
        """A pod has its answer.

        Args:
            outcome: :data:`ADMITTED`, :data:`REFUSED` or :data:`FAILED`.
            seconds: that it waited.
        """
        self._pods[outcome].inc()
        self._seconds.observe(seconds)

    def wrote(self, outcome: str, pods: int) -> None:
        """A write has ended.

        Args:
            outcome: :data:`WRITTEN`, :data:`CONFLICT`, or :data:`LOST` where nobody knows.
            pods: that it was to charge.
        """
        self._writes[outcome].inc()
        if outcome == WRITTEN:
            self._batch.observe(pods)
