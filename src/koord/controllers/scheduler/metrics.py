# SPDX-License-Identifier: Apache-2.0
"""The scheduler's metrics, under kube-scheduler's names where it measures the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.metrics import registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.base.metrics import Metric, MetricRegistry

_ATTEMPT = tuple(0.001 * 2**i for i in range(15))
_SLI = tuple(0.01 * 2**i for i in range(20))
_PLUGIN = tuple(0.00001 * 1.5**i for i in range(20))
_POINT = tuple(0.0001 * 2**i for i in range(12))
_VICTIMS = tuple(float(2**i) for i in range(7))


class SchedulerMetrics:
    """Counts attempts and times them.

    Args:
        metrics: the component's registry.
    """

    def __init__(self, metrics: MetricRegistry | None = None) -> None:
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
        self._unschedulable = into.gauge(
            "scheduler_unschedulable_pods",
            "Pods that wait after a rejection, once for each plugin that rejected them.",
            ("plugin", "profile"),
        )
        self._drift = into.gauge(
            "koord_scheduler_cache_drift",
            "Differences found between the cache and the API, by kind.",
            ("kind",),
        )

        self._deciding = into.counter(
            "koord_scheduler_decision_seconds_total", "CPU seconds that decisions took."
        )
        self._plugins = into.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "How long a plugin took at an extension point, of every tenth attempt.",
            ("plugin", "extension_point", "status"),
            _PLUGIN,
        )
        self._points = into.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "How long calls at an extension point took, of every tenth attempt.",
            ("extension_point", "status", "profile"),
            _POINT,
        )
        self._incoming = into.counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that came to a queue, by event.",
            ("queue", "event"),
        )
        self._came: dict[tuple[str, str], int] = {}
        self._preemptions = into.counter(
            "scheduler_preemption_attempts_total", "Attempts to make room for a pod."
        )
        self._victims = into.histogram(
            "scheduler_preemption_victims", "Pods that had to go for one.", (), _VICTIMS
        )
        # A gauge, so that the name stays Koordinator's: a counter would get the suffix _total.
        self._timeouts = into.gauge(
            "scheduler_scheduling_timeout", "Attempts that took too long.", ("profile",)
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

    def plugin_took(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin took so long at an extension point."""
        self._plugins.labels(plugin, point, status).observe(seconds)

    def point_took(self, point: str, status: str, profile: str, seconds: float) -> None:
        """A call at an extension point took so long."""
        self._points.labels(point, status, profile).observe(seconds)

    def timed_out(self, profile: str) -> None:
        """An attempt took too long."""
        self._timeouts.labels(profile).inc()

    def preempted(self, victims: int) -> None:
        """Room was to be made for a pod, and so many others had to go."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)

    def incoming(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Takes over how many pods came to which queue through which event, in all."""
        for (queue, event), count in counts.items():
            more = count - self._came.get((queue, event), 0)
            if more:
                self._incoming.labels(queue, event).inc(more)
                self._came[queue, event] = count

    def pending(self, by_queue: dict[str, int]) -> None:
        """Sets how many pods wait; called before metrics are read."""
        for queue, count in by_queue.items():
            self._pending.labels(queue).set(count)

    def unschedulable(self, rejected: Mapping[tuple[str, str], int]) -> None:
        """Sets how many pods wait after a rejection, by plugin and profile; all others go."""
        self._unschedulable.clear()
        for labels, count in rejected.items():
            self._unschedulable.labels(*labels).set(count)

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
