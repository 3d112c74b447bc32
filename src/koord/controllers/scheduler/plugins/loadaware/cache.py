# SPDX-License-Identifier: Apache-2.0
"""The load of every node: what NodeMetrics report, and what pods that they do not show yet add.

Four views of it stand in columns: for the filter and for the score, each for Prod pods and for all
others. A row is worked out anew when its NodeMetric or its Node changes, and moved by one pod's
share when a pod comes or goes. All is integers, so that both ways give the same. Rule:
docs/reference/load.md#load-of-a-node.
"""

from __future__ import annotations

import math
import sys
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol import nodes as node_protocol
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.loadaware.node_metric import (
    NO_USAGE,
    AmountVector,
    AssignedPod,
    NodeUsage,
    read,
)
from koord.kernels.placement_board import count_pod, count_pods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.controllers.scheduler.plugins.loadaware.thresholds import AggregateKey, Thresholds

_LOG = log.get("scheduler")
FILTER, FILTER_PROD, SCORE, SCORE_PROD = range(4)
VIEWS = ("filter", "filterProd", "score", "scoreProd")
NO_LIMIT = 2**62
"""More than any load: what is not checked is below."""

_LEAST_ROWS = 64
_KEYS = count(1)
_COLUMNS = (
    "used", "capacity", "limit", "enforced", "reported", "expires_at", "scored_until",
    "checked_until",
)  # fmt: skip
# Before any time, and a time all the same: a filter that does not ask for it has none.
_PAST = -sys.float_info.max


class NodeLoad(NamedTuple):
    """All that the filter reads of a row at one moment; the views are FILTER and FILTER_PROD.

    Attributes:
        used: by view and resource.
        limit: by view and resource.
        enforced: by view.
        expires_at: wall seconds.
    """

    used: list[AmountVector]
    limit: list[AmountVector]
    enforced: list[bool]
    expires_at: float


