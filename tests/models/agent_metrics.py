# SPDX-License-Identifier: Apache-2.0
"""The agent's measurements as the rules state them: plain loops over dictionaries."""

from __future__ import annotations

from tests.models.series import MAX_LATE_MS, Store

Labels = tuple[str, ...]


class Counters:
    """Differences of counters, one key at a time."""

    def __init__(self, kept_seconds: float) -> None:
        self.kept_seconds = kept_seconds
        self.before: dict[Labels, tuple[int, float]] = {}

    def advance(self, readings: dict[Labels, int | None], at: float) -> dict[Labels, float | None]:
        """Amount a second by key; None where there is nothing to tell."""
        found: dict[Labels, float | None] = {}
        for key, value in readings.items():
            found[key] = None
            if value is None:
                continue
            if key in self.before:
                old, then = self.before[key]
                if 0 < at - then <= self.kept_seconds and value >= old:
                    found[key] = (value - old) / (at - then)
            self.before[key] = (value, at)
        self.before = {key: point for key, point in self.before.items() if key in readings}
        return found


class Cache:
    """Series by labels; a clock set back by more than a minute empties all."""

    def __init__(self, capacity: int) -> None:
        self.store = Store(capacity)
        self.labels: set[Labels] = set()
        self.newest = 0

    def append(self, time_ms: int, values: dict[Labels, float | None]) -> None:
        if self.newest and time_ms < self.newest - MAX_LATE_MS:
            self.store, self.labels, self.newest = Store(self.store.capacity), set(), 0
        self.newest = max(self.newest, time_ms)
        held = {labels: value for labels, value in values.items() if value is not None}
        self.labels |= held.keys()
        self.store.append(time_ms, held)

    def window(self, start_ms: int, end_ms: int) -> dict[Labels, list[tuple[int, float]]]:
        found = {
            labels: self.store.window(labels, start_ms, end_ms) for labels in sorted(self.labels)
        }
        return {labels: samples for labels, samples in found.items() if samples}


def busy_ticks(line: str) -> int:
    """user + nice + system + irq + softirq of a line of /proc/stat."""
    fields = line.split()
    return sum(int(fields[column]) for column in (1, 2, 3, 6, 7))


def best_effort_usage_milli(used_ns: int, passed_ms: int) -> int:
    return int(1000 * float(used_ns // 1_000_000) / passed_ms)


def system_usage(node: float, pods: list[float], applications: list[float]) -> float:
    return max(0.0, node - sum(pods) - sum(applications))


def perf_count(counts: list[tuple[int, int, int]]) -> float:
    """(count, enabled, running) a CPU: each scaled to the whole time, then added up."""
    total = 0.0
    for count, enabled, running in counts:
        total += count * enabled / running if enabled and running else count
    return total
