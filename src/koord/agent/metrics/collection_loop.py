# SPDX-License-Identifier: Apache-2.0
"""Runs every collector on its interval, and keeps each one's failures to itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from koord.agent.metrics.cgroup_tables import CgroupTables
from koord.agent.metrics.collector import CollectionRound, MachineInventory, SharedReadings
from koord.agent.states.snapshot import NEVER
from koord.base.errors import one_line
from koord.base.faults import point
from koord.base.supervision import Supervisor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from koord.agent.host.machine import Machine
    from koord.agent.metrics.collector import Collector
    from koord.agent.metrics.samples import Samples
    from koord.agent.metrics.storage.metric_cache import MetricCache
    from koord.agent.states.snapshot import Snapshot
    from koord.base.clock import Clock

    Work = Callable[[], Samples]

EXPIRE_SECONDS = 30.0
_BREATH_SECONDS = 0.001


@dataclass(slots=True)
class CollectorState:
    """How a collector does.

    Attributes:
        collector: which.
        beat_seconds: monotonic time at which its next round begins, or began.
        due_seconds: when it is called next: at the beat, or at the end of the window.
        ran: whether it had a round, good or not.
        good_seconds: monotonic time of the last round that measured; minus infinity before.
        error: what the last round failed with; empty after a good one.
        good_rounds, failed_rounds: how many there were; a window that failed to open is one.
    """

    collector: Collector
    beat_seconds: float
    due_seconds: float
    ran: bool = False
    good_seconds: float = NEVER
    error: str = ""
    good_rounds: int = 0
    failed_rounds: int = 0
    busy: bool = field(default=False, repr=False)

    def counted(self) -> bool:
        """Whether a window is open."""
        return self.due_seconds > self.beat_seconds

    def next_beat(self, now_seconds: float) -> None:
        """The next beat of its own rhythm; beats that were missed are left out."""
        interval = self.collector.interval_seconds
        missed = max(0, int((now_seconds - self.beat_seconds) // interval))
        self.beat_seconds += (missed + 1) * interval
        self.due_seconds = self.beat_seconds


class CollectionLoop:
    """The agent's eyes: what is due is run in the order of the collectors, and goes to the cache.

    Collectors that are due together see the same :class:`CollectionRound`. One that fails is
    noted by the supervisor; the others do not notice. A collector that may hang runs
    through ``aside``, and is not called again before it has come back.

    Args:
        machine: what is measured.
        snapshot: gives the newest view of the cluster.
        cache: where samples go.
        collectors: in the order in which they run.
        clock: time.
        groups: the cgroups that are read; by default those of the machine's hierarchy.
        aside: runs what may hang, by default in a thread; None runs it in place.
        sleep: waits.
        supervisor: told of failures; each collector is a part of its own, ``collector NAME``.
    """

    def __init__(
        self,
        machine: Machine,
        snapshot: Callable[[], Snapshot],
        cache: MetricCache,
        collectors: Sequence[Collector],
        clock: Clock,
        groups: CgroupTables | None = None,
        aside: Callable[[Work], Awaitable[Samples]] | None = asyncio.to_thread,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._machine = machine
        self._snapshot = snapshot
        self._cache = cache
        self._clock = clock
        self._aside = aside
        self._sleep = sleep
        self._groups = groups or CgroupTables(machine.hierarchy, clock)
        self._next_expiry = NEVER
        self._supervisor = supervisor or Supervisor("metrics", clock=clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()
        self._stopped = False
        self.shared_readings, self.facts = SharedReadings(), MachineInventory()
        now = clock.monotonic_seconds()
        self.collector_states = {one.name: CollectorState(one, now, now) for one in collectors}
        for name in self.collector_states:
            self._supervisor.part(_part(name))

    @property
    def ready(self) -> bool:
        """Whether every collector had its first round."""
        return all(standing.ran for standing in self.collector_states.values())

    @property
    def next_due_seconds(self) -> float:
        """Monotonic time at which :meth:`step` has something to do."""
        return min(
            (s.due_seconds for s in self.collector_states.values()), default=self._next_expiry
        )

    async def wait_ready(self) -> None:
        """Returns when every collector had its first round."""
        await self._ready.wait()

    async def run(self) -> None:
        """Rounds until cancelled; then descriptors and sessions are given back.

        One that failed may be called again.
        """
        try:
            while True:
                self._begin()
                wait = self.next_due_seconds - self._clock.monotonic_seconds()
                # Never 0: a collector that takes longer than its interval must not starve others.
                await self._sleep(max(wait, _BREATH_SECONDS))
        except asyncio.CancelledError:
            self.stop()
            raise

    def _begin(self) -> None:
        """A step; who waits for the first rounds does not wait for what fails every time."""
        try:
            self.step()
        except Exception:
            self._ready.set()
            raise
        if self.ready:
            self._ready.set()

    def step(self) -> None:
        """Runs what is due now."""
        now_seconds = self._clock.monotonic_seconds()
        due = [s for s in self.collector_states.values() if s.due_seconds <= now_seconds]
        if due:
            now = self._round(now_seconds)
            for standing in due:
                self._turn(standing, now)
        if now_seconds >= self._next_expiry:
            self._next_expiry = now_seconds + EXPIRE_SECONDS
            self._cache.expire(self._wall_ms())

    def stop(self) -> None:
        """Gives back what collectors hold, and the kept descriptors; once and for all."""
        if self._stopped:
            return
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        for standing in self.collector_states.values():
            standing.collector.stop()
        self._groups.close()

    def _wall_ms(self) -> int:
        return round(self._clock.wall_seconds() * 1000)

    def _round(self, now_seconds: float) -> CollectionRound:
        return CollectionRound(
            now_seconds=now_seconds,
            now_ms=self._wall_ms(),
            snapshot=self._snapshot(),
            machine=self._machine,
            groups=self._groups,
            shared_readings=self.shared_readings,
            facts=self.facts,
            clock=self._clock,
        )

    def _turn(self, state: CollectorState, now: CollectionRound) -> None:
        """One beat: opens a window, or collects."""
        collector = state.collector
        if collector.window_seconds > 0 and not state.counted():
            self._guard(state, lambda: collector.begin(now))
            if not state.error:
                state.due_seconds = now.now_seconds + collector.window_seconds
                return
        elif not state.busy:
            self._collect(state, now)
        state.next_beat(now.now_seconds)

    def _collect(self, state: CollectorState, now: CollectionRound) -> None:
        collector = state.collector
        if collector.blocking and self._aside is not None:
            state.busy = True
            self._start(state, partial(self._collect_aside, self._aside, state, now))
        else:
            self._guard(state, lambda: self._take(state, now, collector.collect(now)))

    def _start(self, state: CollectorState, work: Callable[[], Awaitable[None]]) -> None:
        task = self._supervisor.once("collectors aside", work, _part(state.collector.name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect_aside(
        self,
        aside: Callable[[Work], Awaitable[Samples]],
        state: CollectorState,
        now: CollectionRound,
    ) -> None:
        try:
            samples = await aside(lambda: state.collector.collect(now))
        except Exception as error:
            self._failed(state, error)
        else:
            self._guard(state, lambda: self._take(state, now, samples))
        finally:
            state.busy = False

    def _take(self, state: CollectorState, now: CollectionRound, samples: Samples) -> None:
        self._cache.append(samples)
        state.good_seconds = now.now_seconds
        state.good_rounds += 1

    def _guard(self, state: CollectorState, work: Callable[[], object]) -> None:
        try:
            point(f"metrics.collect.{state.collector.name}")
            point(f"supervised.{_part(state.collector.name)}")
            work()
        # Whatever a collector of another package does, the others go on.
        except Exception as error:
            self._failed(state, error)
            return
        self._supervisor.worked(_part(state.collector.name))
        state.error, state.ran = "", True

    def _failed(self, state: CollectorState, error: Exception) -> None:
        state.failed_rounds += 1
        self._supervisor.failed(_part(state.collector.name), error)
        state.error, state.ran = one_line(f"{error}" or type(error).__name__), True


def _part(collector: str) -> str:
    return f"collector {collector}"
