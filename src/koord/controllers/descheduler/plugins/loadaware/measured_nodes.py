# SPDX-License-Identifier: Apache-2.0
"""What nodes use by their NodeMetrics, what they may use, and which are high and low.

Rules: docs/reference/descheduling-plugins.md#thresholds-of-lownodeload,
docs/reference/descheduling-plugins.md#usage-and-groups. CPU is in milli, all else in units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from koord.api import requests
from koord.api.protocol.nodes import raw_allocatable
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.base.errors import KoordError
from koord.kernels.quantity import Rounding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import (
        LoadPool,
        Percentages,
    )
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

UnitsByResource = dict[str, int]
PodName = tuple[str, str]
"""Namespace and name."""


@dataclass
class Load:
    """What a node uses of each resource, by all pods and the system or by prod pods alone.

    Attributes:
        usage: measured; moves of this round are counted as they are decided.
        low: below or at it in every resource, the node takes pods.
        high: above it in any resource, the node gives pods.
    """

    usage: UnitsByResource
    low: UnitsByResource = field(default_factory=dict)
    high: UnitsByResource = field(default_factory=dict)

    def excess(self) -> UnitsByResource:
        """By how much each resource is above its high threshold."""
        return {
            name: self.usage[name] - most
            for name, most in sorted(self.high.items())
            if self.usage.get(name, 0) > most
        }

    def is_high(self) -> bool:
        """Whether any resource is above its high threshold."""
        return any(self.usage.get(name, 0) > most for name, most in self.high.items())

    def is_low(self) -> bool:
        """Whether no resource is above its low threshold."""
        return all(self.usage.get(name, 0) <= most for name, most in self.low.items())

    def add(self, amounts: Mapping[str, int]) -> None:
        """Counts what a pod would use here."""
        for name, amount in amounts.items():
            if name in self.usage:
                self.usage[name] += amount


@dataclass
class MeasuredNode:
    """A node whose NodeMetric is there and fresh.

    Attributes:
        node: itself.
        allocatable: before amplification.
        pods: on the node, not finished.
        prod_pods: those of class prod.
        pod_usage: what each pod uses.
        whole: the load of all.
        prod: the load of prod pods.
    """

    node: Node
    allocatable: UnitsByResource
    pods: Sequence[Pod]
    prod_pods: Sequence[Pod]
    pod_usage: Mapping[PodName, UnitsByResource]
    whole: Load
    prod: Load

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    def load(self, *, prod: bool) -> Load:
        """The load of prod pods, or of all."""
        return self.prod if prod else self.whole


class LoadThresholds(NamedTuple):
    """Percentages by resource, complete: every resource that counts is in all four."""

    low: Percentages
    high: Percentages
    prod_low: Percentages
    prod_high: Percentages


def thresholds(pool: LoadPool) -> LoadThresholds:
    """The thresholds of a pool; what none of the low ones names is never exceeded.

    A resource counts where ``low`` names it; a high threshold alone is overwritten, as in the
    original.
    """
    maps = [
        dict(given or {})
        for given in (
            pool.low_thresholds, pool.high_thresholds,
            pool.prod_low_thresholds, pool.prod_high_thresholds,
        )
    ]  # fmt: skip
    filler = 0.0 if pool.use_deviation_thresholds else 100.0
    low, high, prod_low, prod_high = maps
    for name in dict.fromkeys([key for given in maps for key in given] + [requests.MEMORY]):
        if name not in low:
            low[name] = high[name] = filler
        if name not in prod_low:
            prod_low[name] = prod_high[name] = filler
    return LoadThresholds(low, high, prod_low, prod_high)


class ReportedPodUsage(Mapping[PodName, UnitsByResource]):
    """What each pod of a report uses; worked out when somebody asks, which few nodes are.

    Args:
        metric: the report.
    """

    def __init__(self, metric: NodeMetric) -> None:
        self._metric = metric

    @cached_property
    def _by_pod(self) -> dict[PodName, UnitsByResource]:
        return {
            (entry.namespace, entry.name): _units(
                entry.pod_usage.resources if entry.pod_usage else {}
            )
            for entry in self._metric.status.pods_metric
        }

    def __getitem__(self, key: PodName) -> UnitsByResource:
        return self._by_pod[key]

    def __iter__(self) -> Iterator[PodName]:
        return iter(self._by_pod)

    def __len__(self) -> int:
        return len(self._by_pod)


def reported_usage(metric: NodeMetric, pod: Pod) -> UnitsByResource | None:
    """What one pod of a report uses; None where there is none. One of several is the last."""
    if metric.status.node_metric is None or metric.status.update_time is None:
        return None
    meta = pod.metadata
    for entry in reversed(metric.status.pods_metric):
        if entry.name == meta.name and entry.namespace == meta.namespace:
            return _units(entry.pod_usage.resources if entry.pod_usage else {})
    return None


class _NodeSums(NamedTuple):
    """What a report and the pods of its node add up to, as long as these are the same objects."""

    metric: NodeMetric
    pods: Sequence[Pod]
    names: tuple[str, ...]
    prod_pods: Sequence[Pod]
    whole: UnitsByResource
    prod: UnitsByResource


class LoadSums:
    """Sums by node, kept from round to round: a report comes once in several rounds."""

    def __init__(self) -> None:
        self._by_node: dict[str, _NodeSums] = {}

    def of(
        self, node: Node, metric: NodeMetric, pods: Sequence[Pod], names: tuple[str, ...]
    ) -> _NodeSums:
        """The sums of a node."""
        known = self._by_node.get(node.metadata.name)
        same = known is not None and known.metric is metric and known.pods is pods
        if known is None or not same or known.names != names:
            known = self._by_node[node.metadata.name] = _added_up(metric, pods, names)
        return known

    def keep(self, nodes: Collection[str]) -> None:
        """Forgets all other nodes."""
        for name in [name for name in self._by_node if name not in nodes]:
            del self._by_node[name]


def measure(
    nodes: Iterable[Node],
    snapshot: ClusterSnapshot,
    resources: Iterable[str],
    now: float,
    expiration_seconds: int,
    sums: LoadSums | None = None,
) -> list[MeasuredNode]:
    """The nodes whose load is known, in their order.

    Args:
        nodes: that are looked at.
        snapshot: with their NodeMetrics and pods.
        resources: that count.
        now: wall time in seconds since the Unix epoch.
        expiration_seconds: age from which on a NodeMetric says nothing.
        sums: of earlier rounds.
    """
    names = tuple(sorted(resources))
    sums = sums or LoadSums()
    measured = []
    for node in nodes:
        metric = snapshot.node_metrics.get(node.metadata.name)
        if metric is not None and _is_fresh(metric, now, expiration_seconds):
            found = sums.of(node, metric, snapshot.pods_on(node.metadata.name), names)
            measured.append(
                MeasuredNode(
                    node, raw_units(node), found.pods, found.prod_pods, ReportedPodUsage(metric),
                    Load(dict(found.whole)), Load(dict(found.prod)),
                )
            )  # fmt: skip
    return measured


def _is_fresh(metric: NodeMetric, now: float, expiration_seconds: int) -> bool:
    status = metric.status
    if status.node_metric is None or status.update_time is None:
        return False
    return now - status.update_time.timestamp() < expiration_seconds


def _added_up(metric: NodeMetric, pods: Sequence[Pod], names: tuple[str, ...]) -> _NodeSums:
    prod_pods = [pod for pod in pods if class_with_default(pod) is PriorityClass.PROD]
    prod_names = {(pod.metadata.namespace, pod.metadata.name) for pod in prod_pods}
    info = metric.status.node_metric
    assert info is not None
    usage = _units(info.system_usage.resources if info.system_usage else {})
    whole = {name: usage.get(name, 0) for name in names}
    prod = dict.fromkeys(names, 0)
    for entry in metric.status.pods_metric:
        loads = (whole, prod) if (entry.namespace, entry.name) in prod_names else (whole,)
        for name, quantity in (entry.pod_usage.resources if entry.pod_usage else {}).items():
            if name in whole:
                amount = requests.amount(name, quantity, Rounding.UP)
                for load in loads:
                    load[name] += amount
    whole[requests.PODS], prod[requests.PODS] = len(pods), len(prod_pods)
    return _NodeSums(metric, pods, names, prod_pods, whole, prod)


def raw_units(node: Node) -> UnitsByResource:
    """What a node offers before amplification; its allocatable where that cannot be read."""
    try:
        raw = raw_allocatable(node)
    except KoordError:
        raw = None
    return _units(node.status.allocatable if raw is None else raw, Rounding.UP)


def _units(quantities: Mapping[str, object], rounding: Rounding = Rounding.UP) -> UnitsByResource:
    amount = requests.amount
    return {
        name: amount(name, quantity, rounding)  # type: ignore[arg-type]
        for name, quantity in quantities.items()
    }


def set_thresholds(
    measured: Sequence[MeasuredNode], percentages: LoadThresholds, *, by_deviation: bool
) -> None:
    """Works out of percentages what each node may use."""
    pairs = (
        (False, percentages.low, percentages.high),
        (True, percentages.prod_low, percentages.prod_high),
    )
    for prod, low, high in pairs:
        average = _average(measured, prod=prod) if by_deviation else {}
        for node in measured:
            load = node.load(prod=prod)
            for name in percentages.low:
                least, most = low[name], high.get(name, 0.0)
                if by_deviation and least == 0:
                    # Neither under nor over: the resource is out.
                    load.low[name] = load.high[name] = node.allocatable.get(name, 0)
                    continue
                if by_deviation:
                    middle = average.get(name, 0.0)
                    least, most = _clamp(middle - least), _clamp(middle + most)
                load.low[name] = _share(node, name, least)
                load.high[name] = _share(node, name, most)


def _share(node: MeasuredNode, resource: str, percent: float) -> int:
    return int(percent * 0.01 * node.allocatable.get(resource, 0))


def _average(measured: Sequence[MeasuredNode], *, prod: bool) -> Percentages:
    """Mean percentage of the nodes; one that does not offer a resource counts as 0."""
    total: Percentages = {}
    for node in measured:
        for name, used in node.load(prod=prod).usage.items():
            offered = node.allocatable.get(name, 0)
            if offered:
                total[name] = total.get(name, 0.0) + used / offered * 100.0
    return {name: percent / len(measured) for name, percent in total.items()}


def _clamp(percent: float) -> float:
    return min(max(percent, 0.0), 100.0)


@dataclass
class NodeGroups:
    """Nodes by what they may give and take.

    Attributes:
        low: take any pods.
        high: give any pods.
        prod_low: take prod pods.
        prod_high: give prod pods.
        both_low: take either.
    """

    low: list[MeasuredNode] = field(default_factory=list)
    high: list[MeasuredNode] = field(default_factory=list)
    prod_low: list[MeasuredNode] = field(default_factory=list)
    prod_high: list[MeasuredNode] = field(default_factory=list)
    both_low: list[MeasuredNode] = field(default_factory=list)

    def takers(self) -> int:
        """How many nodes take pods."""
        return len(self.low) + len(self.prod_low) + len(self.both_low)


def classify(measured: Iterable[MeasuredNode]) -> NodeGroups:
    """The group of each node; cordoned ones never take pods."""
    groups = NodeGroups()
    for node in measured:
        cordoned = node.node.spec.unschedulable
        prod_low = not cordoned and node.prod.is_low()
        if not cordoned and node.whole.is_low():
            if node.prod.is_high():
                groups.prod_high.append(node)
            else:
                (groups.both_low if prod_low else groups.low).append(node)
        elif node.whole.is_high():
            groups.high.append(node)
        elif node.prod.is_high():
            groups.prod_high.append(node)
        elif prod_low:
            groups.prod_low.append(node)
    return groups
