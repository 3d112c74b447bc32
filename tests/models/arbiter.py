# SPDX-License-Identifier: Apache-2.0
"""What a tree of claims should come to, recomputed from nothing each time."""

from __future__ import annotations

import math
from collections.abc import Mapping

RANKS = {"CPUNormalization": 10, "BatchResource": 20, "CPUSetAllocator": 30}
INFINITE = 2**63 - 1
QUOTA, BURST, CPUS, MEMORY = (
    "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpuset.cpus", "memory.limit_in_bytes",
)  # fmt: skip

# By (resource, directory), then by (owner, scope, layer): the value.
Claims = Mapping[tuple[str, str], Mapping[tuple[str, str, str], object]]


def cpus_of(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def composed(
    resource: str, claims: Mapping[tuple[str, str, str], object], original: object
) -> object:
    """One file by itself; CPUs are sets."""

    def of(layer: str) -> list[object]:
        found = [(RANKS.get(owner, 50), owner, scope, value)
                 for (owner, scope, name), value in claims.items() if name == layer]  # fmt: skip
        return [value for *_, value in sorted(found, key=lambda row: row[:3])]

    value = original
    if resource == CPUS:
        for wanted in of("SET"):
            value = wanted or value
        for wanted in of("RAISE"):
            value = value | wanted
        for wanted in of("CAP"):
            value = (value & wanted) or (wanted or value)
        return value
    for wanted in of("SET"):
        value = wanted
    for ratio in of("SCALE"):
        if value > 0 and ratio > 1:
            value = math.ceil(value / ratio)
    limits = resource in (QUOTA, MEMORY)

    def key(number: int) -> int:
        return INFINITE if limits and number < 0 else number

    value = max([value, *of("RAISE")], key=key)
    return min([value, *of("CAP")], key=key)


def final(
    resource: str, directory: str, claims: Claims, originals: Mapping[tuple[str, str], object]
) -> object:
    """One file within what the kernel (v1) demands of it."""
    value = composed(
        resource, claims.get((resource, directory), {}), originals[resource, directory]
    )
    if resource == QUOTA and value >= 0:
        value = max(value, 1000)
        above = directory
        while above:
            above = above.rpartition("/")[0]
            limit = final(QUOTA, above, claims, originals)
            if limit > 0:
                value = min(value, limit)
    if resource == CPUS and directory:
        outer = final(CPUS, directory.rpartition("/")[0], claims, originals)
        value = (value & outer) or outer
    if resource == BURST:
        quota = final(QUOTA, directory, claims, originals)
        if quota >= 0:
            value = min(value, quota)
    return value
