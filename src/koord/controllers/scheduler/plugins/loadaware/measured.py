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

DEFAULT_REPORT_SECONDS = 60
MOST = 2**53
"""No amount counts for more: sums and products of such still fit 64 bits, and no node has it."""

_ZERO = Quantity.from_value(0)

Amounts = list[int]
"""By resource, in the order of a list of names that all have in common."""


def vector(names: Sequence[str], amounts: Mapping[str, int]) -> Amounts:
    """Amounts in the order of the names, each from 0 to :data:`MOST`; others are left out."""
    return [min(max(amounts.get(name, 0), 0), MOST) for name in names]


def read(names: Sequence[str], quantities: ResourceList) -> Amounts:
    """Quantities in the order of the names, as :func:`vector`."""
    return [_amount(name, quantities[name]) if name in quantities else 0 for name in names]


def _amount(name: str, quantity: Quantity) -> int:
    try:
        found = amount(name, quantity)
    except ValueError:
        return MOST if quantity > _ZERO else 0
    return min(max(found, 0), MOST)


class Assigned(msgspec.Struct, frozen=True, gc=False):
    """A pod that counts on a node.

    Attributes:
        key: ``namespace/name``, as NodeMetrics name pods.
        estimate: what it is expected to use.
        whole: see :func:`koord.controllers.scheduler.plugins.loadaware.ledger.whole`.
        prod: whether its priority class is Prod.
        since: wall seconds of its assignment.
        deadline: wall seconds until which the estimate holds whatever is measured; None for not.
    """

    key: str
    estimate: Amounts
    whole: tuple[NDArray[np.int64], NDArray[np.int64]]
    prod: bool
    since: float
    deadline: float | None


class Measured(NamedTuple):
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
    interval: float = DEFAULT_REPORT_SECONDS
    reported: bool = False
    node: Amounts | None = None
    system: Amounts | None = None
    aggregates: Mapping[AggregateKey, Amounts] = {}
    pods: Mapping[str, Amounts] = {}
    prod: frozenset[str] = frozenset()

    def base(self, key: AggregateKey | None) -> Amounts | None:
        """What is measured of the node: an aggregate, or the usage for None.

        Returns:
            None if it is not reported: then all pods count by their estimates. The usage stands in
            for an aggregate of no given length.
        """
        if key is None:
            return self.node
        found = self.aggregates.get(key)
        return self.node if found is None and key[1] == 0 else found

    def awaited(self, pod: Assigned) -> bool:
        """Whether a pod may come to use more than what is measured of it."""
        if pod.key not in self.pods or self.updated is None:
            return True
        if self.updated - self.interval < pod.since:
            return True
        return pod.deadline is not None and pod.deadline > self.updated

    def delta(self, pod: Assigned) -> Amounts:
        """What a pod is expected to use beyond what is measured of it."""
        usage = self.pods.get(pod.key)
        if usage is None:
            return pod.estimate
        if not self.awaited(pod):
            return [0] * len(usage)
        return [max(e - u, 0) for e, u in zip(pod.estimate, usage, strict=True)]

    def prod_share(self, pod: Assigned, delta: Amounts) -> Amounts:
        """Measured usage and expected rest (:meth:`delta`) of a pod that is Prod by class.

        Only who is reported as Prod too is taken at its measure
        (docs/reference/load.md#prod-load).
        """
        usage = self.pods.get(pod.key)
        if usage is None or pod.key not in self.prod:
            return pod.estimate
        return [u + d for u, d in zip(usage, delta, strict=True)]


NOTHING = Measured()


def measure(metric: NodeMetric, names: Sequence[str]) -> Measured:
    """A NodeMetric by resources of the names."""
    status, policy = metric.status, metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy is not None else None
    pods, prod = {}, set()
    for each in status.pods_metric:
        usage = each.pod_usage
        if usage is not None and usage.resources:
            key = f"{each.namespace}/{each.name}"
            pods[key] = read(names, usage.resources)
            if each.priority == PriorityClass.PROD:
                prod.add(key)
    info = status.node_metric
    return Measured(
        status.update_time.timestamp() if status.update_time is not None else None,
        DEFAULT_REPORT_SECONDS if interval is None else interval,
        info is not None,
        _usage(info.node_usage, names) if info is not None else None,
        _usage(info.system_usage, names) if info is not None else None,
        _aggregates(info, names) if info is not None else {},
        pods,
        frozenset(prod),
    )


def _usage(usage: ResourceMap | None, names: Sequence[str]) -> Amounts:
    """A usage that names no resource is one of 0."""
    return read(names, usage.resources if usage is not None else {})


def _aggregates(info: NodeMetricInfo, names: Sequence[str]) -> dict[AggregateKey, Amounts]:
    found: dict[AggregateKey, Amounts] = {}
    for each in info.aggregated_node_usages:
        nanoseconds = each.duration.nanoseconds if each.duration is not None else 0
        for statistic, usage in each.usage.items():
            if usage.resources:
                found[statistic, nanoseconds] = read(names, usage.resources)
    # Ascending, so the longest is left standing.
    for statistic, nanoseconds in sorted(found, key=lambda key: key[1]):
        if nanoseconds > 0:
            found[statistic, 0] = found[statistic, nanoseconds]
    return found
