# SPDX-License-Identifier: Apache-2.0
"""What labels and annotations of a node say: system CPUs, ratios, thresholds, policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.duration import Duration
from koord.api.kinds.meta import ResourceList
from koord.api.protocol import annotation, keys
from koord.api.protocol.numbers import parse_bool, parse_float
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.node import Node

NONE, FULL_PCPUS_ONLY, SPREAD_BY_PCPUS = "None", "FullPCPUsOnly", "SpreadByPCPUs"
MOST_ALLOCATED, LEAST_ALLOCATED = "MostAllocated", "LeastAllocated"
DISTRIBUTE_EVENLY = "DistributeEvenly"
HONOR, PREFER = "Honor", "Prefer"

NO_RATIO = -1.0
LARGEST_RATIO = 1000
"""Nodes that say more are not placed on."""
PLAUSIBLE_RATIO = 10
PLAUSIBLE = f"a ratio of at most {PLAUSIBLE_RATIO}: a node cannot keep what it offers beyond that"
RATIO_TOLERANCE = 0.01
MOST_CPU_RATIO = 5.0
"""No CPUs are so many times as fast as others; the manager writes no more."""


class SystemQOSResource(WireStruct):
    """``node.koordinator.sh/system-qos-resource``: CPUs of SYSTEM pods, theirs alone or not."""

    cpuset: str = ""
    cpuset_exclusive: bool | None = None

    @property
    def exclusive(self) -> bool:
        """Whether the CPUs are theirs alone, which is the default."""
        return self.cpuset_exclusive is not False


class AggregatedThresholds(WireStruct):
    """Thresholds on one statistic over one window."""

    usage_thresholds: dict[str, int] = {}
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Duration | None = None


class UsageThresholds(WireStruct):
    """``scheduling.koordinator.sh/usage-thresholds``: percentages above which no pod comes in."""

    usage_thresholds: dict[str, int] = {}
    prod_usage_thresholds: dict[str, int] = {}
    aggregated_usage: AggregatedThresholds | None = None


class OriginAllocatable(WireStruct):
    """``node.koordinator.sh/originExtendedAllocatable``: before third parties took theirs."""

    resources: ResourceList = {}


class ThirdPartyAllocation(WireStruct):
    """What one other scheduler holds on the node."""

    name: str = ""
    priority: str = ""
    resources: ResourceList = {}


class ThirdPartyAllocations(WireStruct):
    """``node.koordinator.sh/thirdPartyAllocations``."""

    allocations: list[ThirdPartyAllocation] = []


def system_qos_resource(node: Node) -> SystemQOSResource | None:
    """The CPUs of SYSTEM pods; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(node, keys.SYSTEM_QOS_RESOURCE, SystemQOSResource)


def usage_thresholds(node: Node) -> UsageThresholds | None:
    """The node's own load thresholds; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(node, keys.USAGE_THRESHOLDS, UsageThresholds)


def amplification_ratios(node: Node) -> dict[str, float]:
    """Ratio by resource; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(node, keys.RESOURCE_AMPLIFICATION_RATIO, dict[str, float]) or {}


def unfollowed_ratios(node: Node) -> Iterator[KoordError]:
    """Amplification ratios that are none: below 1 nothing is amplified, beyond 1000 nothing is.

    Raises:
        KoordError: malformed.
    """
    for name, ratio in amplification_ratios(node).items():
        if not 1 <= ratio <= LARGEST_RATIO:
            expected = f"a ratio from 1 to {LARGEST_RATIO:g}"
            yield KoordError(node.title, _ratio_field(name), ratio, expected)


def implausible_ratios(node: Node) -> Iterator[KoordError]:
    """Amplification ratios that are followed, and that nobody can have meant.

    Raises:
        KoordError: malformed.
    """
    for name, ratio in amplification_ratios(node).items():
        if PLAUSIBLE_RATIO < ratio <= LARGEST_RATIO:
            yield KoordError(node.title, _ratio_field(name), ratio, PLAUSIBLE)


def _ratio_field(name: str) -> str:
    return f"{annotation.field_of(keys.RESOURCE_AMPLIFICATION_RATIO)}[{name}]"


def ratios_text(ratios: Mapping[str, float]) -> str:
    """The annotation of amplification ratios: sorted, each with exactly two decimals."""
    parts = (f"{annotation.text(name)}:{ratios[name]:.2f}" for name in sorted(ratios))
    return "{" + ",".join(parts) + "}"


