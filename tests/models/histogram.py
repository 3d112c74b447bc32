# SPDX-License-Identifier: Apache-2.0
"""The decaying histogram as the rule states it, over plain lists."""

from __future__ import annotations

import math
from fractions import Fraction

ZERO_TIME_MS = -62_135_596_800_000
EPSILON = 0.0001


def start(first: float, ratio: float, n: int) -> float:
    return first * (ratio**n - 1) / (ratio - 1)


def count(first: float, maximum: float, ratio: float) -> int:
    return math.ceil(math.log(maximum * (ratio - 1) / first + 1, ratio)) + 1


def bucket(value: float, first: float, ratio: float, buckets: int) -> int:
    """By the logarithm; at a start itself its rounding decides, which koord does not follow."""
    if value < first:
        return 0
    return min(int(math.log(value * (ratio - 1) / first + 1) / math.log(ratio)), buckets - 1)


class Histogram:
    """Weights and the reference time; no minimum and maximum are kept."""

    def __init__(self, starts: list[float], half_life_ms: int) -> None:
        self.starts = starts
        self.half_life_ms = half_life_ms
        self.reference_ms = ZERO_TIME_MS
        self.weights = [0.0] * len(starts)
        self.total = 0.0

    def _shift(self, time_ms: int) -> None:
        half_lives = Fraction(time_ms - ZERO_TIME_MS, self.half_life_ms)
        moved = ZERO_TIME_MS + math.floor(half_lives + Fraction(1, 2)) * self.half_life_ms
        factor = self._factor(self.reference_ms, moved)
        self.weights = [weight * factor for weight in self.weights]
        self.total *= factor
        self.reference_ms = moved

    def _factor(self, time_ms: int, reference_ms: int) -> float:
        exponent = (time_ms - reference_ms) / self.half_life_ms
        return 2.0**exponent if exponent > -2000 else 0.0

    def _decayed(self, weight: float, time_ms: int) -> float:
        if time_ms > self.reference_ms + 100 * self.half_life_ms:
            self._shift(time_ms)
        return weight * self._factor(time_ms, self.reference_ms)

    def _find(self, value: float) -> int:
        return max(n for n, begin in enumerate(self.starts) if begin <= value)

    def add(self, value: float, time_ms: int, weight: float) -> None:
        decayed = self._decayed(weight, time_ms)
        self.weights[self._find(value)] += decayed
        self.total += decayed

    def subtract(self, value: float, time_ms: int, weight: float) -> None:
        decayed = self._decayed(weight, time_ms)
        place = self._find(value)
        self.weights[place] = _floor(self.weights[place] - decayed)
        self.total = _floor(self.total - decayed)

    def merge(self, other: Histogram) -> None:
        if self.reference_ms < other.reference_ms:
            self._shift(other.reference_ms)
        factor = self._factor(other.reference_ms, self.reference_ms)
        theirs = [weight * factor for weight in other.weights]
        self.weights = [a + b for a, b in zip(self.weights, theirs, strict=True)]
        self.total += other.total * factor

    def _range(self) -> range:
        filled = [n for n, weight in enumerate(self.weights) if weight >= EPSILON]
        return range(filled[0], filled[-1] + 1) if filled else range(0)

    def percentile(self, p: float) -> float:
        reached = 0.0
        for n in self._range():
            reached += self.weights[n]
            if reached >= p * self.total or n == self._range()[-1]:
                return self.starts[min(n + 1, len(self.starts) - 1)]
        return 0.0

    def save(self) -> dict[str, int]:
        ratio = 10_000 / max(self.weights) if self._range() else 0.0
        rounded = {n: math.floor(self.weights[n] * ratio + 0.5) for n in self._range()}
        return {str(n): weight for n, weight in rounded.items() if weight}


def _floor(weight: float) -> float:
    return 0.0 if weight < EPSILON else weight
