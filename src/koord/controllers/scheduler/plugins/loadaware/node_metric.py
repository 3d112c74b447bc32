# SPDX-License-Identifier: Apache-2.0
"""A NodeMetric and an assigned pod as integers by resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koord.api.protocol.priority import PriorityClass
from koord.api.requests import amount
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.nodemetric import NodeMetric, NodeMetricInfo, ResourceMap
    from koord.controllers.scheduler.plugins.loadaware.thresholds import AggregateKey

_DEFAULT_REPORT_SECONDS = 60
_MOST = 2**53
"""No amount counts for more: sums and products of such still fit 64 bits, and no node has it."""

_ZERO = Quantity.from_value(0)

AmountVector = list[int]
"""By resource, in the order of a list of names that all have in common."""


def vector(names: Sequence[str], amounts: Mapping[str, int]) -> AmountVector:
    """Amounts in the order of the names, each from 0 to :data:`_MOST`; others are left out."""
    return [min(max(amounts.get(name, 0), 0), _MOST) for name in names]


def read(names: Sequence[str], quantities: ResourceList) -> AmountVector:
    """Quantities in the order of the names, as :func:`vector`."""
    return [_amount(name, quantities[name]) if name in quantities else 0 for name in names]


def _amount(name: str, quantity: Quantity) -> int:
    try:
        value = amount(name, quantity)
    except ValueError:
        return _MOST if quantity > _ZERO else 0
    return min(max(value, 0), _MOST)


class AssignedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that counts on a node.

    Attributes:
        key: ``namespace/name``, as NodeMetrics name pods.
        estimate: what it is expected to use.
        estimate_by_view: see
            :func:`koord.controllers.scheduler.plugins.loadaware.cache.estimate_by_view`.
        prod: whether its priority class is Prod.
        since: wall seconds of its assignment.
        deadline: wall seconds until which the estimate holds whatever is measured; None for not.
    """

    key: str
    estimate: AmountVector
    estimate_by_view: tuple[NDArray[np.int64], NDArray[np.int64]]
    prod: bool
    since: float
    deadline: float | None


class NodeUsage(NamedTuple):
    """A NodeMetric.

    Attributes:
        updated: wall seconds, None for never.
        interval: seconds between two reports.
        reported: whether there is anything of the node itself.
        node: its usage; None if nothing is reported of the node.
        system: what no pod uses; None in the same case.
        aggregates: usage by statistic and nanoseconds, 0 for the longest.
        pods: usage by ``namespace/name``.
        prod: pods that are reported as Prod.
    """

    updated: float | None = None
    interval: float = _DEFAULT_REPORT_SECONDS
    reported: bool = False
    node: AmountVector | None = None
    system: AmountVector | None = None
    aggregates: Mapping[AggregateKey, AmountVector] = {}
    pods: Mapping[str, AmountVector] = {}
    prod: frozenset[str] = frozenset()

    def base(self, key: AggregateKey | None) -> AmountVector | None:
        """What is measured of the node: an aggregate, or the usage for None.

        Returns:
            None if it is not reported: then all pods count by their estimates. The usage stands in
            for an aggregate of no given length.
        """
        if key is None:
            return self.node
        usage = self.aggregates.get(key)
        return self.node if usage is None and key[1] == 0 else usage

    def may_grow(self, pod: AssignedPod) -> bool:
        """Whether a pod may come to use more than what is measured of it."""
        if pod.key not in self.pods or self.updated is None:
            return True
        if self.updated - self.interval < pod.since:
            return True
        return pod.deadline is not None and pod.deadline > self.updated

    def delta(self, pod: AssignedPod) -> AmountVector:
        """What a pod is expected to use beyond what is measured of it."""
        usage = self.pods.get(pod.key)
        if usage is None:
            return pod.estimate
        if not self.may_grow(pod):
            return [0] * len(usage)
        return [max(e - u, 0) for e, u in zip(pod.estimate, usage, strict=True)]

    def prod_share(self, pod: AssignedPod, delta: AmountVector) -> AmountVector:
        """Measured usage and expected rest (:meth:`delta`) of a pod that is Prod by class.

        Only who is reported as Prod too is taken at its measure
        (docs/reference/load.md#prod-load).
        """
        usage = self.pods.get(pod.key)
        if usage is None or pod.key not in self.prod:
            return pod.estimate
        return [u + d for u, d in zip(usage, delta, strict=True)]


NO_USAGE = NodeUsage()


def node_usage(metric: NodeMetric, names: Sequence[str]) -> NodeUsage:
    """A NodeMetric by resources of the names."""
    status, policy = metric.status, metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy is not None else None
    pods, prod = {}, set()
    for pod in status.pods_metric:
        usage = pod.pod_usage
        if usage is not None and usage.resources:
            key = f"{pod.namespace}/{pod.name}"
            pods[key] = read(names, usage.resources)
            if pod.priority == PriorityClass.PROD:
                prod.add(key)
    info = status.node_metric
    return NodeUsage(
        status.update_time.timestamp() if status.update_time is not None else None,
        _DEFAULT_REPORT_SECONDS if interval is None else interval,
        info is not None,
        _usage(info.node_usage, names) if info is not None else None,
        _usage(info.system_usage, names) if info is not None else None,
        _aggregates(info, names) if info is not None else {},
        pods,
        frozenset(prod),
    )


def _usage(usage: ResourceMap | None, names: Sequence[str]) -> AmountVector:
    """A usage that names no resource is one of 0."""
    return read(names, usage.resources if usage is not None else {})


def _aggregates(info: NodeMetricInfo, names: Sequence[str]) -> dict[AggregateKey, AmountVector]:
    aggregates: dict[AggregateKey, AmountVector] = {}
    for listed in info.aggregated_node_usages:
        nanoseconds = listed.duration.nanoseconds if listed.duration is not None else 0
        for statistic, usage in listed.usage.items():
            if usage.resources:
                aggregates[statistic, nanoseconds] = read(names, usage.resources)
    # Ascending, so the longest is kept.
    for statistic, nanoseconds in sorted(aggregates, key=lambda key: key[1]):
        if nanoseconds > 0:
            aggregates[statistic, 0] = aggregates[statistic, nanoseconds]
    return aggregates