class LoadCache:
    """Load by view, resource and row.

    Args:
        names: the resources, sorted.
        thresholds: of the arguments; a Node may have its own.
        scored: the aggregate that scores look at; None for the plain usage.
        with_system: whether what no pod uses counts for Prod.
        expiration_seconds: how old a NodeMetric may be.

    Attributes:
        keys: by view, a number that no other cache has.
        used: int64 ``[view, resource, row]``, what is in use or on its way.
        capacity: int64 ``[resource, row]``, before amplification.
        limit: int64 ``[2, resource, row]``: the most that the filter lets a row of the view FILTER,
            or FILTER_PROD, have with the pod; :data:`NO_LIMIT` where nothing is checked.
        enforced: bool ``[2, row]``: whether any threshold is set, and a NodeMetric there.
        reporting: how many rows are reported.
        reported: whether there is a NodeMetric that has usage of the node itself.
        expires_at: wall seconds at which the NodeMetric expires; minus infinity without a time.
        scored_until: the same, minus infinity where none is reported.
        checked_until: float64 ``[2, row]``: the same, infinity where no threshold is enforced.
        rows_with_thresholds: how many rows have any threshold at all.
    """

    def __init__(
        self,
        names: Sequence[str],
        thresholds: Thresholds,
        scored: AggregateKey | None,
        with_system: bool,
        expiration_seconds: float,
    ) -> None:
        self.names = tuple(names)
        self._arguments = thresholds
        self._scored = scored
        self._with_system = with_system
        self._expiration = expiration_seconds
        count = len(self.names)
        self.used = np.zeros((4, count, 0), np.int64)
        # The same as a table of one row a view and resource.
        self._cells = self.used.reshape(4 * count, 0)
        self._unused = np.zeros((2, 0), np.int64)
        self._numbers = np.arange(4 * count, dtype=np.intp)
        self.keys = [next(_KEYS) for _ in VIEWS]
        self.capacity = np.zeros((count, 0), np.int64)
        self.limit = np.zeros((2, count, 0), np.int64)
        self.enforced = np.zeros((2, 0), np.bool_)
        self.reported = np.zeros(0, np.bool_)
        self.reporting = 0
        self.expires_at = np.zeros(0)
        self.scored_until = np.zeros(0)
        self.checked_until = np.zeros((2, 0))
        self.rows_with_thresholds = 0
        self.thresholds: list[Thresholds] = []
        self._checked: list[bool] = []
        self._by_prod: list[bool] = []
        self._metrics: list[NodeUsage | None] = []
        self._pods: list[dict[str, AssignedPod]] = []

    # Nodes and NodeMetrics.

    def put_node(self, row: int, node: Node, metric: NodeUsage | None) -> None:
        """Takes over a node's capacity and thresholds, and its NodeMetric; its pods stay."""
        self._grow(row)
        allocatable = node.status.allocatable
        try:
            allocatable = {**allocatable, **(node_protocol.raw_allocatable(node) or {})}
        except KoordError as error:
            _LOG.warning("ignored", extra=log.fields(node=node.title, error=str(error)))
        self.capacity[:, row] = read(self.names, allocatable)
        self.thresholds[row] = self._arguments.of(node)
        self._report(row, metric)
        self._set_limits(row)
        self._refresh(row)

    def close(self, row: int) -> None:
        """Forgets a node; its pods have gone already."""
        self.thresholds[row] = self._arguments._replace(plain={}, prod={}, aggregate={}, key=None)
        self._pods[row] = {}
        self._report(row, None)
        self._set_limits(row)
        self._refresh(row)

    def put_metric(self, row: int, metric: NodeUsage | None) -> None:
        """Takes over what a node reports."""
        known, reported = self._metrics[row] is not None, bool(self.reported[row])
        self._report(row, metric)
        # From one report to the next thresholds come to the same amounts.
        if known != (metric is not None) or reported != bool(self.reported[row]):
            self._set_limits(row)
        self._refresh(row)

    def _report(self, row: int, metric: NodeUsage | None) -> None:
        self._metrics[row] = metric
        updated = metric.updated if metric is not None else None
        reported = metric is not None and metric.reported
        self.reporting += reported - bool(self.reported[row])
        self.reported[row] = reported
        expires_at = -math.inf if updated is None else updated + self._expiration
        self.expires_at[row] = expires_at
        self.scored_until[row] = expires_at if reported else -math.inf
        for view in (FILTER, FILTER_PROD):
            self._check_until(view, row)

    def metric(self, row: int) -> NodeUsage | None:
        """What a node reports, None without a NodeMetric."""
        return self._metrics[row]

    # Pods.

    def add(self, row: int, uid: str, pod: AssignedPod) -> None:
        """A pod counts on a row from now on."""
        self._pods[row][uid] = pod
        self._add_share(row, self._share(row, pod), 1)

    def add_all(self, pods: Sequence[tuple[int, str, AssignedPod]]) -> None:
        """The same as :meth:`add` for each."""
        if not pods:
            return
        for row, uid, pod in pods:
            self._pods[row][uid] = pod
        shares = [self._share(row, pod) for row, _, pod in pods]
        rows = np.array([row for row, _, _ in pods], np.intp)
        count_pods(self._cells, rows, [self._numbers] * len(pods), shares)

    def drop(self, row: int, uid: str) -> AssignedPod | None:
        """The exact inverse of :meth:`add`; None if the pod does not count there."""
        pod = self._pods[row].pop(uid, None)
        if pod is not None:
            self._add_share(row, self._share(row, pod), -1)
        return pod

    def reassign(self, row: int, uid: str, pod: AssignedPod) -> None:
        """A pod that counts on a row was assigned at another time than it was counted with."""
        before = self._pods[row][uid]
        metric = self._metrics[row]
        if before.estimate_by_view is pod.estimate_by_view and (
            metric is None or pod.key not in metric.pods
        ):
            # What is not measured yet counts whole, whenever it was assigned.
            self._pods[row][uid] = pod
        else:
            self.drop(row, uid)
            self.add(row, uid, pod)

    def pod(self, row: int, uid: str) -> AssignedPod | None:
        """A pod that counts on a row."""
        return self._pods[row].get(uid)

    def pods(self, row: int) -> Mapping[str, AssignedPod]:
        """The pods that count on a row, by uid."""
        return self._pods[row]

    def node_load(self, row: int) -> NodeLoad:
        """The load of a row now."""
        return NodeLoad(
            self.used[: FILTER_PROD + 1, :, row].tolist(),
            self.limit[:, :, row].tolist(),
            self.enforced[:, row].tolist(),
            float(self.expires_at[row]),
        )

    def is_aggregated(self, view: int, row: int) -> bool:
        """Whether a view of the filter looks at an aggregate."""
        of_prod = view == FILTER_PROD and self._by_prod[row]
        return self.thresholds[row].key is not None and not of_prod

    # How a row is calculated.

    def _add_share(self, row: int, share: NDArray[np.int64], times: int) -> None:
        # One call of a kernel: an in-place sum of so few numbers, far apart, costs NumPy more.
        count_pod(self._cells, self._unused, row, self._numbers, share, 0, 0, times)

    def _share(self, row: int, pod: AssignedPod) -> NDArray[np.int64]:
        """What a pod adds to a row, by view and resource, one after the other."""
        metric, by_prod = self._metrics[row] or NO_USAGE, self._by_prod[row]
        if pod.key not in metric.pods:
            return pod.estimate_by_view[by_prod]
        return _by_view(*self._parts(row, metric, pod))

    def _parts(self, row: int, metric: NodeUsage, pod: AssignedPod) -> tuple[AmountVector, ...]:
        """The same, view by view."""
        delta = metric.delta(pod)
        filtered = pod.estimate if metric.base(self.thresholds[row].key) is None else delta
        scored = pod.estimate if metric.base(self._scored) is None else delta
        prod = metric.prod_share(pod, delta) if pod.prod else [0] * len(delta)
        return filtered, prod if self._by_prod[row] else filtered, scored, prod

    def _refresh(self, row: int) -> None:
        """Calculates a row's use anew."""
        metric, zero = self._metrics[row] or NO_USAGE, [0] * len(self.names)
        filtered = metric.base(self.thresholds[row].key) or zero
        prod = (metric.system or zero) if self._with_system else zero
        by_prod = prod if self._by_prod[row] else filtered
        # Sums of plain integers: an array for every pod would take several times as long.
        sums = [list(view) for view in (filtered, by_prod, metric.base(self._scored) or zero, prod)]
        based = metric.base(self.thresholds[row].key) and metric.base(self._scored)
        known, updated = metric.pods, metric.updated
        settled = updated - metric.interval if based and updated is not None else -math.inf
        for pod in self._pods[row].values():
            # In what is measured with all that it will use, see `may_grow`: of most pods,
            # and a call for each would take as long as all the rest.
            late = pod.since > settled or pod.prod or pod.key not in known
            if not late and (pod.deadline is None or not metric.may_grow(pod)):
                continue
            for view, part in zip(sums, self._parts(row, metric, pod), strict=True):
                for index, amount in enumerate(part):
                    view[index] += amount
        self.used[:, :, row] = sums

    def _set_limits(self, row: int) -> None:
        """Turns a row's thresholds into amounts."""
        known, (prod, others) = self._metrics[row] is not None, self._percents(row)
        self._by_prod[row] = any(prod)
        self.rows_with_thresholds += (any(prod) or any(others)) - self._checked[row]
        self._checked[row] = any(prod) or any(others)
        checked = known and bool(self.reported[row])
        capacities = self.capacity[:, row].tolist()
        for view, percents in ((FILTER, others), (FILTER_PROD, prod if any(prod) else others)):
            self.enforced[view, row] = known and any(percents)
            self._check_until(view, row)
            self.limit[view, :, row] = [
                most_within(percent, capacity) if checked and percent and capacity else NO_LIMIT
                for percent, capacity in zip(percents, capacities, strict=True)
            ]

    def _check_until(self, view: int, row: int) -> None:
        until = max(float(self.expires_at[row]), _PAST)
        self.checked_until[view, row] = until if self.enforced[view, row] else math.inf

    def _percents(self, row: int) -> tuple[list[int], list[int]]:
        """By resource, the thresholds for Prod pods and for others; 0 does not check."""
        chosen = self.thresholds[row]
        plain = chosen.plain if chosen.key is None else chosen.aggregate
        prod = [chosen.prod.get(name, 0) for name in self.names]
        return prod, [plain.get(name, 0) for name in self.names]

    def percents(self, view: int, row: int) -> list[int]:
        """By resource, the thresholds that a view of the filter looks at; 0 does not check."""
        prod, others = self._percents(row)
        return prod if view == FILTER_PROD and any(prod) else others

    def _grow(self, row: int) -> None:
        """Makes columns as long as it takes."""
        have = len(self.reported)
        if row < have:
            return
        size = max(_LEAST_ROWS, 2 * row)
        for name in _COLUMNS:
            old = getattr(self, name)
            longer = np.zeros((*old.shape[:-1], size), old.dtype)
            longer[..., :have] = old
            setattr(self, name, longer)
        self._cells = self.used.reshape(4 * len(self.names), size)
        self._unused = np.zeros((2, size), np.int64)
        more = size - have
        self._metrics += [None] * more
        self._pods += [{} for _ in range(more)]
        self.thresholds += [self._arguments] * more
        self._checked += [False] * more
        self._by_prod += [False] * more


def _by_view(*amounts: AmountVector) -> NDArray[np.int64]:
    """Amounts of the four views, one view after the other."""
    # Of one list: of lists in a list NumPy makes an array in twice the time.
    return np.array([amount for view in amounts for amount in view], np.int64)


def estimate_by_view(
    estimate: AmountVector, prod: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An estimate by view for :class:`AssignedPod`: on rows without, and with, Prod thresholds."""
    if prod:
        whole = np.array(4 * estimate, np.int64)
        return whole, whole
    nothing = [0] * len(estimate)
    return (
        np.array([*estimate, *estimate, *estimate, *nothing], np.int64),
        np.array(2 * [*estimate, *nothing], np.int64),
    )


def most_within(percent: int, capacity: int) -> int:
    """The greatest amount whose share of the capacity, rounded, is not above a percentage.

    The share is rounded half up after it was worked out in floating point, as Koordinator does.
    """
    percent = min(max(percent, -1), 1_000_000)
    amount = capacity * (2 * percent + 1) // 200
    while amount / capacity * 100 >= percent + 0.5:
        amount -= 1
    while (amount + 1) / capacity * 100 < percent + 0.5:
        amount += 1
    return min(amount, NO_LIMIT)
