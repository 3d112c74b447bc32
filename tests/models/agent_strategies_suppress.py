# SPDX-License-Identifier: Apache-2.0
"""Suppression of one node in plain Python.

Rule: docs/reference/strategies.md#cpu-suppression.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Pod = tuple[float, bool]  # usage in cores, whether it is best effort
CPU = tuple[int, int, int, int]  # cpu, core, socket, NUMA node


def allowed(
    node: float,
    pods: Sequence[Pod],
    hosts: Sequence[Pod],
    capacity_milli: int,
    reserved_milli: int,
    threshold: int,
    least: int | None,
) -> int:
    services = 0.0
    everything = 0.0
    for usage, be in pods:
        everything += usage
        services += 0.0 if be else usage
    host_services = 0.0
    host_everything = 0.0
    for usage, be in hosts:
        host_everything += usage
        host_services += 0.0 if be else usage
    system = max(int(1000 * max(node - everything - host_everything, 0.0)), reserved_milli)
    milli = capacity_milli * threshold // 100
    milli -= int(1000 * services) + int(1000 * host_services) + system
    return milli if least is None else max(milli, capacity_milli * least // 100)


def smoothed(now: int, before: int | None) -> int:
    if before is None or now <= 0:
        return now
    return (now + before) // 2 if now < before else before


def quota(allowed_milli: int, current: int, capacity_milli: int) -> tuple[int, bool]:
    cores = math.ceil(capacity_milli / 1000)
    wanted = max(allowed_milli * 100, 2000)
    if current == -1:
        return wanted, True
    near = abs(wanted - current) < 0.01 * cores * 100_000 and wanted != 2000
    if wanted - current > int(0.1 * cores * 100_000):
        wanted = current + int(0.1 * cores * 100_000)
    return wanted, not near


def counts(allowed_milli: int, old: int, processors: int, lsr: int, shared: int) -> tuple[int, int]:
    total = lsr + shared
    if total < 2:
        return 0, 0
    count = max(2, math.ceil(allowed_milli / 1000))
    step = math.ceil(0.1 * processors)
    if count - old > step:
        count = max(2, old + step)
    count = min(count, total)
    return count * lsr // total, count - count * lsr // total


def pick(cpus: Sequence[CPU], count: int) -> list[int]:
    """The picking with usage marks over fixed lists: docs/reference/strategies.md#picking."""
    if count <= 0 or len(cpus) < count:
        return []
    groups: dict[tuple[int, int], list[CPU]] = {}
    for cpu in cpus:
        groups.setdefault((cpu[3], cpu[2]), []).append(cpu)
    buckets = [sorted(group, key=lambda c: (c[1], c[0])) for group in groups.values()]
    buckets.sort(key=lambda bucket: (-len(bucket), bucket[0][0]))
    used: set[int] = set()
    picked: list[int] = []
    at = 0
    before = None
    while count - len(picked) > 1:
        if at == 0:
            if before == len(picked):
                break
            before = len(picked)
        bucket = buckets[at]
        for one, two in itertools.pairwise(bucket):
            if one[0] not in used and one[1] == two[1]:
                used |= {one[0], two[0]}
                picked += [one[0], two[0]]
                break
        at = (at + 1) % len(buckets)
    start, before = at, None
    while len(picked) < count:
        if at == start:
            if before == len(picked):
                break
            before = len(picked)
        for one in buckets[at]:
            if one[0] not in used:
                used.add(one[0])
                picked.append(one[0])
                break
        at = (at + 1) % len(buckets)
    return picked
