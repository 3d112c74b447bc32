# SPDX-License-Identifier: Apache-2.0
"""The rules of cgroup values and files, one obvious step after another."""

from __future__ import annotations

INFINITE = 2**63 - 1


def shares_to_weight(shares: int) -> int:
    return min(max(1 + ((shares - 2) * 9999) // 262142, 1), 10000)


def weight_to_shares(weight: int) -> int:
    return min(max(((weight - 1) * 262142) // 9999 + 2, 2), 262144)


def milli_cpu_to_shares(milli: int) -> int:
    return 2 if milli <= 0 else min(max(milli * 1024 // 1000, 2), 262144)


def milli_cpu_to_quota_us(milli: int) -> int:
    return -1 if milli <= 0 else min(max(milli * 100, 1000), INFINITE)


def key_values(text: str) -> dict[str, str]:
    found = {}
    for line in text.split("\n"):
        fields = line.split()
        if len(fields) >= 2:
            found[fields[0]] = fields[1]
    return found


def cpu_stat(text: str, version: int) -> tuple[int, int, int] | None:
    """None where the file is refused."""
    values = key_values(text)
    try:
        if version == 1:
            return (int(values["nr_periods"]), int(values["nr_throttled"]),
                    int(values["throttled_time"]))  # fmt: skip
        return (int(values["nr_periods"]), int(values["nr_throttled"]),
                int(values["throttled_usec"]) * 1000)  # fmt: skip
    except (KeyError, ValueError):
        return None


def cpu_set(text: str) -> set[int]:
    ids: set[int] = set()
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        ids.update(range(int(first), int(last or first) + 1))
    return ids


def number(text: str) -> int:
    """A limit: none, written `max` or -1, is the largest."""
    first = text.split()[0]
    return INFINITE if first in ("max", "-1") else int(first)


def leveled(tree: list[int], wanted: list[int]) -> list[list[int]]:
    """Every state a chain of limits goes through, parent first, from `tree` to `wanted`."""
    states = [list(tree)]
    for level in range(len(tree)):  # growing, top down
        tree[level] = max(tree[level], wanted[level])
        states.append(list(tree))
    for level in reversed(range(len(tree))):  # the final values, bottom up
        tree[level] = wanted[level]
        states.append(list(tree))
    return states
