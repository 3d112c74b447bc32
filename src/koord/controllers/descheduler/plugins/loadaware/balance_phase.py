# SPDX-License-Identifier: Apache-2.0
"""One phase of a pool: pods of high nodes to low ones, of all pods or of prod pods.

Rules: docs/reference/descheduling-plugins.md#a-pass-over-a-pool,
docs/reference/descheduling-plugins.md#scores.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import requests
from koord.controllers.descheduler.plugins.loadaware.target_loads import TargetLoads
from koord.controllers.descheduler.predicates.pod_order import by_sorter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.plugins.loadaware.measured_nodes import (
        MeasuredNode,
        UnitsByResource,
    )
    from koord.controllers.descheduler.predicates.node_fit import NodeFit

_MOST_SCORE = 1000


@dataclass
class BalancePhase:
    """What both phases go by.

    Args:
        prod: whether it is about prod pods and their usage alone.
        node_fit: None where pods need not fit a target.
        weights: of resources, in scores.
        selected: whether a pod may go at all; asked again right before.
        evict: carries an eviction out; whether the pod goes.
        is_relieved: told of a node that is no longer high.
        percentages: the high thresholds as configured, for reasons.
    """

    prod: bool
    node_fit: NodeFit | None
    weights: Mapping[str, int]
    selected: Callable[[Pod], bool]
    evict: Callable[[Pod, str], Awaitable[bool]]
    is_relieved: Callable[[MeasuredNode], None]
    percentages: Mapping[str, float]

    async def run(
        self,
        sources: Sequence[MeasuredNode],
        targets: Sequence[MeasuredNode],
        available: UnitsByResource,
    ) -> None:
        """Evicts from each source, in order, until it is high no more or nothing is available.

        Args:
            sources: high nodes, the highest first.
            targets: low nodes, in the order in which pods try them.
            available: what the targets still take, by resource; less after each eviction.
        """
        fit = self.node_fit
        loads = TargetLoads(targets, fit, prod=self.prod) if fit is not None else None
        for source in sources if targets else ():
            pods = source.prod_pods if self.prod else source.pods
            candidates = [pod for pod in pods if self._may_go(pod, source, loads)]
            await asyncio.sleep(0)
            for pod in self._ordered(candidates, source):
                if not self._goes_on(source, available):
                    break
                if self.selected(pod) and await self.evict(pod, self._reason(source)):
                    self._count(pod, source, available)

    def _may_go(self, pod: Pod, source: MeasuredNode, loads: TargetLoads | None) -> bool:
        if not self.selected(pod):
            return False
        if loads is None:
            return True
        used = source.pod_usage.get((pod.metadata.namespace, pod.metadata.name))
        return used is not None and loads.place(pod, used)

    def _ordered(self, pods: Sequence[Pod], source: MeasuredNode) -> list[Pod]:
        excess = source.load(prod=self.prod).excess()

        def usage_rank(pod: Pod) -> float:
            used = source.pod_usage.get((pod.metadata.namespace, pod.metadata.name))
            # Pods without a metric come after those with one.
            return 1.0 if used is None else -relief_score(used, excess, self.weights)

        return by_sorter(pods, usage_rank)

    def _goes_on(self, source: MeasuredNode, available: UnitsByResource) -> bool:
        if not source.load(prod=self.prod).is_high():
            self.is_relieved(source)
            return False
        return all(left > 0 for left in available.values())

    def _count(self, pod: Pod, source: MeasuredNode, available: UnitsByResource) -> None:
        used = source.pod_usage.get((pod.metadata.namespace, pod.metadata.name))
        if used is None:
            return
        for name in available:
            amount = 1 if name == requests.PODS else used.get(name, 0)
            available[name] -= amount
            for load in (source.whole, source.prod) if self.prod else (source.whole,):
                if name in load.usage:
                    load.usage[name] -= amount

    def _reason(self, source: MeasuredNode) -> str:
        whose = "prod" if self.prod else "node"
        load = source.load(prod=self.prod)
        texts = [
            f"{whose} {name} usage({_percent(load.usage[name], source, name):.2f}%)"
            f">threshold({self.percentages.get(name, 0.0):.2f}%)"
            for name in load.excess()
        ]
        return "node is overutilized, " + ", ".join(texts)


def _percent(used: int, node: MeasuredNode, resource: str) -> float:
    offered = node.allocatable.get(resource, 0)
    return 100 * used / offered if offered else 0.0


def by_load(
    nodes: Iterable[MeasuredNode], weights: Mapping[str, int], *, prod: bool
) -> list[MeasuredNode]:
    """The highest score first, those of one score by name."""
    return sorted(nodes, key=lambda node: (-node_score(node, weights, prod=prod), node.name))


def node_score(node: MeasuredNode, weights: Mapping[str, int], *, prod: bool) -> int:
    """How full a node is, 0 to 1000: the weighted mean over resources, truncated."""
    usage = node.load(prod=prod).usage
    total = sum(weights.get(name, 0) for name in usage)
    if not total:
        return 0
    score = 0
    for name, used in usage.items():
        offered = node.allocatable.get(name, 0)
        if offered:
            score += min(used, offered) * _MOST_SCORE // offered * weights.get(name, 0)
    return score // total


def relief_score(
    used: Mapping[str, int], excess: Mapping[str, int], weights: Mapping[str, int]
) -> float:
    """How well a pod's usage covers what its node has too much of; 2 where it just does."""
    total, score = 0, 0.0
    for name, amount in used.items():
        over = excess.get(name, 0)
        if not over:
            continue
        weight = weights.get(name, 0)
        ratio = amount / over
        total += weight
        score += (ratio if ratio < 1 else 1 + 1 / ratio) * weight
    return score / total if total else 0.0
