# SPDX-License-Identifier: Apache-2.0
"""Ratios of two timings taken in turn in one run.

These machines are shared: a single time says little. Both sides run alternately, the fastest round
of each counts (noise only adds time), and what gates is their ratio. A side whose round takes long
has fewer of them: in a long one noise is the average of what else runs, as in the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 5
ROUND_SECONDS = 0.05
# Of a side that has used so much time, so many rounds are enough.
SIDE_SECONDS = 1.0
LEAST_ROUNDS = 2


@dataclass(frozen=True)
class Ratio:
    """Seconds a call of both sides; ``times_faster`` is reference over ours."""

    ours_seconds: float
    reference_seconds: float

    @property
    def times_faster(self) -> float:
        return self.reference_seconds / self.ours_seconds

    def and_again(self, other: Ratio) -> Ratio:
        """The fastest of two measurements, side by side: more rounds only take noise away."""
        return Ratio(
            min(self.ours_seconds, other.ours_seconds),
            min(self.reference_seconds, other.reference_seconds),
        )


class _Side:
    """A function with its fastest round so far; the first is the one that is found long enough."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._calls, self._spent = 1, _seconds(function, 1)
        while self._spent < ROUND_SECONDS and self._calls < 1_000_000:
            self._calls *= 2
            self._spent = _seconds(function, self._calls)
        self._rounds = 1
        self.best = self._spent / self._calls

    def time_round(self) -> None:
        if self._rounds >= LEAST_ROUNDS and self._spent >= SIDE_SECONDS:
            return
        took = _seconds(self._function, self._calls)
        self._rounds += 1
        self._spent += took
        self.best = min(self.best, took / self._calls)


def compare(ours: Callable[[], object], reference: Callable[[], object]) -> Ratio:
    """Times both functions alternately and keeps the fastest round of each."""
    sides = _Side(ours), _Side(reference)
    for _ in range(ROUNDS - 1):
        for side in sides:
            side.time_round()
    return Ratio(sides[0].best, sides[1].best)


def _seconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start
