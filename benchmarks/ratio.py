# SPDX-License-Identifier: Apache-2.0
"""Ratios of two timings taken in turn in one run.

These machines are shared: a single time says little. Both sides run alternately, the fastest round
of each counts (noise only adds time), and what gates is their ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 5
ROUND_SECONDS = 0.05


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


def compare(ours: Callable[[], object], reference: Callable[[], object]) -> Ratio:
    """Times both functions alternately and keeps the fastest round of each."""
    ours_calls, reference_calls = _calls(ours), _calls(reference)
    ours_best = reference_best = float("inf")
    for _ in range(ROUNDS):
        ours_best = min(ours_best, _seconds(ours, ours_calls) / ours_calls)
        reference_best = min(reference_best, _seconds(reference, reference_calls) / reference_calls)
    return Ratio(ours_best, reference_best)


def _calls(function: Callable[[], object]) -> int:
    calls = 1
    while _seconds(function, calls) < ROUND_SECONDS and calls < 1_000_000:
        calls *= 2
    return calls


def _seconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - start