def raw_allocatable(node: Node) -> ResourceList | None:
    """What was allocatable before amplification; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(node, keys.RAW_ALLOCATABLE, ResourceList)


def cpu_normalization_ratio(node: Node) -> float:
    """How fast the node's CPUs are; -1 without the annotation.

    Raises:
        KoordError: no number above 0, or one beyond :data:`MOST_CPU_RATIO`.
    """
    text = node.metadata.annotations.get(keys.CPU_NORMALIZATION_RATIO)
    if text is None:
        return NO_RATIO
    field = annotation.field_of(keys.CPU_NORMALIZATION_RATIO)
    ratio = parse_float(text, node.title, field)
    if not 0 < ratio <= MOST_CPU_RATIO:
        expected = f"a number above 0, at most {MOST_CPU_RATIO:g}"
        raise KoordError(node.title, field, text, expected)
    return ratio


def ratio_text(ratio: float) -> str:
    """A ratio as annotations carry it, with two decimals."""
    return f"{ratio:.2f}"


def ratios_differ(one: float, other: float) -> bool:
    """Whether two ratios differ by more than printing them may have cost."""
    return abs(one - other) > RATIO_TOLERANCE


def cpu_normalization_enabled(node: Node) -> bool | None:
    """The node's own switch; None without the label.

    Raises:
        KoordError: no truth value.
    """
    text = node.metadata.labels.get(keys.CPU_NORMALIZATION_ENABLED)
    if text is None:
        return None
    return parse_bool(text, node.title, f"labels[{keys.CPU_NORMALIZATION_ENABLED}]")


def ratio_label_percent(node: Node, key: str) -> int | None:
    """A ratio label such as ``cpu-reclaim-ratio`` in whole percent, cut; None if absent or bad."""
    text = node.metadata.labels.get(key)
    if text is None:  # on nearly every node
        return None
    try:
        ratio = parse_float(text, node.title, key)
    except KoordError:
        return None
    return int(ratio * 100) if ratio >= 0 else None


def network_bandwidth(node: Node) -> Quantity | None:
    """The node's bandwidth in bits per second; None without the annotation.

    Raises:
        KoordError: no quantity, or less than 0.
    """
    text = node.metadata.annotations.get(keys.NETWORK_BANDWIDTH)
    if text is None:
        return None
    field = annotation.field_of(keys.NETWORK_BANDWIDTH)
    try:
        found = Quantity.parse(text)
    except ValueError as error:
        raise KoordError.wrap(node.title, field, error) from None
    if found < Quantity():
        raise KoordError(node.title, field, text, "a quantity >= 0")
    return found


def cpu_bind_policy(node: Node, kubelet_policy: str, kubelet_options: Mapping[str, str]) -> str:
    """The bind policy in force on a node.

    Args:
        node: the node, whose label counts.
        kubelet_policy: the kubelet's CPU manager policy.
        kubelet_options: its options.
    """
    label = node.metadata.labels.get(keys.CPU_BIND_POLICY)
    kubelet_binds = kubelet_policy == "static" and kubelet_options.get("full-pcpus-only") == "true"
    if label == FULL_PCPUS_ONLY or kubelet_binds:
        return FULL_PCPUS_ONLY
    return SPREAD_BY_PCPUS if label == SPREAD_BY_PCPUS else NONE


def numa_allocate_strategy(node: Node, default: str) -> str:
    """The node's own strategy if its label is not empty, else the scheduler's."""
    return node.metadata.labels.get(keys.NUMA_ALLOCATE_STRATEGY) or default


def numa_topology_policy(node: Node, reported: str) -> str:
    """The node's own policy if its label is not empty, else what its topology object reports."""
    return node.metadata.labels.get(keys.NUMA_TOPOLOGY_POLICY) or reported


def gpu_partition_policy(labels: Mapping[str, str]) -> str:
    """``Honor`` if whole GPUs are given as partitions only, else ``Prefer``.

    Args:
        labels: of whoever the partitions come from: the Device, or the node for those of its model.
    """
    return HONOR if labels.get(keys.GPU_PARTITION_POLICY) == HONOR else PREFER


def origin_allocatable(node: Node) -> OriginAllocatable | None:
    """What was allocatable before third parties took theirs; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    text = node.metadata.annotations.get(keys.ORIGIN_EXTENDED_ALLOCATABLE)
    # On every node, and nearly always of koord's own making: that needs no leniency.
    found = annotation.canonical(text, OriginAllocatable) if text is not None else None
    if found is not None:
        return found
    return annotation.read(node, keys.ORIGIN_EXTENDED_ALLOCATABLE, OriginAllocatable)


def third_party_allocations(node: Node) -> ThirdPartyAllocations:
    """What other schedulers hold; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    found = annotation.read(node, keys.THIRD_PARTY_ALLOCATIONS, ThirdPartyAllocations)
    return found or ThirdPartyAllocations()


def third_party_total(node: Node, priority_class: str) -> ResourceList:
    """The sum of what other schedulers hold for one priority class.

    Raises:
        KoordError: malformed.
    """
    zero = Quantity()
    total: ResourceList = {}
    for allocation in third_party_allocations(node).allocations:
        if allocation.priority == priority_class:
            for name, amount in allocation.resources.items():
                total[name] = total.get(name, zero) + amount
    return total
