# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import bisect
from itertools import accumulate

from benchmarks.conftest import Gate
from koord.kernels.histogram import CPU, Histogram
from tests.models import histogram as model

MINUTE_MS = 60_000
HALF_LIFE_MS = 12 * 60 * MINUTE_MS
STARTS = CPU.starts.tolist()


class Plain:
    """The bare loop over lists, with a binary search and no checks."""

    def __init__(self) -> None:
        self.weights = [0.0] * len(STARTS)
        self.total = 0.0

    def add(self, value: float, time_ms: int) -> None:
        weight = 2.0 ** (time_ms / HALF_LIFE_MS)
        self.weights[bisect.bisect_right(STARTS, value) - 1] += weight
        self.total += weight

    def percentile(self, p: float) -> float:
        return STARTS[bisect.bisect_left(list(accumulate(self.weights)), p * self.total) + 1]


def filled(histogram: Histogram | Plain) -> None:
    for i in range(1000):
        histogram.add(0.01 * (i % 500), i * MINUTE_MS)


def test_add(gate: Gate) -> None:
    ours, plain = Histogram(CPU, HALF_LIFE_MS), model.Histogram(STARTS, HALF_LIFE_MS)
    gate(
        "histogram: add",
        lambda: ours.add(0.7, MINUTE_MS),
        lambda: plain.add(0.7, MINUTE_MS, 1.0),
        3.0,
    )


def test_percentile(gate: Gate) -> None:
    ours, plain = Histogram(CPU, HALF_LIFE_MS), Plain()
    filled(ours)
    filled(plain)
    gate(
        "histogram: percentile", lambda: ours.percentile(0.95), lambda: plain.percentile(0.95), 4.0
    )
    assert ours.percentile(0.95) == plain.percentile(0.95)
