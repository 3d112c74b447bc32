# SPDX-License-Identifier: Apache-2.0
"""Device allocation and the fragmentation measure, slowly and obviously."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from koord.kernels.devices import PodShape

WORD = 2**64


class Lots:
    """SplitMix64 with unbiased bounds."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % WORD
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        while True:
            product = self.next() * bound
            if product % WORD >= WORD % bound:
                return product // WORD


@dataclass
class DeviceState:
    """One device: totals, what is used, where it sits."""

    total: dict[str, int]
    used: dict[str, int] = field(default_factory=dict)
    numa_node: int = -1
    pcie: int = -1
    labels: tuple[str, ...] = ()

    def free(self, resource: str) -> int:
        return max(0, self.total.get(resource, 0) - self.used.get(resource, 0))

    def holds(self, each: dict[str, int]) -> bool:
        exists = any(amount > 0 for amount in self.total.values())
        return exists and all(
            self.free(name) >= amount for name, amount in each.items() if amount > 0
        )

    def take(self, each: dict[str, int], sign: int = 1) -> None:
        for name, amount in each.items():
            self.used[name] = self.used.get(name, 0) + sign * amount


def usage_score(strategy: str, total: int, used: int) -> int:
    if strategy == "MostAllocated":
        return min(used, total) * 100 // total
    return 0 if used > total else (total - used) * 100 // total


def device_score(
    device: DeviceState, each: dict[str, int], strategy: str, weights: dict[str, int]
) -> int:
    if strategy == "None":
        return 0
    parts = []
    for name, weight in weights.items():
        total = device.total.get(name, 0)
        if total and weight:
            used = total - device.free(name) + each.get(name, 0)
            parts.append((weight, usage_score(strategy, total, used)))
    return sum(w * s for w, s in parts) // sum(w for w, _ in parts) if parts else 0


def allocate(
    devices: dict[int, DeviceState],
    each: dict[str, int],
    count: int,
    *,
    numa_nodes: set[int] | None,
    required: set[int] | None,
    preferred: set[int],
    preferred_pcies: list[int],
    labels: tuple[str, ...],
    strategy: str,
    weights: dict[str, int],
) -> list[int] | None:
    able = [
        minor
        for minor, device in devices.items()
        if device.holds(each)
        and (required is None or minor in required)
        and (numa_nodes is None or device.numa_node < 0 or device.numa_node in numa_nodes)
        and set(labels) <= set(device.labels)
    ]
    if len(able) < count:
        return None
    able.sort(key=lambda minor: (-device_score(devices[minor], each, strategy, weights), minor))
    turns = dict.fromkeys(preferred_pcies, 0)
    rounds: dict[int, float] = {}
    for minor in able:
        pcie = devices[minor].pcie
        rounds[minor] = math.inf
        if pcie in turns:
            turns[pcie] += 1
            rounds[minor] = turns[pcie]
        if minor in preferred:
            rounds[minor] = 0
    ordered = sorted(able, key=lambda minor: rounds[minor])  # stable: score order inside a round
    return sorted(ordered[: max(count, len(preferred_pcies))])


def typical_pods(counts: dict[PodShape, int], percent: int) -> list[tuple[PodShape, float]]:
    ordered = sorted(counts, key=lambda shape: (counts[shape], shape), reverse=True)
    total = sum(counts.values())
    taken: list[PodShape] = []
    while sum(counts[shape] for shape in taken) * 100 < total * percent:
        taken.append(ordered[len(taken)])
    covered = sum(counts[shape] for shape in taken)
    if len(taken) == len(counts):
        return [(shape, counts[shape] / total) for shape in taken]
    return [(shape, (counts[shape] / total) / (covered / total)) for shape in taken]


def accepts(spec: str, model: str) -> bool:
    alternatives = [word for word in spec.split("|") if word]
    return not alternatives or model in alternatives


def fragment_sums(
    cpu: int, gpus: list[int], model: str, typical: list[tuple[PodShape, float]]
) -> list[float]:
    sums = [0.0] * 7
    total = sum(gpus)
    for pod, frequency in typical:
        if pod.gpu_milli == 0:
            sums[4 if cpu >= pod.cpu_milli else 5] += frequency * total
        elif not accepts(pod.gpu_spec, model):
            sums[6] += frequency * total
        else:
            gpu_ok = sum(free >= pod.gpu_milli for free in gpus) >= pod.gpu_count
            cpu_ok = cpu >= pod.cpu_milli
            if gpu_ok and cpu_ok:
                unusable = sum(free for free in gpus if free < pod.gpu_milli)
                sums[2] += frequency * (total - unusable)
                sums[1] += frequency * unusable
            else:
                sums[1 if cpu_ok else 3 if gpu_ok else 0] += frequency * total
    return sums


def fragment_amount(
    cpu: int, gpus: list[int], model: str, typical: list[tuple[PodShape, float]]
) -> float:
    sums = fragment_sums(cpu, gpus, model, typical)
    return sums[0] + sums[1] + sums[3] + sums[4] + sums[5] + sums[6]


def gradient_score(before: float, after: float) -> int:
    gain = (before - after) / 1000
    return int(1 / (1 + math.exp(-gain)) * 100) if gain > -700 else 0
