# SPDX-License-Identifier: Apache-2.0
"""What nodes use, as columns, while the moves of a plan are counted; and what a move gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api import requests
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.controllers.descheduler.plugins.loadaware.measured_nodes import measure, raw_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.plugins.loadaware.measured_nodes import MeasuredNode
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

RESOURCES = (requests.CPU, requests.MEMORY)
SHIPPED_THRESHOLDS = {requests.CPU: 75.0, requests.MEMORY: 80.0}
"""Percent above which load counts where no strategy of the configuration says it."""
PROD = "prod "
"""Before a resource's name: the threshold of what pods of class prod use alone."""
TARGET_MARGIN_PERCENT = 5.0
"""How far below thresholds a node stays that takes a pod in for load: what it uses will vary."""
_FOR_EVER_SECONDS = 2**31
_NEVER, _ALL_PERCENT = np.inf, 100.0


class LoadColumns:
    """Use by node and resource: measured where there is a NodeMetric, else what is requested.

    A report knows nothing of what came after it: of pods that have left what they used is taken
    off, of pods that have started since what they request is added.

    Args:
        snapshot: nodes, pods and NodeMetrics; how old these are does not matter here.
        thresholds: percent by resource above which load counts; by :data:`PROD` and resource
            that of prod pods alone.

    Attributes:
        used: shape (nodes, resources), CPU in milli, memory in bytes.
        prod_used: the same, by pods of class prod; nothing where it is not measured.
        offered: the same, what nodes offer before amplification; at least 1.
    """

    def __init__(self, snapshot: ClusterSnapshot, thresholds: Mapping[str, float]) -> None:
        self._row = {node.metadata.name: row for row, node in enumerate(snapshot.nodes)}
        self._pods: dict[tuple[str, str], Mapping[str, int]] = {}
        # As of time 0 no NodeMetric has expired.
        measured = measure(snapshot.nodes, snapshot, RESOURCES, 0.0, _FOR_EVER_SECONDS)
        usage = {each.name: each.whole.usage for each in measured}
        for each in measured:
            self._pods |= each.pod_usage
            reported = snapshot.node_metrics[each.name].status.update_time
            for name, amount in _since(each, reported).items():
                usage[each.name][name] += amount
        for node in snapshot.nodes:
            name = node.metadata.name
            if name not in usage:
                usage[name] = _requested(snapshot.pods_on(name))
        rows = [[usage[name].get(key, 0) for key in RESOURCES] for name in self._row]
        self.used = np.array(rows, np.int64).reshape(-1, len(RESOURCES))
        of_prod = {each.name: each.prod.usage for each in measured}
        prod = [[of_prod.get(name, {}).get(key, 0) for key in RESOURCES] for name in self._row]
        self.prod_used = np.array(prod, np.int64).reshape(-1, len(RESOURCES))
        offered = [[raw_units(node).get(each, 0) for each in RESOURCES] for node in snapshot.nodes]
        self.offered = np.maximum(np.array(offered, np.int64).reshape(self.used.shape), 1)
        self._high = np.array([thresholds.get(name, 100.0) for name in RESOURCES])
        prod_high = [thresholds.get(f"{PROD}{name}", _NEVER) for name in RESOURCES]
        self._prod_high = np.array(prod_high)

    @property
    def names(self) -> Iterable[str]:
        """Of the nodes, in the order of the rows."""
        return self._row

    def percent(self) -> NDArray[np.float64]:
        """Use in percent of what is offered, by node and resource."""
        percent: NDArray[np.float64] = 100.0 * self.used / self.offered
        return percent

    def overload(self) -> float:
        """Percentage points above thresholds, nodes and resources added up."""
        return self._overload_of(list(range(len(self.used))))

    def share(self, pod: Pod) -> float:
        """The largest share of what its node offers that a pod uses, over resources with a limit.

        What no threshold counts is left out.
        """
        row = self._row.get(pod.spec.node_name)
        if row is None:
            return 0.0
        counts = self._high < _ALL_PERCENT
        if _is_prod(pod):
            counts |= self._prod_high < _ALL_PERCENT
        return float((self._amounts(pod) / self.offered[row] * counts).max())

    def rooms(self, pod: Pod) -> NDArray[np.bool_]:
        """By node, whether it stays below all thresholds with the pod, by a margin."""
        found = self._stays_below(self.used, self._high, pod)
        if _is_prod(pod):
            found &= self._stays_below(self.prod_used, self._prod_high, pod)
        return found

    def _stays_below(
        self, used: NDArray[np.int64], high: NDArray[np.float64], pod: Pod
    ) -> NDArray[np.bool_]:
        percent = 100.0 * (used + self._amounts(pod)) / self.offered
        # Where nothing is too much, there is no margin either.
        most = np.where(high < _ALL_PERCENT, high - TARGET_MARGIN_PERCENT, np.inf)
        found: NDArray[np.bool_] = (percent <= most).all(axis=1)
        return found

    def move(self, pod: Pod, source: str, target: str) -> float:
        """Counts a move; by how much :meth:`overload` falls, below 0 where it rises."""
        amounts = self._amounts(pod)
        rows = [self._row[name] for name in (source, target) if name in self._row]
        before = self._overload_of(rows)
        for used in (self.used, self.prod_used) if _is_prod(pod) else (self.used,):
            if source in self._row:
                used[self._row[source]] -= amounts
            if target in self._row:
                used[self._row[target]] += amounts
        return before - self._overload_of(rows)

    def _overload_of(self, rows: list[int]) -> float:
        total = 0.0
        for used, high in ((self.used, self._high), (self.prod_used, self._prod_high)):
            percent = 100.0 * used[rows] / self.offered[rows]
            total += float(np.maximum(percent - high, 0.0).sum())
        return total

    def _amounts(self, pod: Pod) -> NDArray[np.int64]:
        """What a pod takes along: what it is measured to use, or else what it asks for."""
        usage = self._pods.get((pod.metadata.namespace, pod.metadata.name))
        found = requests.counted(pod) if usage is None else usage
        return np.array([found.get(name, 0) for name in RESOURCES], np.int64)


def _since(measured: MeasuredNode, reported: datetime | None) -> dict[str, int]:
    """By how much use has changed since a report, as far as pods that went and came tell."""
    total = dict.fromkeys(RESOURCES, 0)
    here = {(pod.metadata.namespace, pod.metadata.name) for pod in measured.pods}
    for key in measured.pod_usage.keys() - here:
        for name in RESOURCES:
            total[name] -= measured.pod_usage[key].get(name, 0)
    for pod in measured.pods:
        started = pod.status.start_time or pod.metadata.creation_timestamp
        known = (pod.metadata.namespace, pod.metadata.name) in measured.pod_usage
        if known or started is None or reported is None or started <= reported:
            continue
        for name, amount in requests.counted(pod).items():
            if name in total:
                total[name] += amount
    return total


def _is_prod(pod: Pod) -> bool:
    return class_with_default(pod) is PriorityClass.PROD


def _requested(pods: Iterable[Pod]) -> dict[str, int]:
    total = dict.fromkeys(RESOURCES, 0)
    for pod in pods:
        for name, amount in requests.counted(pod).items():
            if name in total:
                total[name] += amount
    return total
