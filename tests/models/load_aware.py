# SPDX-License-Identifier: Apache-2.0
"""LoadAwareScheduling as the reference says it, node by node and pod by pod; slow and obvious.

Amounts are plain dictionaries by resource, CPU in milli. Rules: docs/reference/load.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Amounts = dict[str, int]
LEAST = {"cpu": 250, "kubernetes.io/batch-cpu": 250,
         "memory": 200 * 1024**2, "kubernetes.io/batch-memory": 200 * 1024**2}  # fmt: skip
NAMES = {
    "koord-prod": {"cpu": "cpu", "memory": "memory"},
    "": {"cpu": "cpu", "memory": "memory"},
    "koord-batch": {"cpu": "kubernetes.io/batch-cpu", "memory": "kubernetes.io/batch-memory"},
    "koord-mid": {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"},
    "koord-free": {},
}


def round_half_up(value: float) -> int:
    whole = math.floor(value)
    return whole + (1 if value - whole >= 0.5 else 0)


def estimate(requests: Amounts, limits: Amounts, priority_class: str, factors: Amounts) -> Amounts:
    """docs/reference/load.md#estimate-of-a-pod."""
    found = {}
    for resource, factor in factors.items():
        # Prod pods ask for what nodes offer by its own name, cards too; others by names of theirs.
        other = resource if priority_class in ("koord-prod", "") else ""
        name = NAMES[priority_class].get(resource, other)
        request, limit = requests.get(name, 0), limits.get(name, 0)
        wanted = limit if limit > request else request
        if wanted == 0:
            found[resource] = LEAST.get(name, 0)
            continue
        value = (2 * wanted * factor + 100) // 200
        found[resource] = min(value, limit) if limit > 0 else value
    return found


@dataclass
class Args:
    thresholds: Amounts = field(default_factory=dict)
    prod_thresholds: Amounts = field(default_factory=dict)
    aggregate_thresholds: Amounts = field(default_factory=dict)
    aggregate: tuple[str, int] | None = None
    score_aggregate: tuple[str, int] | None = None
    weights: Amounts = field(default_factory=lambda: {"cpu": 1, "memory": 1})
    dominant: int = 0
    filter_expired: bool = True
    schedule_expired: bool = False
    expiration: int = 180
    with_system: bool = False
    score_by_prod: bool = False


@dataclass
class Assigned:
    key: str
    estimate: Amounts
    prod: bool
    since: float
    deadline: float | None = None


@dataclass
class Metric:
    updated: float | None
    interval: float = 60
    reported: bool = True
    node: Amounts | None = None
    system: Amounts | None = None
    aggregates: dict[tuple[str, int], Amounts] = field(default_factory=dict)
    pods: dict[str, tuple[Amounts, bool]] = field(default_factory=dict)


@dataclass
class Node:
    capacity: Amounts
    metric: Metric | None = None
    pods: dict[str, Assigned] = field(default_factory=dict)
    thresholds: Amounts | None = None


class Model:
    """Answers for one node at a time."""

    def __init__(self, args: Args, names: list[str]) -> None:
        self.args = args
        self.names = names

    def should_estimate(self, metric: Metric, pod: Assigned) -> bool:
        if pod.key not in metric.pods or metric.updated is None:
            return True
        late = metric.updated - metric.interval < pod.since
        return late or (pod.deadline is not None and pod.deadline > metric.updated)

    def existing(self, node: Node, name: str, aggregate: tuple[str, int] | None) -> int:
        """What all pods use, by the usage or by an aggregate.

        Rule: docs/reference/load.md#load-of-a-node.
        """
        metric = node.metric
        assert metric is not None
        usage: Amounts | None = metric.node or {}
        if aggregate is not None:
            usage = self.aggregate_of(metric, aggregate)
        if usage is None:
            return sum(pod.estimate.get(name, 0) for pod in node.pods.values())
        total = usage.get(name, 0)
        for pod in node.pods.values():
            if self.should_estimate(metric, pod):
                measured = metric.pods.get(pod.key, ({}, False))[0].get(name, 0)
                total += max(0, pod.estimate.get(name, 0) - measured)
        return total

    def aggregate_of(self, metric: Metric, wanted: tuple[str, int]) -> Amounts | None:
        statistic, duration = wanted
        there = {d: usage for (s, d), usage in metric.aggregates.items() if s == statistic}
        if duration:
            return there.get(duration)
        return there[max(there)] if there else metric.node or {}

    def existing_prod(self, node: Node, name: str) -> int:
        metric = node.metric
        assert metric is not None
        total = 0
        if self.args.with_system and metric.system is not None:
            total += metric.system.get(name, 0)
        for pod in node.pods.values():
            if not pod.prod:
                continue
            usage, reported_prod = metric.pods.get(pod.key, (None, False))
            estimated = pod.estimate.get(name, 0)
            if usage is None or not reported_prod:
                total += estimated
                continue
            total += usage.get(name, 0)
            if self.should_estimate(metric, pod):
                total += max(0, estimated - usage.get(name, 0))
        return total

    def expired(self, metric: Metric, now: float) -> bool:
        return metric.updated is None or now - metric.updated >= self.args.expiration

    def refusal(
        self, node: Node, estimated: Amounts, prod: bool, daemon: bool, now: float
    ) -> str | None:
        """docs/reference/load.md#filter."""
        args = self.args
        if daemon:
            return None
        by_prod = prod and any(args.prod_thresholds.get(n, 0) for n in self.names)
        plain = args.thresholds if node.thresholds is None else node.thresholds
        limits = args.aggregate_thresholds if args.aggregate else plain
        if by_prod:
            limits = args.prod_thresholds
        metric = node.metric
        if not any(limits.get(n, 0) for n in self.names) or metric is None:
            return None
        if self.expired(metric, now) and args.filter_expired:
            return None if args.schedule_expired else "node(s) nodeMetric expired"
        if not metric.reported:
            return None
        for name in self.names:
            limit, capacity = limits.get(name, 0), node.capacity.get(name, 0)
            if not limit or not capacity:
                continue
            used = (
                self.existing_prod(node, name)
                if by_prod
                else self.existing(node, name, args.aggregate)
            ) + estimated.get(name, 0)
            if round_half_up(used / capacity * 100) > limit:
                kind = "aggregated usage" if args.aggregate and not by_prod else "usage"
                return f"node(s) {name} {kind} exceed threshold"
        return None

    def score(self, node: Node, estimated: Amounts, prod: bool, now: float) -> int:
        """docs/reference/load.md#score."""
        args, metric = self.args, node.metric
        divisor = sum(args.weights.values()) + args.dominant
        if not divisor or metric is None or self.expired(metric, now) or not metric.reported:
            return 0
        parts = {}
        for name in self.names:
            used = (
                self.existing_prod(node, name)
                if prod and args.score_by_prod
                else self.existing(node, name, args.score_aggregate)
            ) + estimated.get(name, 0)
            capacity = node.capacity.get(name, 0)
            fits = capacity != 0 and used <= capacity
            parts[name] = (capacity - used) * 100 // capacity if fits else 0
        total = sum(parts[name] * weight for name, weight in args.weights.items())
        return (total + min(100, *parts.values()) * args.dominant) // divisor
