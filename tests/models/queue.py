# SPDX-License-Identifier: Apache-2.0
"""The work queue's rule, spelled out: sets and a list, time as a number."""

from __future__ import annotations


class QueueModel:
    """Keys wait in a list; the first of the highest priority is next."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[tuple[str, int]] = []
        self.processing: set[str] = set()
        self.again: dict[str, int] = {}
        self.later: dict[str, float] = {}
        self.failures: dict[str, int] = {}
        self.tokens = 100.0
        self.refilled = 0.0

    def add(self, key: str, priority: int = 0) -> None:
        if key in self.processing:
            self.again[key] = max(priority, self.again.get(key, priority))
            return
        for index, (other, had) in enumerate(self.waiting):
            if other == key:
                if priority > had:
                    del self.waiting[index]
                    self.waiting.append((key, priority))
                return
        self.waiting.append((key, priority))

    def add_after(self, key: str, seconds: float) -> None:
        if seconds <= 0:
            self.add(key)
        else:
            when = self.now + seconds
            if when < self.later.get(key, float("inf")):
                self.later.pop(key, None)
                self.later[key] = when

    def fail(self, key: str) -> None:
        failures = self.failures.get(key, 0)
        self.failures[key] = failures + 1
        self.tokens = min(100.0, self.tokens + (self.now - self.refilled) * 10.0) - 1.0
        self.refilled = self.now
        own = min(0.005 * 2**failures, 1000.0)
        self.add_after(key, max(own, -self.tokens / 10.0))

    def get(self) -> str | None:
        if not self.waiting:
            return None
        highest = max(priority for _, priority in self.waiting)
        index = next(i for i, (_, priority) in enumerate(self.waiting) if priority == highest)
        key, _ = self.waiting.pop(index)
        self.processing.add(key)
        return key

    def done(self, key: str) -> None:
        self.processing.discard(key)
        if key in self.again:
            self.waiting.append((key, self.again.pop(key)))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.later:
            # Of those due at one moment the first that was added.
            key, when = min(self.later.items(), key=lambda item: item[1])
            if when > end:
                break
            del self.later[key]
            self.now = when
            self.add(key)
        self.now = end
