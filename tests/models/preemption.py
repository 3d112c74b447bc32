# SPDX-License-Identifier: Apache-2.0
"""Preemption by CPU alone, node by node: whom Kubernetes would delete, and where.

The plain model of ``koord.controllers.scheduler.preemption``; see
docs/reference/scheduling.md#preemption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Pod:
    name: str
    cpu: int
    priority: int
    start: float = math.inf
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Node:
    name: str
    cpu: int
    pods: list[Pod]
    nominated: list[Pod] = field(default_factory=list)


@dataclass
class Budget:
    """Selects pods of one label value; counts names in ``disrupted`` as gone already."""

    app: str
    allowed: int
    disrupted: set[str] = field(default_factory=set)


@dataclass
class Choice:
    node: str
    victims: list[str]
    violations: int


def choose(pod: Pod, nodes: list[Node], budgets: list[Budget], most: int) -> Choice | None:
    """The node and victims; None if nothing helps. Assumes that the pod fits nowhere now."""
    clean: list[tuple[Node, list[Pod], int]] = []
    over: list[tuple[Node, list[Pod], int]] = []
    for node in sorted(nodes, key=lambda n: n.name):
        if clean and len(clean) + len(over) >= most:
            break
        found = _on_node(pod, node, budgets)
        if found is not None:
            (over if found[1] else clean).append((node, *found))
    candidates = clean[:most] + over[:most]
    if not candidates:
        return None
    best = candidates[0]
    for candidate in candidates[1:]:
        if _cost(candidate) < _cost(best):
            best = candidate
    return Choice(best[0].name, [v.name for v in best[1]], best[2])


def _cost(candidate: tuple[Node, list[Pod], int]) -> tuple[int, int, int, int, float]:
    _, victims, violations = candidate
    highest = max(v.priority for v in victims)
    total = 0
    for victim in victims:
        total += victim.priority + 2**31
    earliest = min(v.start for v in victims if v.priority == highest)
    return violations, highest, total, len(victims), -earliest


def _on_node(pod: Pod, node: Node, budgets: list[Budget]) -> tuple[list[Pod], int] | None:
    lower = [p for p in node.pods if p.priority < pod.priority]
    staying = [p for p in node.pods if p.priority >= pod.priority]
    if not lower or not _fits(pod, node, staying):
        return None
    lower.sort(key=lambda p: (-p.priority, p.start, p.name))
    violating = _violating(lower, budgets)
    victims = []
    violations = 0
    for candidate in violating + [p for p in lower if p not in violating]:
        if _fits(pod, node, [*staying, candidate]):
            staying.append(candidate)
        else:
            victims.append(candidate)
            violations += candidate in violating
    if not victims:
        return None
    victims.sort(key=lambda p: (-p.priority, p.start, p.name))
    return victims, violations


def _violating(pods: list[Pod], budgets: list[Budget]) -> list[Pod]:
    left = [budget.allowed for budget in budgets]
    found = []
    for pod in pods:
        over = False
        for i, budget in enumerate(budgets):
            if pod.labels.get("app") != budget.app or pod.name in budget.disrupted:
                continue
            left[i] -= 1
            if left[i] < 0:
                over = True
        if over:
            found.append(pod)
    return found


def _fits(pod: Pod, node: Node, pods: list[Pod]) -> bool:
    promised = [p for p in node.nominated if p.priority >= pod.priority]
    return sum(p.cpu for p in [*pods, *promised]) + pod.cpu <= node.cpu
