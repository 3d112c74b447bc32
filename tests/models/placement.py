# SPDX-License-Identifier: Apache-2.0
"""The node table and its policies by brute force: every pod looks at every node afresh."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from koord.kernels.devices import PodShape
from tests.models.devices import Lots, accepts, fragment_amount, gradient_score

GPU = 1000


@dataclass(frozen=True)
class Pod:
    """What a pod asks for."""

    cpu: int
    memory: int = 0
    gpus: int = 0
    milli: int = 0
    spec: str = ""

    @property
    def total(self) -> int:
        return self.gpus * self.milli

    @property
    def is_share(self) -> bool:
        return self.gpus == 1 and self.milli < GPU

    @property
    def kind(self) -> int:
        return 0 if self.is_share else self.gpus


@dataclass
class Node:
    """What a node has and has free."""

    cpu: int
    memory: int
    model: str
    gpus: list[int]
    rank: int
    cpu_free: int = 0
    memory_free: int = 0
    kinds: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cpu_free, self.memory_free = self.cpu, self.memory

    def fits(self, pod: Pod) -> bool:
        if pod.cpu > max(0, self.cpu_free) or pod.memory > max(0, self.memory_free):
            return False
        if pod.gpus and not accepts(pod.spec, self.model):
            return False
        return sum(free >= pod.milli for free in self.gpus) >= pod.gpus

    def fitting(self, pod: Pod) -> list[int]:
        return [index for index, free in enumerate(self.gpus) if free >= pod.milli]

    def best(self, pod: Pod) -> list[int]:
        order = sorted(self.fitting(pod), key=lambda index: (self.gpus[index], index))
        return sorted(order[: pod.gpus])

    def apply(self, pod: Pod, gpus: list[int], sign: int = 1) -> None:
        self.cpu_free -= sign * pod.cpu
        self.memory_free -= sign * pod.memory
        for index in gpus:
            self.gpus[index] -= sign * pod.milli
        if pod.gpus and sign > 0:
            self.kinds.append(pod.kind)
        elif pod.gpus:
            self.kinds.remove(pod.kind)


Typical = list[tuple[PodShape, float]]


def dotprod(node: Node, pod: Pod) -> int:
    product = (node.cpu_free / 128000) * (pod.cpu / 128000) + (sum(node.gpus) / 8000) * (
        pod.total / 8000
    )
    return int(100 * (1 - product / 2))


def bestfit(node: Node, pod: Pod) -> int:
    left = (node.cpu_free - pod.cpu) / 128000 * 0.5 + (sum(node.gpus) - pod.total) / 8000 * 0.5
    return int((1 - left) * 100)


def clustering(node: Node, pod: Pod) -> int:
    if pod.gpus == 0:
        return 0
    base = 25 * (8000 - sum(node.gpus)) // 8000
    if not node.kinds:
        return base + 25
    if pod.kind not in node.kinds:
        return base
    return base + (75 if set(node.kinds) == {pod.kind} else 50)


def packing(node: Node, pod: Pod) -> int:
    if pod.gpus == 0:
        return 0
    count = len(node.gpus)
    if all(free == GPU for free in node.gpus):
        return max(33 - count, count)
    taken = [node.gpus[index] for index in node.best(pod)]
    opened = taken.count(GPU)
    if opened:
        return max(50 - opened, 33)
    return max(100 - sum(free * 100 // GPU for free in taken) // 10, 50)


def fgd(node: Node, pod: Pod, typical: Typical) -> tuple[int, list[int]]:
    before = fragment_amount(node.cpu_free, node.gpus, node.model, typical)

    def after(gpus: list[int]) -> int:
        left = [free - pod.milli if index in gpus else free for index, free in enumerate(node.gpus)]
        cpu = node.cpu_free - pod.cpu
        return gradient_score(before, fragment_amount(cpu, left, node.model, typical))

    if not pod.is_share:
        gpus = node.fitting(pod)[: pod.gpus]
        return after(gpus), gpus
    scores = [(after([index]), [index]) for index in node.fitting(pod)]
    return max(scores, key=lambda scored: scored[0])  # the first of equals


def least(node: Node, pod: Pod) -> int:
    parts = [
        max(0, free - asked) * 100 // total
        for total, free, asked in _parts(node, pod)
    ]  # fmt: skip
    return sum(parts) // len(parts) if parts else 0


def most(node: Node, pod: Pod) -> int:
    parts = [
        min(total - free + asked, total) * 100 // total
        for total, free, asked in _parts(node, pod)
    ]  # fmt: skip
    return sum(parts) // len(parts) if parts else 0


def balanced(node: Node, pod: Pod) -> int:
    parts = [min(1.0, (total - free + asked) / total) for total, free, asked in _parts(node, pod)]
    deviation = abs(parts[0] - parts[1]) / 2 if len(parts) == 2 else 0.0
    return int((1 - deviation) * 100)


def _parts(node: Node, pod: Pod) -> list[tuple[int, int, int]]:
    both = [(node.cpu, node.cpu_free, pod.cpu), (node.memory, node.memory_free, pod.memory)]
    return [part for part in both if part[0] > 0]


SCORES = {
    "dotprod": dotprod,
    "bestfit": bestfit,
    "clustering": clustering,
    "packing": packing,
    "least": least,
    "most": most,
    "balanced": balanced,
    "fit": lambda node, pod: 0,
}


class Cluster:
    """Places pods one by one; ``place`` gives (node index, GPU indices) or None."""

    def __init__(self, nodes: list[Node], policy: str, typical: Typical, seed: int = 0) -> None:
        self.nodes = nodes
        self.policy = policy
        self.typical = typical
        self.lots = Lots(seed)

    def score(self, node: Node, pod: Pod) -> int:
        if self.policy == "random":
            return 0
        if self.policy == "fgd":
            return fgd(node, pod, self.typical)[0]
        return SCORES[self.policy](node, pod)

    def choose(self, node: Node, pod: Pod) -> list[int]:
        if pod.gpus == 0:
            return []
        if self.policy == "fgd":
            return fgd(node, pod, self.typical)[1]
        fitting = node.fitting(pod)
        if self.policy == "random" and any(node.gpus[index] < GPU for index in fitting):
            assert pod.gpus == 1
            return [fitting[self.lots.below(len(fitting))]]
        return node.best(pod)

    def pick(self, pod: Pod) -> tuple[int, list[int]] | None:
        able = [index for index, node in enumerate(self.nodes) if node.fits(pod)]
        if not able:
            return None
        able.sort(key=lambda index: self.nodes[index].rank)
        if self.policy == "random":
            index = able[self.lots.below(len(able))]
        else:
            index = max(able, key=lambda index: self.score(self.nodes[index], pod))
        return index, self.choose(self.nodes[index], pod)

    def place(self, pod: Pod) -> tuple[int, list[int]] | None:
        picked = self.pick(pod)
        if picked:
            self.nodes[picked[0]].apply(pod, picked[1])
        return picked

    def fragmentation(self) -> float:
        return math.fsum(
            fragment_amount(node.cpu_free, node.gpus, node.model, self.typical)
            for node in self.nodes
        )
