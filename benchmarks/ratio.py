# SPDX-License-Identifier: Apache-2.0
"""Ratios of two timings taken in turn in one run.

These machines are shared: a single time says little. Both sides run alternately, the fastest round
of each counts (noise only adds time), and what gates is their ratio. A side whose single call takes
long has fewer rounds: in a long one noise is the average of what else runs, as in the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 5
ROUND_SECONDS = 0.05
# Where one call takes so long, so many rounds are enough.
LONG_CALL_SECONDS = 0.3
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
        self._calls, took = 1, _seconds(function, 1)
        while took < ROUND_SECONDS and self._calls < 1_000_000:
            self._calls *= 2
            took = _seconds(function, self._calls)
        self._rounds = 1
        self.best = took / self._calls

    def time_round(self) -> None:
        if self._rounds >= LEAST_ROUNDS and self.best >= LONG_CALL_SECONDS:
            return
        self._rounds += 1
        self.best = min(self.best, _seconds(self._function, self._calls) / self._calls)


def compare(ours: Callable[[], object], reference: Callable[[], object]) -> Ratio:
    """Times both functions alternately and keeps the fastest round of each."""
    sides = _Side(ours), _Side(reference)
    for _ in range(ROUNDS):
        for side in sides:
            side.time_round()
    return Ratio(sides[0].best, sides[1].best)


def _seconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start
