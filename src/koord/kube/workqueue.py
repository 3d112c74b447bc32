# SPDX-License-Identifier: Apache-2.0
"""A queue of keys to work on: each once, one worker a key, failed keys later and later.

The rules and numbers are client-go's ``util/workqueue``: a key that is added while it waits is one
key; added while it is processed it waits again once that is done; a failed key comes back after
5 ms x 2^n, at most 1,000 s, and all failed keys together no faster than 10 a second after a burst
of 100. All waiting is the event loop's, so that virtual time drives it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakSet

from koord.base.metrics import MetricRegistry, registry

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

K = TypeVar("K", bound=Hashable)

_SECONDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


class ShutDown(Exception):
    """The queue hands out nothing more."""


class FailureDelay:
    """How long a failed key waits: the longer of its own back-off and the turn of all failures.

    Args:
        base_seconds: after the first failure; doubles with each.
        most_seconds: bound of a key's own back-off.
        rate: failed keys a second, over all keys.
        burst: failed keys that need not wait for a turn.
    """

    def __init__(
        self,
        base_seconds: float = 0.005,
        most_seconds: float = 1000.0,
        rate: float = 10.0,
        burst: int = 100,
    ) -> None:
        self._base_seconds = base_seconds
        self._most_seconds = most_seconds
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._updated = 0.0

    def seconds(self, failures: int, now: float) -> float:
        """The wait after so many earlier failures of one key.

        Args:
            failures: how often the key failed before.
            now: the event loop's time; takes one turn.
        """
        own = min(self._base_seconds * 2.0 ** min(failures, 64), self._most_seconds)
        earned = (now - self._updated) * self._rate
        self._tokens = min(self._tokens + earned, self._burst) - 1
        self._updated = now
        return max(own, -self._tokens / self._rate, 0.0)


class QueueMetrics:
    """The metrics of all queues of a component, under client-go's names.

    Args:
        metrics: where they are kept; by default nowhere that is exposed.
    """

    def __init__(self, metrics: MetricRegistry | None = None) -> None:
        into = metrics or registry()
        name = ("name",)
        self.depth = into.gauge("workqueue_depth", "Keys that wait.", name)
        self.adds = into.counter("workqueue_adds_total", "Keys added.", name)
        self.retries = into.counter("workqueue_retries_total", "Failed keys added again.", name)
        self.waited = into.histogram(
            "workqueue_queue_duration_seconds", "How long a key waited.", name, _SECONDS
        )
        self.worked = into.histogram(
            "workqueue_work_duration_seconds", "How long a key was worked on.", name, _SECONDS
        )
        self._unfinished = into.gauge(
            "workqueue_unfinished_work_seconds", "Seconds of work in progress.", name
        )
        self._longest = into.gauge(
            "workqueue_longest_running_processor_seconds", "The oldest work in progress.", name
        )
        self._queues: WeakSet[WorkQueue[Hashable]] = WeakSet()

    def watch(self, queue: WorkQueue[K]) -> None:
        """Includes a queue in :meth:`refresh`."""
        self._queues.add(queue)  # type: ignore[arg-type]

    def refresh(self) -> None:
        """Brings the ages of work in progress up to date; call before the metrics are read."""
        for queue in self._queues:
            ages = queue.ages()
            self._unfinished.labels(queue.name).set(sum(ages))
            self._longest.labels(queue.name).set(max(ages, default=0.0))


class WorkQueue(Generic[K]):
    """Keys in the order they came, higher priorities first.

    Used from one event loop. A worker calls :meth:`get`, works, and calls :meth:`done`.

    Args:
        name: in metrics.
        delay: how failed keys are slowed down.
        metrics: shared by the queues of a component.
    """

    def __init__(
        self,
        name: str,
        delay: FailureDelay | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self.name = name
        self._delay = delay or FailureDelay()
        metrics = metrics or QueueMetrics()
        metrics.watch(self)
        self._depth = metrics.depth.labels(name)
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waited = metrics.waited.labels(name)
        self._worked = metrics.worked.labels(name)
        # What waits: key to (priority, order, since); and by priority, orders with their keys as
        # they came, stale ones too.
        self._waiting: dict[K, tuple[int, int, float]] = {}
        self._lines: dict[int, deque[tuple[int, K]]] = {}
        self._order = 0
        self._processing: dict[K, float] = {}
        # Added while being processed: key to priority.
        self._again: dict[K, int] = {}
        # Added for later: key to moment, and moment to the timer and its keys in order.
        self._later: dict[K, float] = {}
        self._moments: dict[float, tuple[TimerHandle, dict[K, None]]] = {}
        self._failures: dict[K, int] = {}
        self._getters: list[asyncio.Future[None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self._shut = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def shut(self) -> bool:
        """Whether the queue takes nothing more."""
        return self._shut

    def add(self, key: K, priority: int = 0) -> None:
        """Adds a key that is to be worked on; nothing happens if it waits already.

        Args:
            key: what to work on.
            priority: higher ones go first; a waiting key keeps the highest it was given.
        """
        if self._shut:
            return
        if key in self._processing:
            if key not in self._again:
                self._adds.inc()
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        if key not in self._waiting:
            self._adds.inc()
            self._enqueue(key, priority, _loop().time())
        elif priority > self._waiting[key][0]:
            self._enqueue(key, priority, self._waiting[key][2])

    def add_all(self, keys: Iterable[K]) -> None:
        """Adds many keys, as :meth:`add` does one after the other."""
        if self._shut:
            return
        now, added = _loop().time(), 0
        for key in keys:
            if key in self._processing or key in self._waiting:
                self.add(key)
                continue
            self._enter(key, 0, now)
            added += 1
        self._adds.inc(added)
        self._depth.set(len(self._waiting))
        self._wake(self._getters, added)

    def add_after(self, key: K, seconds: float) -> None:
        """Adds a key later; of several such wishes for a key the earliest counts."""
        if self._shut:
            return
        if seconds <= 0:
            self.add(key)
            return
        when = _loop().time() + seconds
        waiting = self._later.get(key)
        if waiting is not None:
            if waiting <= when:
                return
            del self._moments[waiting][1][key]
        self._later[key] = when
        if when not in self._moments:
            # One timer a moment: the loop's own order of simultaneous timers is not first come.
            self._moments[when] = _loop().call_at(when, self._due, when), {}
        self._moments[when][1][key] = None

    def add_rate_limited(self, key: K) -> None:
        """Adds a key that failed, after its back-off."""
        if self._shut:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._retries.inc()
        self.add_after(key, self._delay.seconds(failures, _loop().time()))

    def forget(self, key: K) -> None:
        """Ends a key's back-off: its next failure is its first."""
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        """How often a key failed since it was last forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Waits for a key, which stays with the caller until :meth:`done`.

        Raises:
            ShutDown: nothing waits and the queue was shut down.
        """
        while not self._waiting:
            if self._shut:
                raise ShutDown(self.name)
            await self._wait(self._getters)
        while True:
            priority = max(self._lines)
            line = self._lines[priority]
            order, key = line.popleft()
            if not line:
                del self._lines[priority]
            entry = self._waiting.get(key)
            if entry is not None and entry[1] == order:
                break
        del self._waiting[key]
        now = _loop().time()
        self._processing[key] = now
        self._waited.observe(now - entry[2])
        self._depth.set(len(self._waiting))
        return key

    def done(self, key: K) -> None:
        """The caller has worked on the key.

        Raises:
            KeyError: nobody works on it.
        """
        self._worked.observe(_loop().time() - self._processing.pop(key))
        priority = self._again.pop(key, None)
        if priority is not None:
            self._enqueue(key, priority, _loop().time())
        elif not self._processing and not self._waiting:
            self._wake(self._idle, len(self._idle))

    def shut_down(self) -> None:
        """Takes nothing more; what waits is still handed out, what was to come later is dropped."""
        self._shut = True
        for timer, _ in self._moments.values():
            timer.cancel()
        self._moments.clear()
        self._later.clear()
        self._wake(self._getters, len(self._getters))

    async def drain(self) -> None:
        """Shuts down and waits until nothing waits and nothing is worked on."""
        self.shut_down()
        while self._processing or self._waiting:
            await self._wait(self._idle)

    def ages(self) -> list[float]:
        """Seconds that each key in progress has been worked on."""
        if not self._processing:
            return []
        now = _loop().time()
        return [now - since for since in self._processing.values()]

    def _due(self, when: float) -> None:
        _, keys = self._moments.pop(when)
        for key in keys:
            del self._later[key]
            self.add(key)

    def _enter(self, key: K, priority: int, since: float) -> None:
        self._order += 1
        self._waiting[key] = (priority, self._order, since)
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = deque()
        line.append((self._order, key))

    def _enqueue(self, key: K, priority: int, since: float) -> None:
        self._enter(key, priority, since)
        self._depth.set(len(self._waiting))
        self._wake(self._getters, 1)

    async def _wait(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter: asyncio.Future[None] = _loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # A wake-up that this waiter no longer needs belongs to the next one.
            if waiter in waiters:
                waiters.remove(waiter)
            elif self._waiting:
                self._wake(waiters, 1)
            raise

    @staticmethod
    def _wake(waiters: list[asyncio.Future[None]], count: int) -> None:
        while waiters and count:
            waiter = waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                count -= 1


def _loop() -> AbstractEventLoop:
    return asyncio.get_running_loop()
