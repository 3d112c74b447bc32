# SPDX-License-Identifier: Apache-2.0
"""Memory quality of one cgroup in plain Python.

Rule: docs/reference/strategies.md#memory-qos.
"""

from __future__ import annotations

from collections.abc import Sequence

NO_LIMIT = 2**63 - 1


def protections(
    request: int, min_percent: int | None, low_percent: int | None
) -> tuple[int | None, int | None]:
    least = None if min_percent is None else request * min_percent // 100
    low = None if low_percent is None else request * low_percent // 100
    if least is not None and low is not None and 0 < low < least:
        low = least
    return least, low


def high(
    request: int, limit: int, node: int, percent: int | None, least: int | None, page: int
) -> int | None:
    if percent is None:
        return None
    if percent == 0:
        return NO_LIMIT
    end = limit if limit > 0 else node
    span = (end - request) * percent
    part = span // 100 if span >= 0 else -(-span // 100)
    value = (request + part) // page * page
    if least is not None and 0 < value < least:
        return least
    return value


def sums(groups: Sequence[int], values: Sequence[int | None], count: int) -> list[int | None]:
    found: list[int | None] = [None] * count
    for group, value in zip(groups, values, strict=True):
        if value is not None:
            found[group] = (found[group] or 0) + value
    return found


def page_cache(limit: int, size: int | None, percent: int | None) -> int | None:
    if size is not None:
        return max(0, min(size, limit) if limit > 0 else size)
    return None if percent is None or limit <= 0 else limit * percent // 100


def min_free_kbytes(memory: int, factor: int | None) -> int | None:
    if factor is None:
        return None
    value = memory // 1024 * factor // 10_000
    return value if 10_240 <= value <= 10_485_760 else None
