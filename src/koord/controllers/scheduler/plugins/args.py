# SPDX-License-Identifier: Apache-2.0
"""What the stock plugins can be told: ``kubescheduler.config.k8s.io/v1``, with its defaults."""

from __future__ import annotations

from msgspec import field

from koord.api.kinds.constraints import NodeAffinity, TopologySpreadConstraint
from koord.api.wirestruct import WireStruct


class ResourceSpec(WireStruct):
    """A resource that counts in a score. A weight of 0 stands for 1."""

    name: str = ""
    weight: int = 1


class UtilizationShapePoint(WireStruct):
    """A corner of the line from used percents (0 to 100) to scores (0 to 10)."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(WireStruct):
    """The line, by its corners in ascending order."""

    shape: list[UtilizationShapePoint] = []


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec("cpu", 1), ResourceSpec("memory", 1)]


class ScoringStrategy(WireStruct):
    """``LeastAllocated``, ``MostAllocated`` or ``RequestedToCapacityRatio``."""

    type: str = "LeastAllocated"
    resources: list[ResourceSpec] = field(default_factory=_cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(WireStruct):
    """Of NodeResourcesFit. What is ignored is so by the filter only, extended resources only."""

    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = field(default_factory=ScoringStrategy)


class NodeResourcesBalancedAllocationArgs(WireStruct):
    """Of NodeResourcesBalancedAllocation; weights count for nothing."""

    resources: list[ResourceSpec] = field(default_factory=_cpu_and_memory)


class NodeAffinityArgs(WireStruct):
    """Of NodeAffinity: what holds for every pod of the profile beside its own."""

    added_affinity: NodeAffinity | None = None


class InterPodAffinityArgs(WireStruct):
    """Of InterPodAffinity.

    ``hard_pod_affinity_weight`` (0 to 100): what a required term of a pod that runs adds to the
    score of its domain. ``ignore_preferred_terms_of_existing_pods``: pods without preferred terms
    of their own get no score.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class PodTopologySpreadArgs(WireStruct):
    """Of PodTopologySpread: constraints of pods that have none, by ``System`` or ``List``."""

    default_constraints: list[TopologySpreadConstraint] = []
    defaulting_type: str = "System"
