# SPDX-License-Identifier: Apache-2.0
"""What a strategy is: a pure decision over columns, and a thin actor that carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.executor.claim import Executor
    from koord.agent.host.machine import Machine
    from koord.agent.metrics.reader import MetricReader
    from koord.agent.states.snapshot import Snapshot
    from koord.agent.strategies.eviction.evictor import Evictor


@dataclass(frozen=True, slots=True)
class Tick:
    """Everything a round may look at: immutable, the same for every strategy of the round.

    Attributes:
        now_seconds: monotonic, for ages and cool-downs.
        now_ms: wall time, for windows of metrics.
        snapshot: what the cluster says.
        metrics: what was measured.
        machine: what the host is.
    """

    now_seconds: float
    now_ms: int
    snapshot: Snapshot
    metrics: MetricReader
    machine: Machine


@dataclass(frozen=True, slots=True)
class Actuators:
    """The two ways in which a strategy acts."""

    executor: Executor
    evictor: Evictor


class Strategy(Protocol):
    """One control loop; registered by entry point group ``koord.agent.strategies``.

    An entry point is a callable ``(StrategyOptions) -> Strategy``. A gate ``A|B`` is on where one
    of the two is, no gate always. The loop runs ``run`` at once and then
    every ``interval_seconds`` (counted from the end of the round) while ``gate`` is on.
    """

    name: str
    gate: str
    interval_seconds: float

    def run(self, tick: Tick, hands: Actuators) -> Mapping[str, object]:
        """One round; gives what it saw and decided, for ``koord node status`` and the log.

        Raises:
            KoordError: the round is given up; what was stated before stays.
        """
        ...

    def stop(self, hands: Actuators) -> None:
        """Takes back what it holds, when the gate or the agent goes."""
        ...
