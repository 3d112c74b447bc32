# SPDX-License-Identifier: Apache-2.0
"""Runs strategies, each on its interval, those due at the same time on one view of the node.

Rule: docs/reference/measuring.md#intervals-and-flags: each runs at once, and then every interval
counted from the end of its round. What one does wrong never stops another. With ``-v`` 4 every
decision is logged.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.agent.strategies.readings import NotMeasuredYetError
from koord.agent.strategies.registry import enabled
from koord.agent.strategies.strategy import Tick
from koord.base import faults, log
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor, cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.agent.host.machine import Machine
    from koord.agent.metrics.reader import MetricReader
    from koord.agent.states.snapshot import SnapshotSource
    from koord.agent.strategies.options import StrategyOptions
    from koord.agent.strategies.strategy import Actuators, Strategy
    from koord.base.clock import Clock

_LOG = log.get("agent.strategies")
_IDLE_SECONDS = 1.0  # how soon a gate that is switched on is noticed


@dataclass(frozen=True, slots=True)
class TickSource:
    """Where ticks come from."""

    states: SnapshotSource
    metrics: MetricReader
    machine: Machine


@dataclass(frozen=True, slots=True)
class StrategyRun:
    """The last round of a strategy.

    Attributes:
        at_seconds: wall time.
        result: what it saw and decided; of the last round that succeeded.
        error: why this round was given up; empty where it was not.
    """

    at_seconds: float
    result: Mapping[str, object]
    error: str = ""


class StrategyLoop:
    """The strategies of one node.

    Args:
        strategies: in the order in which they run within a round.
        hands: how they act.
        view: what they look at.
        options: gates and instruments.
        clock: when they run.
        after: called after every round with its tick, such as an evictor's watch.
        supervisor: told of failures; each strategy is a part of its own, ``strategy NAME``.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        hands: Actuators,
        view: TickSource,
        options: StrategyOptions,
        clock: Clock,
        after: Sequence[Callable[[Tick], None]] = (),
        supervisor: Supervisor | None = None,
    ) -> None:
        self._strategies = list(strategies)
        self._hands, self._view, self._clock = hands, view, clock
        self._options = options
        self._after = list(after)
        self._supervisor = supervisor or Supervisor("strategies", clock=clock)
        for strategy in self._strategies:
            self._supervisor.part(_part(strategy))
        # A rate takes two readings, the second of which may be a round late.
        self._first_sample_seconds = 3 * options.collect_interval_seconds
        self._began_seconds: float | None = None
        self._due: dict[str, float] = {}
        self._rounds: dict[str, StrategyRun] = {}

    @property
    def rounds(self) -> Mapping[str, StrategyRun]:
        """The last round of each strategy that has run, by name."""
        return dict(self._rounds)

    async def run(self, *, gives_back: bool = True) -> None:
        """Runs rounds until cancelled; then every strategy takes back what it holds.

        One that failed may be called again, and holds all meanwhile.

        Args:
            gives_back: False leaves that to who comes next.
        """
        try:
            while True:
                await asyncio.sleep(self.round())
        except asyncio.CancelledError:
            if gives_back:
                self.stop()
            raise

    def round(self) -> float:
        """Runs what is due; seconds until something is due again."""
        now = self._clock.monotonic_seconds()
        if self._began_seconds is None:
            self._began_seconds = now
        running = self._switched()
        due = [each for each in running if self._due.get(each.name, now) <= now]
        if due:
            tick = self._tick()
            for strategy in due:
                self._run_one(strategy, tick)
            # One end for all: those of one interval stay together, and wake the node once.
            end = self._clock.monotonic_seconds()
            self._due.update((each.name, end + each.interval_seconds) for each in due)
            self._finish(tick)
        end = self._clock.monotonic_seconds()
        return max(0.0, min((self._due[s.name] - end for s in running), default=_IDLE_SECONDS))

    def stop(self) -> None:
        """Stops every strategy that runs."""
        for strategy in self._strategies:
            if strategy.name in self._due:
                self._stop_one(strategy)
        self._settle()

    def _switched(self) -> list[Strategy]:
        """The strategies whose gates are on; one whose gate went off is stopped."""
        running = []
        for strategy in self._strategies:
            if enabled(strategy, self._options.gates):
                running.append(strategy)
            elif strategy.name in self._due:
                self._stop_one(strategy)
        return running

    def _tick(self) -> Tick:
        return Tick(
            now_seconds=self._clock.monotonic_seconds(),
            now_ms=int(self._clock.wall_seconds() * 1000),
            snapshot=self._view.states.snapshot(),
            metrics=self._view.metrics,
            machine=self._view.machine,
        )

    def _run_one(self, strategy: Strategy, tick: Tick) -> None:
        before = self._rounds.get(strategy.name)
        at = self._clock.wall_seconds()
        with self._supervisor.round(_part(strategy)) as this:
            faults.point("agent.strategy.run")
            result = self._result_of(strategy, tick)
        error = this.error
        if error is not None:
            last = before.result if before else {}
            self._rounds[strategy.name] = StrategyRun(at, last, cause_of(error))
            code = error.code if isinstance(error, KoordError) else type(error).__name__
            self._options.instruments.failed(strategy.name, code)
            return
        self._rounds[strategy.name] = StrategyRun(at, result)
        if _LOG.isEnabledFor(logging.DEBUG):
            said = {"strategy": strategy.name, **result}
            _LOG.debug("round", extra=log.fields(**said))

    def _result_of(self, strategy: Strategy, tick: Tick) -> Mapping[str, object]:
        """What a round gives; at the start one may have nothing to look at yet, and is left out."""
        try:
            return strategy.run(tick, self._hands)
        except NotMeasuredYetError as error:
            began = tick.now_seconds if self._began_seconds is None else self._began_seconds
            if tick.now_seconds - began > self._first_sample_seconds:
                raise
            return {"state": f"waits for the first sample of {error.object_name}"}

    def _stop_one(self, strategy: Strategy) -> None:
        del self._due[strategy.name]
        self._rounds.pop(strategy.name, None)
        with self._supervisor.round(_part(strategy)):
            strategy.stop(self._hands)

    def _finish(self, tick: Tick) -> None:
        self._settle()
        for call in self._after:
            with self._supervisor.round("after a round of strategies"):
                call(tick)

    def _settle(self) -> None:
        with self._supervisor.round("executor"):
            self._hands.executor.settle()


def _part(strategy: Strategy) -> str:
    return f"strategy {strategy.name}"
