# SPDX-License-Identifier: Apache-2.0
"""The koord placement policy, as plainly as it can be said. Nothing is cached or incremental."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

COMMON_PERCENT = (1, 3)
MOST_UNTIL_DUE = 1000
MEMORY = 16384
UNSEEN = 0.1
WHOLE = 1000


@dataclass(frozen=True)
class Pod:
    """What a pod asks for; resources in the order of the nodes'."""

    request: tuple[int, ...]
    gpus: int = 0
    gpu_milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.gpus * self.gpu_milli


@dataclass
class Node:
    """What a node has free."""

    free: list[int]
    gpus: list[int]
    model: str


@dataclass
class Estimate:
    """What pods to come are taken to look like."""

    leftover: list[int] = field(default_factory=lambda: [0] * (WHOLE + 1))
    gpu_per_unit: list[float] = field(default_factory=list)
    scarcity: dict[str, float] = field(default_factory=dict)


class Policy:
    """Counts arrivals, estimates now and then, and chooses a node and GPUs.

    Args:
        shapes: every pod that can come, in the order in which floating sums take them.
    """

    def __init__(self, shapes: Iterable[Pod]) -> None:
        self.counts = dict.fromkeys(shapes, 0)
        self.until_due = 0
        self.estimate = Estimate()

    def arrived(self, nodes: list[Node], pod: Pod) -> None:
        self.counts[pod] += 1
        self.until_due -= 1
        if self.until_due > 0:
            return
        if sum(self.counts.values()) >= MEMORY:
            self.counts = {pod: count // 2 for pod, count in self.counts.items()}
        self.estimate = estimate(self.counts, nodes)
        self.until_due = min(max(sum(self.counts.values()) // 2, 1), MOST_UNTIL_DUE)

    def choose(self, nodes: list[Node], pod: Pod) -> tuple[int, tuple[int, ...]] | None:
        """Node and GPUs; the node of least rank among equals, which is the first here."""
        scored = [
            (self.score(node, pod), -row) for row, node in enumerate(nodes) if fits(node, pod)
        ]
        if not scored:
            return None
        row = -max(scored)[1]
        return row, self.gpus(nodes[row], pod)

    def score(self, node: Node, pod: Pod) -> int:
        gpus = self.gpus(node, pod)
        wasted = sum(self.added_leftover(node, pod, minor) for minor in gpus)
        stranded = self.stranded(after(node, pod, gpus)) - self.stranded(node)
        price = pod.total * self.estimate.scarcity.get(node.model, 0.0)
        return max(min(math.floor(-(wasted + stranded + price)), 2**31 - 1), 1 - 2**31)

    def gpus(self, node: Node, pod: Pod) -> tuple[int, ...]:
        fitting = [minor for minor, free in enumerate(node.gpus) if free >= pod.gpu_milli]
        fitting.sort(key=lambda m: (self.added_leftover(node, pod, m), node.gpus[m], m))
        return tuple(sorted(fitting[: pod.gpus]))

    def added_leftover(self, node: Node, pod: Pod, minor: int) -> int:
        leftover, free = self.estimate.leftover, node.gpus[minor]
        return leftover[free - pod.gpu_milli] - leftover[free]

    def stranded(self, node: Node) -> float:
        idle = float(sum(node.gpus))
        ratios = zip(node.free, self.estimate.gpu_per_unit, strict=False)
        return idle - min([idle, *(max(free, 0) * ratio for free, ratio in ratios if ratio)])


def fits(node: Node, pod: Pod) -> bool:
    return (
        all(free >= asked for free, asked in zip(node.free, pod.request, strict=True))
        and (not pod.models or node.model in pod.models)
        and sum(free >= pod.gpu_milli for free in node.gpus) >= pod.gpus
    )


def after(node: Node, pod: Pod, minors: tuple[int, ...]) -> Node:
    free = [free - asked for free, asked in zip(node.free, pod.request, strict=True)]
    gpus = [g - pod.gpu_milli if minor in minors else g for minor, g in enumerate(node.gpus)]
    return Node(free, gpus, node.model)


def estimate(counts: dict[Pod, int], nodes: list[Node]) -> Estimate:
    gpu_pods = {pod: count for pod, count in counts.items() if pod.total and count}
    milli = sum(count * pod.total for pod, count in gpu_pods.items())
    asked = [
        sum(count * pod.request[r] for pod, count in gpu_pods.items())
        for r in range(len(nodes[0].free))
    ]
    return Estimate(
        leftover=leftovers(gpu_pods),
        gpu_per_unit=[milli / amount if amount else 0.0 for amount in asked],
        scarcity=scarcities(gpu_pods, nodes),
    )


def leftovers(gpu_pods: dict[Pod, int]) -> list[int]:
    fillings = []
    for percent in COMMON_PERCENT:
        pods_of: dict[int, int] = {}
        for pod, count in gpu_pods.items():
            pods_of[pod.gpu_milli] = pods_of.get(pod.gpu_milli, 0) + count
        least = percent * sum(gpu_pods.values())
        fillings.append(best_fillings(frozenset(s for s, n in pods_of.items() if 100 * n >= least)))
    return [free - sum(filled) // 2 for free, filled in enumerate(zip(*fillings, strict=True))]


@cache
def best_fillings(sizes: frozenset[int]) -> list[int]:
    # A capacity can be filled exactly or not at all; the best filling is the largest exact one.
    exact = [True] + [False] * WHOLE
    best = [0] * (WHOLE + 1)
    for capacity in range(1, WHOLE + 1):
        exact[capacity] = any(size <= capacity and exact[capacity - size] for size in sizes)
        best[capacity] = capacity if exact[capacity] else best[capacity - 1]
    return best


def scarcities(gpu_pods: dict[Pod, int], nodes: list[Node]) -> dict[str, float]:
    free: dict[str, int] = {}
    for node in nodes:
        free[node.model] = free.get(node.model, 0) + sum(node.gpus)
    milli = sum(count * pod.total for pod, count in gpu_pods.items())
    wishes = [
        (pod.models, count * pod.total / milli) for pod, count in gpu_pods.items() if pod.models
    ]
    choosy = sum(share for _, share in wishes)
    left = sum(amount > 0 for amount in free.values())
    wishes += [((model,), UNSEEN * choosy / left if left else 0.0) for model in free]
    found = dict.fromkeys(free, 0.0)
    for models, share in wishes:
        accepted = sum(free[model] for model in free if model in models)
        for model in free:
            if model in models and accepted:
                found[model] += share * (sum(free.values()) / accepted)
    return found
