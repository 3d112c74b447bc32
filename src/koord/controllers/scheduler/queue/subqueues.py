# SPDX-License-Identifier: Apache-2.0
"""Where pods wait: the active heap, the two backoffs, the unschedulable and the gated ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.queue.active_pods import ActivePods
from koord.controllers.scheduler.queue.heap import PodHeap
from koord.controllers.scheduler.queue.options import ROUNDING_SECONDS, QueueOptions, SortKey, Ticks
from koord.controllers.scheduler.queue.queued_pod import ACTIVE, QueuedPod, QueueState
from koord.controllers.scheduler.queue.queueing_hints import RejectionIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.base.clock import Clock

QUEUES = ("active", "backoff", "unschedulable", "gated")


class SubQueues:
    """Every waiting pod is in exactly one place; entering and leaving are the only moves.

    Args:
        clock: its monotonic time is used.
        sort_key: the order of the active heap.
        options: times.
        shape_of: what per-shape hints look at.
        oversized: which pods are tried after the others.

    Attributes:
        waiting: all pods by uid.
        active: the pods that can be tried now.
        index: the unschedulable and the gated ones by who can wake them.
        incoming: how many pods came to ``active``, ``backoff`` or ``unschedulable``, by what.
    """

    def __init__(
        self,
        clock: Clock,
        sort_key: SortKey,
        options: QueueOptions,
        shape_of: Callable[[Any], object],
        oversized: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        self._clock = clock
        self._sort_key = sort_key
        self._options = options
        self._oversized = oversized
        self.waiting: dict[str, QueuedPod] = {}
        self.index = RejectionIndex(shape_of)
        self.incoming: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.active = ActivePods(options.fair)
        self._backoff, self._error_backoff = PodHeap(), PodHeap()
        # By the time they were put back; gated ones, which no timer wakes, are not here.
        self._unschedulable = PodHeap()
        self._heaps: dict[QueueState, PodHeap | ActivePods] = {
            QueueState.ACTIVE: self.active,
            QueueState.BACKOFF: self._backoff,
            QueueState.ERROR_BACKOFF: self._error_backoff,
            QueueState.UNSCHEDULABLE: self._unschedulable,
        }
        now = clock.monotonic_seconds()
        self._backoff_ticks = Ticks(now, options.backoff_flush)
        self._leftover_ticks = Ticks(now, options.leftover_flush)

    def pending(self) -> dict[str, int]:
        """How many pods wait: ``active``, ``backoff``, ``unschedulable``, ``gated``."""
        active, unschedulable = len(self.active), len(self._unschedulable)
        backoff = len(self._backoff) + len(self._error_backoff)
        gated = len(self.waiting) - active - backoff - unschedulable
        numbers = (active, backoff, unschedulable, gated)
        return dict(zip(QUEUES, numbers, strict=True))

    def rejected(self) -> Counter[tuple[str, str]]:
        """How many pods wait for another attempt, by who rejected or gates them and by profile.

        A pod that several plugins rejected counts for each of them.
        """
        return Counter(
            (plugin, pod.profile)
            for pod in self.waiting.values()
            for plugin in (pod.rejectors or ({pod.gated_by} if pod.gated_by else ()))
        )

    def in_order(self) -> list[QueuedPod]:
        """All pods: active ones in their order, backoffs in theirs, the others by their time."""
        heaps = (self._backoff, self._error_backoff, self._unschedulable)
        gated = [pod for pod in self.waiting.values() if pod.place is QueueState.GATED]
        others = [pod for heap in heaps for pod in heap.in_order()]
        return self.active.in_order() + others + gated

    def unschedulable(self) -> list[QueuedPod]:
        """Those that are not gated, who was put back first first."""
        return self._unschedulable.in_order()

    def pop_backoff(self) -> QueuedPod | None:
        """Takes the pod whose backoff ends first; none that failed with an error."""
        pod = self._backoff.pop()
        if pod is not None:
            del self.waiting[pod.info.uid]
        return pod

    def pop_ended_backoffs(self) -> Iterator[QueuedPod]:
        """Takes the pods whose backoff is over, if it is time to look for them."""
        now = self._clock.monotonic_seconds()
        if not self._backoff_ticks.passed(now):
            return
        for heap in (self._backoff, self._error_backoff):
            while (until := heap.first()) is not None and until <= now + ROUNDING_SECONDS:
                pod = heap.pop()
                assert pod is not None
                del self.waiting[pod.info.uid]
                yield pod

    def pop_leftovers(self) -> Iterator[QueuedPod]:
        """Takes the pods that nothing has woken for long, if it is time to look for them."""
        now = self._clock.monotonic_seconds()
        if not self._leftover_ticks.passed(now):
            return
        longest = self._options.max_unschedulable + ROUNDING_SECONDS
        while (since := self._unschedulable.first()) is not None and now - since > longest:
            pod = self._unschedulable.pop()
            assert pod is not None
            self.index.remove(pod)
            del self.waiting[pod.info.uid]
            yield pod

    def next_due_seconds(self) -> float | None:
        """In how many seconds a pod is to be taken by one of the two above; None if none is."""
        due = []
        for heap in (self._backoff, self._error_backoff):
            until = heap.first()
            if until is not None:
                due.append(self._backoff_ticks.at_or_after(until))
        since = self._unschedulable.first()
        if since is not None:
            overdue = since + self._options.max_unschedulable + 4 * ROUNDING_SECONDS
            due.append(self._leftover_ticks.at_or_after(overdue))
        if not due:
            return None
        return max(0.0, min(due) - self._clock.monotonic_seconds())

    def enter_active(self, pod: QueuedPod, label: str) -> None:
        """Makes a pod active that is nowhere; ``label`` says what brings it, for metrics."""
        if pod.first_seconds is None:
            pod.first_seconds = self._clock.monotonic_seconds()
        pod.place = ACTIVE
        pod.oversized = self._oversized(pod.info)
        self.waiting[pod.info.uid] = pod
        self.active.push(self._sort_key(pod), pod)
        self.incoming["active", label] += 1

    def enter_backoff(self, pod: QueuedPod, label: str) -> None:
        """Lets a pod wait until its backoff is over; who costs much is not popped early either."""
        costly = pod.oversized or pod.slow is not None
        early = pod.rejectors and not costly
        pod.place = QueueState.BACKOFF if early else QueueState.ERROR_BACKOFF
        self.waiting[pod.info.uid] = pod
        self._heaps[pod.place].push((pod.backoff_until, *self._sort_key(pod)), pod)
        self.incoming["backoff", label] += 1

    def hold(self, pod: QueuedPod, label: str) -> None:
        """Lets a pod wait for an event; it is gated if it names a gating plugin."""
        pod.place = QueueState.GATED if pod.gated_by else QueueState.UNSCHEDULABLE
        self.waiting[pod.info.uid] = pod
        self.index.add(pod)
        if pod.place is QueueState.UNSCHEDULABLE:
            self._unschedulable.push((pod.timestamp,), pod)
        self.incoming["unschedulable", label] += 1

    def leave(self, pod: QueuedPod) -> None:
        """Takes a waiting pod from its place."""
        del self.waiting[pod.info.uid]
        heap = self._heaps.get(pod.place)
        if heap is not None:
            heap.remove(pod)
        if pod.place in (QueueState.UNSCHEDULABLE, QueueState.GATED):
            self.index.remove(pod)

    def renew(self, pod: QueuedPod, info: Any) -> None:
        """Replaces what is known of a waiting pod; its priority and shape may have changed."""
        if pod.place in (QueueState.UNSCHEDULABLE, QueueState.GATED):
            self.index.remove(pod)
            pod.info = info
            self.index.add(pod)
            return
        heap = self._heaps[pod.place]
        heap.remove(pod)
        pod.info, pod.oversized = info, self._oversized(info)
        key = self._sort_key(pod)
        heap.push(key if pod.place is QueueState.ACTIVE else (pod.backoff_until, *key), pod)
