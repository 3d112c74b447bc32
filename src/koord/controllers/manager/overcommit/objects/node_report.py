# SPDX-License-Identifier: Apache-2.0
"""What a Node and its NodeMetric say, as one row of columns.

Rule: docs/reference/overcommit.md#inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.topology import ZONE_TYPE_NODE
from koord.api.protocol import node_reservation as reservations
from koord.api.protocol import nodes as node_protocol
from koord.api.protocol.priority import PriorityClass
from koord.base.errors import KoordError
from koord.controllers.manager.overcommit import amounts
from koord.controllers.manager.overcommit.formulas.zones import UNKNOWN, numbers
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import (
        HostApplicationMetricInfo,
        NodeMetric,
        NodeMetricInfo,
        PodMetricInfo,
        ResourceMap,
    )
    from koord.api.kinds.topology import NodeResourceTopology, Zone

Pair = tuple[int, int]
NOTHING: Pair = (0, 0)
UNKNOWN_PAIR: Pair = (UNKNOWN, UNKNOWN)
_ZONE_TYPES = frozenset({ZONE_TYPE_NODE, ""})
_ABOVE_BATCH = frozenset({PriorityClass.PROD, PriorityClass.MID})
_ABOVE_MID = frozenset({PriorityClass.PROD})


class NodeTerms(NamedTuple):
    """What a Node says; pairs are CPU milli and memory bytes, as in ``nodes.Nodes``."""

    capacity: Pair = NOTHING
    kubelet_reserved: Pair = NOTHING
    annotation_reserved: Pair = NOTHING


class ReportTerms(NamedTuple):
    """What a NodeMetric says; see ``nodes.Nodes``.

    Args:
        zone_system: by NUMA number, what neither pods nor applications use there.
        pods: by namespace and name, the metric of each pod.
    """

    system: Pair = NOTHING
    host_high: Pair = NOTHING
    host_firm: Pair = NOTHING
    used: Pair = UNKNOWN_PAIR
    reclaimable: Pair = NOTHING
    reported: DegradeReason = DegradeReason.NO_METRIC
    updated: float = float("-inf")
    zone_system: dict[int, Pair] = {}  # noqa: RUF012 - never changed
    pods: dict[str, PodMetricInfo] = {}  # noqa: RUF012 - never changed

    def columns(self) -> dict[str, object]:
        """What of it stands in ``nodes.Nodes``, by column."""
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = (
    "system", "host_high", "host_firm", "used", "reclaimable", "reported", "updated",
)  # fmt: skip


def machine(node: Node) -> NodeTerms:
    """What the machine has and holds back.

    What is allocatable counts as it was before amplification. An annotation that cannot be read
    reserves nothing.
    """
    status = node.status
    capacity = amounts.read(status.capacity)
    allocatable = amounts.read({**status.allocatable, **_raw(node)})
    return NodeTerms(
        capacity=capacity,
        kubelet_reserved=_less(capacity, allocatable),
        annotation_reserved=_annotated(node),
    )


def report(metric: NodeMetric | None) -> ReportTerms:
    """What the agent measured; one without time or body tells why nothing is offered."""
    if metric is None:
        return ReportTerms()
    status = metric.status
    pods = {f"{each.namespace}/{each.name}": each for each in status.pods_metric}
    if status.update_time is None:
        return ReportTerms(reported=DegradeReason.NO_TIME, pods=pods)
    updated = status.update_time.timestamp()
    if status.node_metric is None:
        return ReportTerms(reported=DegradeReason.NO_BODY, updated=updated, pods=pods)
    applications, predicted = status.host_application_metric, status.prod_reclaimable_metric
    return ReportTerms(
        system=_pair(status.node_metric.system_usage),
        host_high=_host(applications, _ABOVE_BATCH),
        host_firm=_host(applications, _ABOVE_MID),
        used=_used(status.node_metric),
        reclaimable=_pair(predicted.resource) if predicted else NOTHING,
        reported=DegradeReason.NO,
        updated=updated,
        zone_system=_zones(status.node_metric),
        pods=pods,
    )


def zone_capacity(topology: NodeResourceTopology) -> dict[int, Pair]:
    """What pods may ask of each NUMA zone, by number; empty unless a zone has CPU or memory."""
    listed = [
        {each.name: each.allocatable for each in zone.resources if each.allocatable is not None}
        for zone in _numa_zones(topology)
    ]
    if not any(name in resources for resources in listed for name in amounts.NAMES):
        return {}
    return dict(zip(zone_numbers(topology).values(), map(amounts.read, listed), strict=True))


def zone_numbers(topology: NodeResourceTopology) -> dict[str, int]:
    """The NUMA number of each zone by name, in the order of the list."""
    names = [zone.name for zone in _numa_zones(topology)]
    return dict(zip(names, numbers(names), strict=True))


def _numa_zones(topology: NodeResourceTopology) -> list[Zone]:
    """Zones of other types are parts of the machine that no pod is bound to; of two of one name the
    first is meant."""
    found: dict[str, Zone] = {}
    for zone in topology.zones:
        if zone.type in _ZONE_TYPES:
            found.setdefault(zone.name, zone)
    return list(found.values())


def _raw(node: Node) -> ResourceList:
    try:
        return node_protocol.raw_allocatable(node) or {}
    except KoordError:
        return {}


def _annotated(node: Node) -> Pair:
    try:
        found = reservations.node_reservation(node)
        return amounts.read(reservations.reserved_resources(found, node.title))
    except KoordError:
        return NOTHING


def _less(capacity: Pair, allocatable: Pair) -> Pair:
    cpu, memory = (max(0, a - b) for a, b in zip(capacity, allocatable, strict=True))
    return cpu, memory


def _pair(usage: ResourceMap | None) -> Pair:
    return amounts.read(usage.resources) if usage else NOTHING


def _used(metric: NodeMetricInfo) -> Pair:
    """All that is used; unsaid where a resource is missing: then nothing counts as idle."""
    usage = metric.node_usage
    if usage is None or not set(amounts.NAMES) <= usage.resources.keys():
        return UNKNOWN_PAIR
    return amounts.read(usage.resources)


def _host(applications: Iterable[HostApplicationMetricInfo], classes: frozenset[str]) -> Pair:
    cpu = memory = 0
    for each in applications:
        if each.priority in classes:
            used = _pair(each.usage)
            cpu, memory = cpu + used[0], memory + used[1]
    return cpu, memory


def _zones(metric: NodeMetricInfo) -> dict[int, Pair]:
    return {
        each.numa_node_id: _pair(each.system_usage)
        for each in metric.numa_usages
        if each.system_usage is not None
    }
