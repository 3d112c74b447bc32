# SPDX-License-Identifier: Apache-2.0
"""Tells of attempts that take too long.

Rule: docs/reference/scheduling.md#metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import log

if TYPE_CHECKING:
    from koord.controllers.scheduler.metrics import SchedulerMetrics

_LOG = log.get("scheduler")
TIMEOUT_SECONDS = 30.0


class SlowAttemptMonitor:
    """Looks at the length of every attempt once it has ended.

    Attempts are synchronous here, so nothing could look at one that is still under way, and no pod
    is taken from the queue without being tried.

    Args:
        metrics: counts attempts that took too long.
        timeout_seconds: what is too long; 0 for nothing.
    """

    def __init__(self, metrics: SchedulerMetrics, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._metrics = metrics
        self.timeout_seconds = timeout_seconds

    def ended(self, profile: str, pod: str, seconds: float) -> None:
        """An attempt has ended after so long."""
        if 0 < self.timeout_seconds < seconds:
            self._metrics.timed_out(profile)
            _LOG.warning(
                "an attempt to schedule a pod took too long",
                extra=log.fields(pod=pod, profile=profile, seconds=round(seconds, 3)),
            )
