# SPDX-License-Identifier: Apache-2.0
"""Attempts that take too long: counted, told of, and further apart each time.

Rule: docs/reference/scheduling.md#slow-attempts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import log
from koord.controllers.scheduler.queue.queued_pod import SlowAttempts

if TYPE_CHECKING:
    from koord.controllers.scheduler.decision.plugin_times import PluginTimes
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod

_LOG = log.get("scheduler")
TIMEOUT_SECONDS = 30.0
SLOW_SECONDS = 5.0
"""An attempt that took longer is told of, and its pod waits."""
MAX_WAIT_SECONDS = 600.0
REASON = "SlowScheduling"
# How many plugins are named.
_NAMED = 3


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


def slower(queued: QueuedPod, seconds: float, now: float, where: str) -> SlowAttempts:
    """An attempt took longer than :data:`SLOW_SECONDS`: its pod's slow attempts with this one.

    Args:
        queued: the pod, with the slow attempts before this one.
        seconds: how long this one took.
        now: monotonic seconds.
        where: where its time went.
    """
    count = 1 if queued.slow is None else queued.slow.in_a_row + 1
    found = SlowAttempts(count, seconds, where, now + wait_seconds(count, seconds))
    fields = log.fields(
        pod=queued.info.key, profile=queued.profile, seconds=round(seconds, 3), in_a_row=count,
        where=where,
    )  # fmt: skip
    _LOG.warning("a slow attempt: the pod waits longer for its next", extra=fields)
    return found


def wait_seconds(count: int, seconds: float) -> float:
    """How long a pod waits after so many slow attempts in a row, the last of so many seconds."""
    # No power of two beyond what a float holds.
    return min(MAX_WAIT_SECONDS, seconds * 2.0 ** min(count, 100))


def where_time_went(times: PluginTimes, seconds: float) -> str:
    """The plugins that took most of an attempt, and what none of those measured took."""
    most = sorted(times.taken.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
    parts = [f"{plugin} {point} {took:.1f} s" for (plugin, point), took in most if took >= 0.05]
    rest = seconds - sum(times.taken.values())
    if rest >= 0.05:
        parts.append(f"{'all else' if times.complete else 'PreFilter to Reserve'} {rest:.1f} s")
    return ", ".join(parts)


def message(slow: SlowAttempts) -> str:
    """What a user is told of slow attempts."""
    row = f", the {_ordinal(slow.in_a_row)} such in a row" if slow.in_a_row > 1 else ""
    went = f": {slow.where}" if slow.where else ""
    return f"The attempt took {slow.seconds:.1f} s, over {SLOW_SECONDS:g} s{row}{went}."


def message_with_wait(slow: SlowAttempts) -> str:
    """The same, with how long the pod waits from its end on."""
    waits = wait_seconds(slow.in_a_row, slow.seconds)
    return f"{message(slow)} The next follows after {waits:.0f} s at the earliest."


def _ordinal(count: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{'th' if count % 100 in (11, 12, 13) else suffix}"
