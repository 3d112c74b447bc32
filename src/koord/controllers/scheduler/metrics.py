# SPDX-License-Identifier: Apache-2.0
"""The scheduler's metrics, under kube-scheduler's names where it measures the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.metrics import registry

if TYPE_CHECKING:
    from koord.base.metrics import Metric, Registry

_ATTEMPT = tuple(0.001 * 2**i for i in range(15))
_SLI = tuple(0.01 * 2**i for i in range(20))


class SchedulerMetrics:
    """Counts attempts and times them.

    Args:
        metrics: the component's registry.
    """

    def __init__(self, metrics: Registry | None = None) -> None:
        into = self.registry = metrics or registry()
        self._attempts = into.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result.",
            ("result", "profile"),
        )
        self._durations = into.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From the choice of a pod to its binding or rejection.",
            ("result", "profile"),
            _ATTEMPT,
        )
        self._sli = into.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From a pod's first readiness to its binding.",
            ("profile",),
            _SLI,
        )
        self._pending = into.gauge(
            "scheduler_pending_pods", "Pods that wait, by queue.", ("queue",)
        )
        self._drift = into.gauge(
            "koord_scheduler_cache_drift",
            "Differences found between the cache and the API, by kind.",
            ("kind",),
        )

        self._deciding = into.counter(
            "koord_scheduler_decision_seconds_total", "CPU seconds that decisions took."
        )
        # Looking up a child by its labels costs more than counting.
        self._children: dict[tuple[str, str], tuple[Metric, Metric, Metric]] = {}

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended: ``scheduled``, ``unschedulable`` or ``error``."""
        attempts, durations, _ = self._of(result, profile)
        attempts.inc()
        durations.observe(seconds)

    def decided(self, cpu_seconds: float) -> None:
        """Decisions took so long."""
        self._deciding.inc(cpu_seconds)

    def bound(self, profile: str, seconds: float, since_ready_seconds: float) -> None:
        """A pod is bound."""
        attempts, durations, sli = self._of("scheduled", profile)
        attempts.inc()
        durations.observe(seconds)
        sli.observe(since_ready_seconds)

    def pending(self, by_queue: dict[str, int]) -> None:
        """Sets how many pods wait; called before metrics are read."""
        for queue, count in by_queue.items():
            self._pending.labels(queue).set(count)

    def _of(self, result: str, profile: str) -> tuple[Metric, Metric, Metric]:
        found = self._children.get((result, profile))
        if found is None:
            found = self._children[result, profile] = (
                self._attempts.labels(result, profile),
                self._durations.labels(result, profile),
                self._sli.labels(profile),
            )
        return found

    def drift(self, kind: str, count: int) -> None:
        """Sets how many objects of a kind the cache has wrong."""
        self._drift.labels(kind).set(count)
