# SPDX-License-Identifier: Apache-2.0
"""What nodes use, as columns, while the moves of a plan are counted; and what a move gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api import requests
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.controllers.descheduler.plugins.loadaware.measured_nodes import (
    measure,
    raw_units,
    reported_usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.plugins.loadaware.measured_nodes import MeasuredNode
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

RESOURCES = (requests.CPU, requests.MEMORY)
SHIPPED_THRESHOLDS = {requests.CPU: 75.0, requests.MEMORY: 80.0}
"""Percent above which load counts where no strategy of the configuration says it."""
PROD = "prod "
"""Before a resource's name: the threshold of what pods of class prod use alone."""
_FOR_EVER_SECONDS = 2**31


class _LoadRow(NamedTuple):
    """What a node uses and offers, as long as it is worked out of the same objects."""

    node: Node
    metric: NodeMetric | None
    pods: Sequence[Pod]
    used: tuple[int, ...]
    offered: tuple[int, ...]


class LoadRows:
    """Rows of :class:`LoadColumns` by node, kept from round to round: few change between two."""

    def __init__(self) -> None:
        self._by_node: dict[str, _LoadRow] = {}

    def of(self, snapshot: ClusterSnapshot) -> list[_LoadRow]:
        """The rows of all nodes of a snapshot, in their order; others are forgotten."""
        known, self._by_node = self._by_node, {}
        for node in snapshot.nodes:
            name = node.metadata.name
            metric, pods = snapshot.node_metrics.get(name), snapshot.pods_on(name)
            row = known.get(name)
            if row is None or not (row.node is node and row.metric is metric and row.pods is pods):
                row = _row_of(node, metric, pods, snapshot)
            self._by_node[name] = row
        return list(self._by_node.values())


def _row_of(
    node: Node, metric: NodeMetric | None, pods: Sequence[Pod], snapshot: ClusterSnapshot
) -> _LoadRow:
    offers = raw_units(node)
    offered = tuple(offers.get(each, 0) for each in (*RESOURCES, *RESOURCES))
    # As of time 0 no NodeMetric has expired.
    found = measure([node], snapshot, RESOURCES, 0.0, _FOR_EVER_SECONDS)
    if not found or metric is None:
        total = _requested(pods)
        used = (*(total[name] for name in RESOURCES), *(0 for _ in RESOURCES))
        return _LoadRow(node, metric, pods, used, offered)
    (each,) = found
    whole, prod = each.whole.usage, each.prod.usage
    later, later_prod = _since(each, metric), _since(each, metric, prod=True)
    used = (
        *(whole.get(name, 0) + later[name] for name in RESOURCES),
        *(prod.get(name, 0) + later_prod[name] for name in RESOURCES),
    )
    return _LoadRow(node, metric, pods, used, offered)


