# SPDX-License-Identifier: Apache-2.0
"""Boards, room checks and room scores by brute force."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

NONE, DEFAULT, REVERSED, MIN_MAX, SPREAD = range(5)


def normalised(kind: int, raw: list[int]) -> list[int]:
    """Raw scores of the rows that are compared, as 0..100."""
    if kind == NONE:
        return raw
    if kind == SPREAD:
        counted = [score for score in raw if score >= 0]
        least, most = min(counted, default=0), max(counted, default=0)
        return [
            0 if score < 0 else 100 if most == 0 else 100 * (most + least - score) // most
            for score in raw
        ]
    least, most = min(raw), max(raw)
    if kind == MIN_MAX:
        return [(s - least) * 100 // (most - least) if most > least else 0 for s in raw]
    scaled = [score * 100 // most if most else 0 for score in raw]
    return [100 - score for score in scaled] if kind == REVERSED else scaled


@dataclass
class Board:
    """What is said of each row; the best is looked for afresh."""

    rows: int
    scores: list[tuple[int, int]]
    refused: list[set[int]] = field(default_factory=list)
    raw: dict[int, list[int]] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refused = [{63} for _ in range(self.rows)]
        self.ranks = list(range(self.rows))

    def refuse(self, number: int, rows: list[int], passes: list[bool]) -> None:
        for row, passed in zip(rows, passes, strict=True):
            if passed:
                self.refused[row].discard(number)
            else:
                self.refused[row].add(number)

    def clear(self, number: int) -> None:
        for refused in self.refused:
            refused.discard(number)

    def rate(self, score: int, rows: list[int], raw: list[int]) -> None:
        column = self.raw.setdefault(score, [0] * self.rows)
        for row, value in zip(rows, raw, strict=True):
            column[row] = value

    def best(self, mask: list[bool] | None = None) -> int:
        left = [r for r in range(self.rows) if not self.refused[r] and (mask is None or mask[r])]
        if not left:
            return -1
        totals = [0] * len(left)
        for score, column in self.raw.items():
            weight, kind = self.scores[score]
            for place, part in enumerate(normalised(kind, [column[row] for row in left])):
                totals[place] += weight * part
        return min(zip(left, totals, strict=True), key=lambda p: (-p[1], self.ranks[p[0]]))[0]


def room_score(strategy: str, resources: list[tuple[int, int, int]]) -> int:
    """``least``, ``most`` or ``balanced`` of (allocatable, requested with the pod, weight)."""
    held = [each for each in resources if each[0] > 0]
    if strategy == "balanced":
        fractions = [min(1.0, used / has) for has, used, _ in held]
        if len(fractions) == 2:
            off = abs(fractions[0] - fractions[1]) / 2
        elif len(fractions) > 2:
            mean = sum(fractions) / len(fractions)
            off = math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))
        else:
            off = 0.0
        return int((1 - off) * 100)
    if not held:
        return 0
    weights = sum(weight for _, _, weight in held)
    left = [
        (max(0, has - used) if strategy == "least" else min(used, has)) for has, used, _ in held
    ]
    parts = [
        weight * (part * 100 // has) for part, (has, _, weight) in zip(left, held, strict=True)
    ]
    return sum(parts) // weights
