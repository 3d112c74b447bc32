# SPDX-License-Identifier: Apache-2.0
"""Model of prod reclaimable, step by step.

Rule: docs/reference/measuring.md#reclaimable-of-prod-pods.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any


def predict(
    pods: list[dict[str, Any]],
    peaks: dict[str, tuple[int, int]],
    others: list[tuple[int, int]],
    allocatable: tuple[int, int],
    margin_percent: int,
    cold_start_seconds: float,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Reclaimable and peak, each (CPU milli, memory bytes).

    Args:
        pods: uid, eligible, age, ended, request.
        peaks: p95 CPU and p98 memory of single pods.
        others: those of the system and of the eligible classes.
    """
    factor = Fraction(100 + margin_percent, 100)
    reclaimable, peak = [], []
    for axis in (0, 1):
        needed = left = unpredicted = asked = 0
        seen = set()
        for pod in pods:
            if not pod["eligible"] or pod["uid"] in seen:
                continue
            seen.add(pod["uid"])
            amount = pod["request"][axis]
            counted = True
            if pod["age"] <= cold_start_seconds:
                unpredicted += amount
            elif pod["ended"]:
                pass
            elif pod["uid"] not in peaks:
                unpredicted += amount
                counted = False
            else:
                own = int(peaks[pod["uid"]][axis] * factor)
                needed += own
                left += max(0, amount - own)
            if counted and not pod["ended"]:
                asked += amount
        of_classes = int(sum(other[axis] for other in others) * factor)
        first = min(max(0, allocatable[axis] - needed), left)
        second = min(max(0, allocatable[axis] - of_classes), max(0, asked - of_classes))
        reclaimable.append(min(first, second))
        peak.append(max(needed + unpredicted, of_classes))
    return tuple(reclaimable), tuple(peak)
