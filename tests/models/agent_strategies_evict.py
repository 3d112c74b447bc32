# SPDX-License-Identifier: Apache-2.0
"""Evictions of one node in plain Python.

Rules: docs/reference/evictions.md#cpu-evictions,
docs/reference/evictions.md#memory-evictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key

Tier = tuple[float, float, float]  # usage, request, limit in milli-cores
Amounts = Mapping[str, Mapping[str, int]]  # by target, then resource


def by_usage(used: int, capacity: int, threshold: int, lower: int) -> int:
    if capacity <= 0:
        return 0
    percent = used * 100 // capacity
    return 0 if percent < threshold else capacity * (percent - lower) // 100


def by_requests(
    requested: int, allocatable: int, threshold: int, lower: int, as_ratio: bool
) -> int:
    if allocatable <= 0:
        return requested
    ratio = requested / allocatable
    if not ratio > threshold / 100:
        return 0
    if as_ratio:
        return int((ratio - lower / 100) * allocatable)
    return int(requested - lower / 100 * allocatable)


def _busy(tier: Tier, threshold: int) -> bool:
    usage, _, limit = tier
    if limit <= 0:
        return False
    return limit < 1000 or usage / limit >= threshold / 100


def _release(tier: Tier, lower: int, upper: int) -> int:
    _, request, limit = tier
    if request <= 0:
        return 0
    satisfied = limit / request
    if satisfied > lower / 100:
        return 0
    gap = upper / 100 - satisfied
    return 0 if gap <= 0 else int(request * gap)


def satisfaction(average: Tier, last: Tier, lower: int, upper: int, threshold: int) -> int:
    if not _busy(average, threshold):
        return 0
    amount = _release(average, lower, upper)
    if amount <= 0 or not _busy(last, threshold):
        return 0
    if last[1:] == average[1:]:
        return amount
    now = _release(last, lower, upper)
    return 0 if now <= 0 else min(amount, now)


def _sorted(
    rows: Sequence[tuple[int, ...]], before: Callable[[tuple[int, ...]], object]
) -> list[int]:
    return [at for at, _ in sorted(enumerate(rows), key=lambda each: before(each[1]))]


def priority_order(rows: Sequence[tuple[int, int, int, int]]) -> list[int]:
    """Rows of (eviction priority, priority, label priority, weight)."""

    def compare(one: tuple[int, tuple[int, ...]], two: tuple[int, tuple[int, ...]]) -> int:
        (i, a), (j, b) = one, two
        for x, y in zip(a[:3], b[:3], strict=True):
            if x != y:
                return x - y
        return b[3] - a[3] or i - j

    return [at for at, _ in sorted(enumerate(rows), key=cmp_to_key(compare))]


def share_order(rows: Sequence[tuple[int, int, int]]) -> list[int]:
    """Rows of (priority, used, requested)."""
    return _sorted(rows, lambda r: (r[0], -(r[1] / r[2] if r[2] > 0 else 0.0)))


def memory_order(rows: Sequence[tuple[int, int, str]]) -> list[int]:
    """Rows of (priority, used bytes, name)."""

    def compare(a: tuple[int, int, str], b: tuple[int, int, str]) -> int:
        if a[0] != b[0]:
            return a[0] - b[0]
        if a[1] and b[1]:
            return b[1] - a[1]
        if not a[1] and not b[1]:
            return (a[2] < b[2]) - (a[2] > b[2])
        return -1 if a[1] else 1

    return _sorted(rows, cmp_to_key(compare))


def walk(
    tasks: Sequence[tuple[str, Mapping[str, int], Sequence[tuple[str, Amounts]]]],
    gone: set[str],
    refused: set[str],
) -> tuple[list[str], dict[str, dict[str, int]]]:
    """Pods that are evicted, in order, and the totals.

    Args:
        tasks: target, amounts to release, and victims with what each releases.
        gone: pods that were evicted before.
        refused: pods that cannot be.
    """
    totals: dict[str, dict[str, int]] = {}
    evicted: list[str] = []
    seen: set[str] = set()
    for target, wanted, victims in tasks:
        for name, amounts in victims:
            done = totals.get(target, {})
            if all(amount <= 0 or amount <= done.get(r, 0) for r, amount in wanted.items()):
                break
            if name in seen:
                continue
            seen.add(name)
            if name in refused and name not in gone:
                continue
            if name not in gone:
                evicted.append(name)
            for where, parts in amounts.items():
                into = totals.setdefault(where, {})
                for resource, amount in parts.items():
                    into[resource] = into.get(resource, 0) + amount
    return evicted, totals
