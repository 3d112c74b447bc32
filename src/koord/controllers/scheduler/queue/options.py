# SPDX-License-Identifier: Apache-2.0
"""What a scheduling queue is made of: its times, and what each profile brings."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod

# A tuple, of the same length for all pods.
SortKey: TypeAlias = "Callable[[QueuedPod], tuple[Any, ...]]"

# Added to every comparison with now: a virtual clock that is told to advance by a difference may
# end up a rounding error before the moment that was meant.
ROUNDING_SECONDS = 1e-9


@dataclass(frozen=True)
class QueueOptions:
    """Times in seconds; the defaults are kube-scheduler's (docs/reference/scheduling.md#queue).

    Args:
        initial_backoff: after the first attempt; doubled after each one more.
        max_backoff: its greatest value.
        backoff_flush: how often pods are looked for whose backoff is over.
        leftover_flush: how often pods are looked for that nothing has woken.
        max_unschedulable: how long nothing may wake a pod.
        pop_from_backoff: when no pod is active, one whose backoff is not over yet is popped.
        fair: whether namespaces take turns among active pods of equal priority, whoever came
            first; priorities are those of pods, whatever a queue-sort plugin says.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    backoff_flush: float = 1.0
    leftover_flush: float = 30.0
    max_unschedulable: float = 300.0
    pop_from_backoff: bool = True
    fair: bool = False

    def backoff(self, attempts: int) -> float:
        """How long a pod waits after so many attempts."""
        if attempts <= 0:
            return 0.0
        # No power of two beyond what a float holds.
        return min(self.max_backoff, self.initial_backoff * 2.0 ** min(attempts - 1, 1000))


@dataclass(frozen=True)
class QueueProfile:
    """What the plugins of one profile bring to the queue.

    Args:
        pre_enqueue: plugin names with their checks, in order: a check takes the pod's info and
            gives None, or why the pod is not to be scheduled yet.
        events: plugin name to what it registered.
    """

    pre_enqueue: Sequence[tuple[str, Callable[[Any], object]]] = ()
    events: Mapping[str, Sequence[HintedEvent]] = field(default_factory=dict)


def priority_sort(pod: QueuedPod) -> tuple[int, float]:
    """PrioritySort: higher priority first, then who was added or put back earlier."""
    return -pod.info.priority, pod.timestamp


def key_from_less(less: Callable[[QueuedPod, QueuedPod], bool]) -> SortKey:
    """The sort key of a plugin that can only compare two pods."""

    def compare(one: QueuedPod, other: QueuedPod) -> int:
        return -1 if less(one, other) else int(less(other, one))

    key = cmp_to_key(compare)
    return lambda pod: (key(pod),)


class Ticks:
    """Moments at equal distances.

    Args:
        start_seconds: monotonic seconds from which they are counted; the first is one period later.
        period_seconds: their distance.
    """

    def __init__(self, start_seconds: float, period_seconds: float) -> None:
        self._start = start_seconds
        self._period = period_seconds
        self.next_seconds = start_seconds + period_seconds

    def passed(self, now: float) -> bool:
        """Whether the next moment has come; if so, the first one after now is the next."""
        if now < self.next_seconds - ROUNDING_SECONDS:
            return False
        self.next_seconds = self._after(now)
        return True

    def at_or_after(self, seconds: float) -> float:
        """The first of the moments to come that is not before the given one."""
        return max(self.next_seconds, self._after(seconds - 2 * ROUNDING_SECONDS))

    def _after(self, seconds: float) -> float:
        count = (seconds + ROUNDING_SECONDS - self._start) // self._period
        return self._start + (count + 1) * self._period
