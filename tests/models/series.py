# SPDX-License-Identifier: Apache-2.0
"""Series as sorted lists of samples, and the aggregates as the rule states them."""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Mapping

import numpy as np

MAX_LATE_MS = 60_000


class Series:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.samples: list[tuple[int, float]] = []

    def append(self, time_ms: int, value: float) -> bool:
        times = [time for time, _ in self.samples]
        full = len(times) == self.capacity
        if times and time_ms < times[-1] - MAX_LATE_MS:
            return False
        if time_ms in times or (full and time_ms < times[0]):
            return False
        bisect.insort(self.samples, (time_ms, value))
        self.samples = self.samples[-self.capacity :]
        return True

    def window(self, start_ms: int, end_ms: int) -> list[tuple[int, float]]:
        return [sample for sample in self.samples if start_ms <= sample[0] <= end_ms]


class Store:
    """Rounds by their time; a series is what they say of its key."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rounds: dict[int, dict[Hashable, float]] = {}

    def append(self, time_ms: int, values: Mapping[Hashable, float]) -> int:
        """Gives how many samples were taken."""
        full = len(self.rounds) == self.capacity
        late = time_ms < max(self.rounds, default=time_ms) - MAX_LATE_MS
        before_all = time_ms < min(self.rounds, default=time_ms)
        if not values or late or (full and before_all):
            return 0
        held = self.rounds.setdefault(time_ms, {})
        new = {key: value for key, value in values.items() if key not in held}
        held |= new
        self.keep(self.capacity)
        return len(new)

    def keep(self, capacity: int) -> None:
        self.capacity = capacity
        self.rounds = {time: self.rounds[time] for time in sorted(self.rounds)[-capacity:]}

    def forget(self, key: Hashable) -> None:
        for held in self.rounds.values():
            held.pop(key, None)

    def window(self, key: Hashable, start_ms: int, end_ms: int) -> list[tuple[int, float]]:
        times = [time for time in sorted(self.rounds) if start_ms <= time <= end_ms]
        return [(time, self.rounds[time][key]) for time in times if key in self.rounds[time]]


def average(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def last(samples: list[tuple[int, float]]) -> float:
    time_ms, value = max(samples)
    return value if time_ms > 0 else 0.0


def percentile(values: list[float], share: float) -> float:
    index = int(np.float32(len(values)) * np.float32(share)) - 1
    return sorted(values)[max(0, index)]


class Counters:
    """Counters of many rows, as they were read last and when."""

    def __init__(self, rows: int, kept_seconds: float) -> None:
        self.kept_seconds = kept_seconds
        self.before: list[tuple[int, float] | None] = [None] * rows

    def advance(self, read: list[int | None], at: float) -> list[tuple[int, float | None]]:
        """Amount and seconds a row; None for a row that could not be read."""
        told: list[tuple[int, float | None]] = []
        for row, value in enumerate(read):
            before = self.before[row]
            told.append((0, None))
            if value is None:
                continue
            if before is not None:
                more, passed = value - before[0], at - before[1]
                if 0 <= more < 2**63 and 0 < passed <= self.kept_seconds:
                    told[row] = (more, passed)
            self.before[row] = (value, at)
        return told