class LoadColumns:
    """Use by node and resource: measured where there is a NodeMetric, else what is requested.

    A report knows nothing of what came after it: of pods that have left or are being deleted what
    they used is taken off, of pods that have started since what they request is added.

    Args:
        snapshot: nodes, pods and NodeMetrics; how old these are does not matter here.
        thresholds: percent by resource above which load counts; under :data:`PROD` and the
            resource that of what prod pods use alone, as far as that is measured.
        rows: of earlier rounds.

    Attributes:
        used: shape (nodes, 2 * resources), CPU in milli, memory in bytes: of all, then of pods of
            class prod alone.
        offered: the same shape, what nodes offer before amplification; at least 1.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        thresholds: Mapping[str, float],
        rows: LoadRows | None = None,
    ) -> None:
        self._row = {node.metadata.name: row for row, node in enumerate(snapshot.nodes)}
        self._metrics = snapshot.node_metrics
        found = (rows or LoadRows()).of(snapshot)
        shape = len(found), 2 * len(RESOURCES)
        self.used = np.array([each.used for each in found], np.int64).reshape(shape)
        offered = np.array([each.offered for each in found], np.int64).reshape(shape)
        self.offered = np.maximum(offered, 1)
        high = [thresholds.get(name, 100.0) for name in RESOURCES]
        of_prod = [thresholds.get(f"{PROD}{name}", np.inf) for name in RESOURCES]
        self._high = np.array([*high, *of_prod])
        self._coming = np.zeros_like(self.used)
        self._names = np.array(list(self._row), object)

    def percent(self) -> NDArray[np.float64]:
        """Use by all in percent of what is offered, by node and resource."""
        return self._percent()[:, : len(RESOURCES)]

    def _percent(self) -> NDArray[np.float64]:
        percent: NDArray[np.float64] = 100.0 * self.used / self.offered
        return percent

    def overload(self) -> float:
        """Percentage points above thresholds, nodes and resources added up."""
        return float(np.maximum(self._percent() - self._high, 0.0).sum())

    def move(self, pod: Pod, source: str, target: str) -> float:
        """Counts a move; by how much :meth:`overload` falls, below 0 where it rises."""
        amounts = self._amounts(pod)
        rows = [self._row[name] for name in (source, target) if name in self._row]
        before = self._overload_of(rows)
        if source in self._row:
            self.used[self._row[source]] -= amounts
        if target in self._row:
            self.used[self._row[target]] += amounts
        return before - self._overload_of(rows)

    def comes(self, pod: Pod, target: str) -> None:
        """Counts a pod that is on its way to a node already."""
        if target in self._row:
            amounts = self._amounts(pod)
            self.used[self._row[target]] += amounts
            self._coming[self._row[target]] += amounts

    def is_high(self, name: str) -> bool:
        """Whether a node is above a threshold by the pods that are there."""
        row = self._row.get(name)
        if row is None:
            return False
        percent = 100.0 * (self.used[row] - self._coming[row]) / self.offered[row]
        return bool((percent > self._high).any())

    def too_full_for(self, pod: Pod) -> list[str]:
        """The nodes that the pod would take above a threshold, or further above."""
        amounts = self._amounts(pod)
        percent = 100.0 * (self.used + amounts) / self.offered
        return list(self._names[((percent > self._high) & (amounts > 0)).any(axis=1)])

    def _overload_of(self, rows: list[int]) -> float:
        percent = 100.0 * self.used[rows] / self.offered[rows]
        return float(np.maximum(percent - self._high, 0.0).sum())

    def _amounts(self, pod: Pod) -> NDArray[np.int64]:
        """What a pod takes along: what it is measured to use, or else what it asks for."""
        metric = self._metrics.get(pod.spec.node_name)
        usage = None if metric is None else reported_usage(metric, pod)
        found = requests.counted(pod) if usage is None else usage
        amounts = [found.get(name, 0) for name in RESOURCES]
        is_prod = class_with_default(pod) is PriorityClass.PROD
        return np.array([*amounts, *(amounts if is_prod else [0] * len(amounts))], np.int64)


def _since(measured: MeasuredNode, metric: NodeMetric, *, prod: bool = False) -> dict[str, int]:
    """By how much use has changed since a report, as far as pods that went and came tell.

    What prod pods use is that of those that are still there: none of them has gone.
    """
    total = dict.fromkeys(RESOURCES, 0)
    pods = measured.prod_pods if prod else measured.pods
    staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    here = {(pod.metadata.namespace, pod.metadata.name) for pod in staying}
    known = {(entry.namespace, entry.name) for entry in metric.status.pods_metric}
    if prod:
        known &= {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
    for key in known - here:
        for name in RESOURCES:
            total[name] -= measured.pod_usage[key].get(name, 0)
    reported = metric.status.update_time
    for pod in staying if here - known else ():
        started = pod.status.start_time or pod.metadata.creation_timestamp
        told = (pod.metadata.namespace, pod.metadata.name) in known
        if told or started is None or reported is None or started <= reported:
            continue
        for name, amount in requests.counted(pod).items():
            if name in total:
                total[name] += amount
    return total


def _requested(pods: Iterable[Pod]) -> dict[str, int]:
    total = dict.fromkeys(RESOURCES, 0)
    for pod in pods:
        for name, amount in requests.counted(pod).items():
            if name in total:
                total[name] += amount
    return total
