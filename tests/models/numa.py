# SPDX-License-Identifier: Apache-2.0
"""NUMA alignment the slow way: every combination of hints, every mask, a full trial per mask.

Zones are positions 0..k-1, tables are ``{zone: {resource: amount}}``, CPU in milli.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Table = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True)
class Hint:
    affinity: int | None = None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


def masks(zones: int) -> list[int]:
    return [
        sum(1 << zone for zone in chosen)
        for size in range(1, zones + 1)
        for chosen in itertools.combinations(range(zones), size)
    ]


def text(mask: int) -> str:
    width = next((w + 2 for w in range(62, 1, -2) if mask > 1 << w), 2)
    return format(mask, "b").zfill(width)


def available(
    total: Table, used: Table, reusable: Table, bound: Mapping[int, int], ratio: float
) -> dict[int, dict[str, int]]:
    result = {}
    for zone, amounts in total.items():
        taken: dict[str, int] = {}
        if zone in used:
            taken = dict(used[zone])
            if ratio > 1:
                milli = 1000 * bound.get(zone, 0)
                taken["cpu"] = taken.get("cpu", 0) - milli + math.ceil(milli * ratio)
            back = reusable.get(zone, {})
            taken = {r: max(0, taken.get(r, 0) - back.get(r, 0)) for r in {*taken, *back}}
        result[zone] = {
            r: max(0, amounts[r] - taken.get(r, 0)) if r in amounts else 0
            for r in {*amounts, *taken}
        }
    return result


@dataclass(frozen=True)
class Binding:
    needed: int
    bindable: Mapping[int, int]
    required: bool = False
    full_cores: bool = False
    threads: int = 1


def split(resource: str, remaining: int, ways: int, binding: Binding | None) -> int:
    if resource != "cpu" or binding is None:
        return remaining // ways
    cpus = math.ceil(remaining / 1000)
    if binding.required and binding.full_cores:
        return cpus // binding.threads // ways * binding.threads * 1000
    return cpus // ways * 1000


def distribute(
    free: Table, requests: Mapping[str, int], mask: int, binding: Binding | None
) -> tuple[dict[int, dict[str, int]], list[str]]:
    trimmed = {zone: dict(amounts) for zone, amounts in free.items()}
    if binding is not None and binding.required:
        for zone, amounts in trimmed.items():
            if amounts.get("cpu"):
                amounts["cpu"] = min(amounts["cpu"], 1000 * binding.bindable[zone])
    given: dict[int, dict[str, int]] = {}
    missing = []
    for resource, amount in sorted(requests.items()):
        if not any(resource in amounts for amounts in trimmed.values()):
            continue
        hinted = [zone for zone in sorted(trimmed) if mask >> zone & 1]
        hinted.sort(key=lambda zone: trimmed[zone].get(resource, 0))
        remaining = amount
        for i, zone in enumerate(hinted):
            share = split(resource, remaining, len(hinted) - i, binding)
            taken = min(share, trimmed[zone].get(resource, 0))
            remaining -= taken
            if taken:
                given.setdefault(zone, {})[resource] = taken
        if remaining != 0:
            missing.append(resource)
    return given, missing


def allocates(free: Table, requests: Mapping[str, int], mask: int, binding: Binding | None) -> bool:
    """A trial allocation with CPUs as objects: each zone hands out real (core, thread) pairs."""
    given, missing = distribute(free, requests, mask, binding)
    if missing:
        return False
    if binding is None:
        return True
    cpus = {
        zone: [(zone, i // binding.threads, i % binding.threads) for i in range(count)]
        for zone, count in binding.bindable.items()
    }
    everything = [cpu for zone in sorted(cpus) for cpu in cpus[zone]]
    if len(everything) < binding.needed:
        return False
    if given:
        picked = [c for z in given for c in cpus[z][: given[z].get("cpu", 0) // 1000]]
        if len(picked) != binding.needed:
            return False
    else:
        picked = everything[: binding.needed]
    if binding.required and binding.full_cores:
        return len({cpu[:2] for cpu in picked}) * binding.threads == len(picked)
    return True


def score(
    most: bool,
    weights: Mapping[str, int],
    requested: Mapping[str, int],
    allocatable: Mapping[str, int],
    pod: Mapping[str, int],
) -> int:
    total = weight_sum = 0
    for resource, weight in weights.items():
        capacity = allocatable.get(resource, 0)
        scalar = resource not in ("cpu", "memory", "ephemeral-storage")
        if capacity == 0 or (scalar and pod.get(resource, 0) == 0):
            continue
        use = requested.get(resource, 0) + pod.get(resource, 0)
        if most:
            total += weight * toward_zero(min(use, capacity) * 100, capacity)
        elif use <= capacity:
            total += weight * toward_zero((capacity - use) * 100, capacity)
        weight_sum += weight
    return toward_zero(total, weight_sum) if weight_sum else 0


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def generate_hints(
    total: Table,
    free: Table,
    requests: Mapping[str, int],
    pools: Sequence[tuple[Table, Binding | None]],
    scoring: tuple[bool, Mapping[str, int]] | None,
    restricted: bool,
) -> dict[str, list[Hint]]:
    listed = {resource for amounts in total.values() for resource in amounts}
    tracked: set[str] = set()
    found: dict[str, list[tuple[int, int]]] = {}
    smallest = dict.fromkeys(requests, len(total))
    for mask in masks(len(total)):
        zones = [zone for zone in total if mask >> zone & 1]
        sums = [
            {r: sum(t[zone].get(r, 0) for zone in zones) for r in listed} for t in (total, free)
        ]
        tracked |= {r for r in requests if any(r in total[zone] for zone in zones)}
        if not any(allocates(pool, requests, mask, binding) for pool, binding in pools):
            continue
        points = 0
        if scoring is not None:
            used = {r: max(0, sums[0][r] - sums[1][r]) for r in listed}
            points = score(*scoring, used, sums[0], requests)
        for resource in tracked:
            if any(free[zone].get(resource, 0) == 0 for zone in zones):
                continue
            smallest[resource] = min(smallest[resource], mask.bit_count())
            found.setdefault(resource, []).append((mask, points))
    return {
        resource: [
            Hint(mask, restricted or mask.bit_count() == smallest[resource], False, points)
            for mask, points in found.get(resource, [])
        ]
        for resource in tracked
    }


def passes_exclusive(mask: int, required: bool, statuses: Sequence[str]) -> bool:
    barred = "single" if mask.bit_count() > 1 else "shared"
    return not required or all(statuses[z] != barred for z in range(64) if mask >> z & 1)


def merge(
    everything: int, lists: Sequence[Sequence[Hint]], required: bool, statuses: Sequence[str]
) -> Hint:
    best = Hint(everything)
    for combination in itertools.product(*lists):
        affinities = [hint.affinity for hint in combination if hint.affinity is not None]
        mask = everything
        for affinity in affinities:
            mask &= affinity
        if mask == 0:
            continue
        preferred = all(hint.preferred for hint in combination) and len(set(affinities)) <= 1
        widest = max((affinity.bit_count() for affinity in affinities), default=mask.bit_count())
        merged = Hint(
            mask,
            preferred and passes_exclusive(mask, required, statuses),
            any(hint.unsatisfied for hint in combination) or widest != mask.bit_count(),
            sum(hint.score for hint in combination if hint.affinity == mask),
        )
        if replaces(merged, best):
            best = merged
    return best


def replaces(new: Hint, best: Hint) -> bool:
    if new.preferred != best.preferred:
        return new.preferred
    assert new.affinity is not None
    assert best.affinity is not None
    sizes = new.affinity.bit_count(), best.affinity.bit_count()
    if sizes[0] != sizes[1]:
        return sizes[0] < sizes[1]
    return new.affinity < best.affinity or new.score > best.score


def summary(resource: str, hints: Sequence[Hint]) -> str:
    shown = [hint for hint in hints if not hint.unsatisfied]
    possible = ["<nil>" if hint.affinity is None else text(hint.affinity) for hint in shown]
    preferred = [mask for mask, hint in zip(possible, shown, strict=True) if hint.preferred]
    return f"{resource} prefer [{' '.join(preferred)}] among [{' '.join(possible)}]"


def admit(
    policy: str,
    everything: int,
    providers: Sequence[Mapping[str, Sequence[Hint] | None]],
    required: bool,
    statuses: Sequence[str],
) -> tuple[Hint, bool, list[str]]:
    lists: list[list[Hint]] = []
    reasons: list[str] = []
    summaries: list[str] = []
    for provider in providers:
        if not provider:
            lists.append([Hint(preferred=True)])
        for resource, hints in sorted(provider.items()):
            if hints is None:
                lists.append([Hint(preferred=True)])
            elif not hints:
                lists.append([Hint(unsatisfied=True)])
                reasons.append(f"Unsatisfied NUMA {resource}")
            else:
                lists.append(list(hints))
                summaries.append(summary(resource, hints))
    summaries.sort()
    if policy == "":
        return Hint(), True, []
    if policy == "BestEffort":
        best = merge(everything, lists, required, statuses)
        return (Hint(everything) if best.unsatisfied else best), True, []
    if policy == "Restricted":
        if reasons:
            return Hint(everything), False, reasons
        best = merge(everything, lists, required, statuses)
        joined = " & ".join(summaries)
    else:
        if reasons:
            return Hint(), False, reasons
        narrow = [[h for h in hints if h.preferred and is_narrow(h)] for hints in lists]
        best = merge(everything, narrow, required, statuses)
        if best.affinity == everything:
            best = Hint(preferred=best.preferred)
        joined = ",".join(summaries)
    if best.preferred:
        return best, True, []
    return best, False, [f"Unaligned NUMA Hint cause {joined}"]


def is_narrow(hint: Hint) -> bool:
    return hint.affinity is None or hint.affinity.bit_count() == 1
