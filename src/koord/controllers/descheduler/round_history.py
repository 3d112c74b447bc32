# SPDX-License-Identifier: Apache-2.0
"""The last rounds, as many as a bound allows: what was moved or not, and by which rule.

Rounds in which nobody wanted anything are counted in one entry, so that they do not push out those
in which something happened.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koord.api.wirestruct import WireStruct
from koord.controllers.descheduler.framework.outcomes import PodOutcome
from koord.controllers.descheduler.planning.plan import RoundPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.descheduler.framework.outcomes import RoundRecord
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

MOST_ROUNDS = 200
MOST_OUTCOMES = 20_000
"""Of all rounds together."""
MOST_OF_ROUND = 2_000
"""Outcomes of one round that are remembered; further ones are only counted."""


class PastRound(WireStruct):
    """One round, or several in a row in which nothing happened.

    Attributes:
        number: from 1 on, of the first.
        rounds: how many.
        started: wall time of the first in seconds since the Unix epoch.
        ended: of the last.
        seconds: that the last one took.
        nodes, pods: how many there were in the last one.
        dry_run: whether evictions were only counted.
        errors: of the round and its plugins, a line each.
        idle: why it had nothing to do; empty where strategies were asked.
        counts: pods by result.
        outcomes: a pod each, in the order in which strategies wanted them.
        omitted: outcomes that are only counted.
        plan: what was planned, of the nodes those that change; None without a plan.
    """

    number: int = 0
    rounds: int = 1
    started: float = 0.0
    ended: float = 0.0
    seconds: float = 0.0
    nodes: int = 0
    pods: int = 0
    dry_run: bool = False
    errors: list[str] = []
    counts: dict[str, int] = {}
    outcomes: list[PodOutcome] = []
    omitted: int = 0
    plan: RoundPlan | None = None
    idle: str = ""


class RoundHistory:
    """Remembers rounds.

    Args:
        dry_run: whether evictions are only counted.
        rounds: entries that are remembered; the oldest are forgotten first.
        outcomes: that they may have together.
    """

    def __init__(
        self, dry_run: bool, rounds: int = MOST_ROUNDS, outcomes: int = MOST_OUTCOMES
    ) -> None:
        self._dry_run = dry_run
        self._rounds: deque[PastRound] = deque()
        self._most_rounds, self._most_outcomes = rounds, outcomes
        self._outcomes = 0
        self._number = 0

    def add(
        self,
        record: RoundRecord,
        snapshot: ClusterSnapshot,
        started: float,
        seconds: float,
        error: str = "",
        plan: RoundPlan | None = None,
    ) -> PastRound:
        """Remembers a round that has ended.

        Args:
            record: what became of pods.
            snapshot: what it was judged on.
            started: wall time.
            seconds: that it took.
            error: why it did nothing; empty where it ran.
            plan: of the round; None where it was not planned.
        """
        self._number += 1
        outcomes = [] if error else record.outcomes
        made = PastRound(
            self._number, 1, started, started + seconds, round(seconds, 4), len(snapshot.nodes),
            len(snapshot.pods), self._dry_run, [error] if error else list(record.errors),
            dict(sorted(Counter(outcome.result for outcome in outcomes).items())),
            outcomes[:MOST_OF_ROUND], max(0, len(outcomes) - MOST_OF_ROUND),
            _remembered(plan) if outcomes and plan is not None else None, record.idle,
        )  # fmt: skip
        last = self._rounds[-1] if self._rounds else None
        if last is not None and not outcomes and _is_same(last, made):
            made.number, made.started = last.number, last.started
            made.rounds = last.rounds + 1
            self._rounds.pop()
        self._rounds.append(made)
        self._outcomes += len(made.outcomes)
        while self._is_over() and len(self._rounds) > 1:
            self._outcomes -= len(self._rounds.popleft().outcomes)
        return made

    def _is_over(self) -> bool:
        return len(self._rounds) > self._most_rounds or self._outcomes > self._most_outcomes

    def newest_first(self) -> Iterator[PastRound]:
        """What is remembered."""
        return reversed(self._rounds)

    @property
    def since(self) -> float | None:
        """Wall time from which on every round is remembered; None before the first."""
        return self._rounds[0].started if self._rounds else None

    @property
    def rounds(self) -> int:
        """How many rounds are remembered."""
        return sum(each.rounds for each in self._rounds)


def _is_same(last: PastRound, made: PastRound) -> bool:
    """Whether two rounds say the same, the second being one without outcomes."""
    said = (last.errors, last.idle)
    return not last.outcomes and said == (made.errors, made.idle)


def _remembered(plan: RoundPlan) -> RoundPlan:
    """What is kept of a plan: as many steps as outcomes, and the nodes that change."""
    return replace(
        plan,
        steps=plan.steps[:MOST_OF_ROUND],
        staying=plan.staying[:MOST_OF_ROUND],
        nodes=[node for node in plan.nodes if node.leaving or node.arriving],
    )
