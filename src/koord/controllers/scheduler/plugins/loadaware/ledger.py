# SPDX-License-Identifier: Apache-2.0
"""The load of every node: what NodeMetrics report, and what pods that they do not show yet add.

One column a resource and view; a row is worked out anew when its NodeMetric or its Node changes, and
moved by one pod's share when a pod comes or goes (scheduler spec, section 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol import nodes as node_protocol
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.requests import amount
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.loadaware.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric
    from koord.controllers.cluster.pods import PodInfo

_LOG = log.get("scheduler")
DEFAULT_REPORT_SECONDS = 60
PROD = str(PriorityClass.PROD)
AggregateKey = tuple[str, int]
"""Type and seconds of an aggregate; 0 seconds for the longest that is reported."""


class Assigned(NamedTuple):
    """A pod that counts on a node.

    Attributes:
        key: ``namespace/name``, as NodeMetrics name pods.
        estimate: what it is expected to use, by resource of the ledger.
        since: wall seconds of its assignment.
        deadline: wall seconds until which the estimate holds whatever is measured; 0 for none.
        prod: whether its priority class is Prod.
    """

    key: str
    estimate: NDArray[np.int64]
    since: float
    deadline: float
    prod: bool


@dataclass
class Measured:
    """A NodeMetric as vectors."""

    updated: float | None = None
    interval: float = DEFAULT_REPORT_SECONDS
    reported: bool = False
    node: NDArray[np.int64] | None = None
    system: NDArray[np.int64] | None = None
    aggregates: dict[AggregateKey, NDArray[np.int64]] = field(default_factory=dict)
    pods: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    prod: frozenset[str] = frozenset()


class Ledger:
    """Load by row and resource.

    Args:
        names: the resources, sorted.
        thresholds: of the arguments; a Node may have its own.
        with_system: whether system usage counts for Prod.
        scored: the aggregate that scores look at; None for the plain usage.
    """

    def __init__(
        self,
        names: Sequence[str],
        thresholds: Thresholds,
        with_system: bool,
        scored: AggregateKey | None,
    ) -> None:
        self.names = tuple(names)
        self._arguments = thresholds
        self._with_system = with_system
        self._scored = scored
        self._metrics: list[Measured | None] = []
        self._pods: list[dict[str, Assigned]] = []
        self.thresholds: list[Thresholds] = []
        self._grow(0)

    def _grow(self, rows: int) -> None:
        count = len(self.names)
        old = getattr(self, "plain", np.zeros((count, 0), np.int64))
        if rows <= old.shape[1] and rows:
            return
        size = max(64, 2 * rows)
        for name in ("plain", "prod", "aggregate", "scored", "capacity"):
            column = np.zeros((count, size), np.int64)
            column[:, : old.shape[1]] = getattr(self, name, column[:, :0])
            setattr(self, name, column)
        # What a row is checked against, by percentage; 0 where a resource is not checked.
        for name in ("limit", "prod_limit", "aggregate_limit"):
            column = np.zeros((count, size), np.int64)
            column[:, : old.shape[1]] = getattr(self, name, column[:, :0])
            setattr(self, name, column)
        updated = np.full(size, np.nan)
        updated[: old.shape[1]] = getattr(self, "updated", updated[:0])
        self.updated = updated
        for name in ("known", "reported"):
            flags = np.zeros(size, np.bool_)
            flags[: old.shape[1]] = getattr(self, name, flags[:0])
            setattr(self, name, flags)
        while len(self._metrics) < size:
            self._metrics.append(None)
            self._pods.append({})
            self.thresholds.append(self._arguments)

    plain: NDArray[np.int64]
    prod: NDArray[np.int64]
    aggregate: NDArray[np.int64]
    scored: NDArray[np.int64]
    capacity: NDArray[np.int64]
    limit: NDArray[np.int64]
    prod_limit: NDArray[np.int64]
    aggregate_limit: NDArray[np.int64]
    known: NDArray[np.bool_]
    reported: NDArray[np.bool_]

    def vector(self, amounts: Mapping[str, int]) -> NDArray[np.int64]:
        """Amounts by resource of the ledger; others are left out."""
        return np.array([amounts.get(name, 0) for name in self.names], np.int64)

    def read(self, amounts: ResourceList) -> NDArray[np.int64]:
        """Quantities by resource of the ledger."""
        return self.vector({name: amount(name, each) for name, each in amounts.items()})

    def put_node(self, row: int, node: Node) -> None:
        """Takes over a node's capacity and thresholds."""
        self._grow(row + 1)
        title = node.title
        try:
            raw = node_protocol.raw_allocatable(node) or {}
        except KoordError as error:
            _LOG.warning("ignored", extra=log.fields(node=title, error=str(error)))
            raw = {}
        self.capacity[:, row] = self.read({**node.status.allocatable, **raw})
        self.thresholds[row] = self._arguments.of(node)
        chosen = self.thresholds[row]
        self.limit[:, row] = self.vector(chosen.plain)
        self.prod_limit[:, row] = self.vector(chosen.prod)
        self.aggregate_limit[:, row] = self.vector(chosen.aggregate)
        self._refresh(row)

    def close(self, row: int) -> None:
        """Forgets a row's node; its pods have gone already."""
        self._metrics[row] = None
        self._pods[row] = {}
        self._refresh(row)

    def put_metric(self, row: int, metric: NodeMetric | None) -> None:
        """Takes over what a node reports."""
        self._grow(row + 1)
        self._metrics[row] = self._measure(metric) if metric is not None else None
        self._refresh(row)

    def _measure(self, metric: NodeMetric) -> Measured:
        status, found = metric.status, Measured()
        policy = metric.spec.metric_collect_policy
        if policy is not None and policy.report_interval_seconds is not None:
            found.interval = policy.report_interval_seconds
        if status.update_time is not None:
            found.updated = status.update_time.timestamp()
        for pod in status.pods_metric:
            if pod.pod_usage is not None and pod.pod_usage.resources:
                found.pods[f"{pod.namespace}/{pod.name}"] = self.read(pod.pod_usage.resources)
        found.prod = frozenset(
            f"{pod.namespace}/{pod.name}" for pod in status.pods_metric if pod.priority == PROD
        )
        info = status.node_metric
        if info is None:
            return found
        found.reported = True
        if info.node_usage is not None and info.node_usage.resources:
            found.node = self.read(info.node_usage.resources)
        if info.system_usage is not None:
            found.system = self.read(info.system_usage.resources)
        for each in info.aggregated_node_usages:
            seconds = each.duration.nanoseconds // 10**9 if each.duration is not None else 0
            for kind, usage in each.usage.items():
                if usage.resources:
                    found.aggregates[kind, int(seconds)] = self.read(usage.resources)
        for kind, seconds in sorted(found.aggregates, key=lambda key: key[1]):
            # Ascending, so the longest is left standing.
            if seconds:
                found.aggregates[kind, 0] = found.aggregates[kind, seconds]
        return found

    def add(self, row: int, uid: str, pod: Assigned) -> None:
        """A pod counts on a row from now on."""
        self._pods[row][uid] = pod
        self._move(row, pod, 1)

    def drop(self, row: int, uid: str) -> None:
        """The exact inverse of :meth:`add`."""
        pod = self._pods[row].pop(uid, None)
        if pod is not None:
            self._move(row, pod, -1)

    def _refresh(self, row: int) -> None:
        """Works a row out from nothing."""
        metric = self._metrics[row]
        self.known[row] = metric is not None
        self.reported[row] = metric is not None and metric.reported
        updated = metric.updated if metric is not None else None
        self.updated[row] = np.nan if updated is None else updated
        measured = metric or Measured()
        zero = np.zeros(len(self.names), np.int64)
        plain = measured.node if measured.node is not None else zero
        self.plain[:, row] = plain
        with_system = self._with_system and measured.system is not None
        self.prod[:, row] = measured.system if with_system else zero
        self.aggregate[:, row] = self._base(measured, self.thresholds[row].aggregate_key)
        self.scored[:, row] = self._base(measured, self._scored)
        for pod in self._pods[row].values():
            self._move(row, pod, 1)

    def _base(self, measured: Measured, key: AggregateKey | None) -> NDArray[np.int64]:
        """What an aggregate begins with, before estimates are added."""
        zero = np.zeros(len(self.names), np.int64)
        plain = measured.node if measured.node is not None else zero
        if key is None:
            return plain
        found = measured.aggregates.get(key)
        if found is not None:
            return found
        return plain if key[1] == 0 else zero

    def _is_measured(self, measured: Measured, key: AggregateKey | None) -> bool:
        """Whether estimates add only what measurements do not show; if not, they count whole."""
        if key is not None and (key in measured.aggregates or key[1] != 0):
            return key in measured.aggregates
        return measured.node is not None

    def _move(self, row: int, pod: Assigned, sign: int) -> None:
        if not pod.estimate.any():
            return
        measured = self._metrics[row] or Measured()
        usage = measured.pods.get(pod.key)
        delta = self._delta(measured, pod, usage)
        self.plain[:, row] += sign * (delta if measured.node is not None else pod.estimate)
        for column, key in (
            (self.aggregate, self.thresholds[row].aggregate_key),
            (self.scored, self._scored),
        ):
            column[:, row] += sign * (delta if self._is_measured(measured, key) else pod.estimate)
        if pod.prod:
            self.prod[:, row] += sign * self._prod_share(measured, pod, usage)

    def _delta(
        self, measured: Measured, pod: Assigned, usage: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """What a pod is expected to use beyond what is measured of it."""
        if not self._should_estimate(measured, pod, usage):
            return np.zeros_like(pod.estimate)
        return np.maximum(pod.estimate - (usage if usage is not None else 0), 0)

    def _should_estimate(
        self, measured: Measured, pod: Assigned, usage: NDArray[np.int64] | None
    ) -> bool:
        if usage is None or measured.updated is None:
            return True
        began = measured.updated - measured.interval
        return began < pod.since or pod.deadline > measured.updated

    def _prod_share(
        self, measured: Measured, pod: Assigned, usage: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Measured usage of a pod that is reported as Prod, and its expected rest."""
        if usage is None:
            return pod.estimate
        if pod.key not in measured.prod:
            return pod.estimate
        return usage + self._delta(measured, pod, usage)


def is_prod(info: PodInfo) -> bool:
    """Whether a pod's priority class is Prod."""
    return class_with_default(info.pod) is PriorityClass.PROD
