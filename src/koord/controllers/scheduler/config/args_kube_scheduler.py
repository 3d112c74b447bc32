# SPDX-License-Identifier: Apache-2.0
"""Arguments of the plugins that kube-scheduler has too.

Names, defaults and bounds are those of ``kubescheduler.config.k8s.io/v1``; see
docs/reference/scheduling.md#configuration.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.api.duration import Duration
from koord.api.kinds.constraints import (
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySpreadConstraint,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs, without_empty

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
SYSTEM, LIST = "System", "List"

_MOST_WEIGHT = 100
_FIELD_OPERATORS = ("In", "NotIn")
_OPERATORS = (*_FIELD_OPERATORS, "Exists", "DoesNotExist", "Gt", "Lt")


class ScoredResource(ConfigStruct, frozen=True):
    """A resource that counts in a score, and how much."""

    name: str
    weight: int = 1


def cpu_and_memory() -> list[ScoredResource]:
    """What counts where nothing is said."""
    return [ScoredResource(name="cpu"), ScoredResource(name="memory")]


def with_weights(document: dict[str, Any]) -> dict[str, Any]:
    """A document with ``resources``: none at all stands for the default, weight 0 for 1."""
    changed = without_empty(document, "resources")
    resources = changed.get("resources")
    if isinstance(resources, list):
        changed["resources"] = [
            without_empty(item, "weight") if isinstance(item, dict) else item for item in resources
        ]
    return changed


def strategies_with_weights(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The same for scoring strategies at some keys."""
    strategies = {k: with_weights(document[k]) for k in keys if isinstance(document.get(k), dict)}
    return document | strategies


def check_resources(resources: list[ScoredResource], at: FieldPath) -> None:
    """Weights are 1 to 100, names are resource names, none comes twice."""
    for index, resource in enumerate(resources):
        at.inside(index, "name").qualified_name(resource.name)
        at.inside(index, "weight").between(resource.weight, 1, _MOST_WEIGHT)
    at.distinct([resource.name for resource in resources], "resource")


class ShapePoint(ConfigStruct, frozen=True):
    """A point of a function from utilisation (0..100) to score (0..10)."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True):
    """The function of that strategy: straight lines between points."""

    shape: list[ShapePoint] = []

    def check(self, at: FieldPath) -> None:
        """At least one point, in rising order of utilisation."""
        at.need(bool(self.shape), [], "at least one point")
        last = -1
        for index, point in enumerate(self.shape):
            spot = at.inside(index)
            spot.inside("utilization").between(point.utilization, 0, 100)
            spot.inside("score").between(point.score, 0, 10)
            rising = "more than that of the point before"
            spot.inside("utilization").need(point.utilization > last, point.utilization, rising)
            last = point.utilization


class FitScoringStrategy(ConfigStruct, frozen=True):
    """How NodeResourcesFit scores."""

    type: str = LEAST_ALLOCATED
    resources: list[ScoredResource] = field(default_factory=cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def check(self, at: FieldPath) -> None:
        """A known type, with a function if and only if it needs one."""
        kinds = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
        at.inside("type").one_of(self.type, kinds)
        check_resources(self.resources, at.inside("resources"))
        spot, ratio = at.inside("requestedToCapacityRatio"), self.requested_to_capacity_ratio
        wanted = self.type == REQUESTED_TO_CAPACITY_RATIO
        expected = f"it {'' if wanted else 'only '}with type {REQUESTED_TO_CAPACITY_RATIO}"
        spot.need((ratio is not None) == wanted, None if ratio is None else "a value", expected)
        if ratio is not None:
            ratio.check(spot.inside("shape"))


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Which resources are not looked at by Filter, and how nodes are scored."""

    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: FitScoringStrategy = field(default_factory=FitScoringStrategy)

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Fills in resources and weights."""
        return strategies_with_weights(document, "scoringStrategy")

    def check(self, at: FieldPath) -> None:
        """Names are resource names, groups have no slash."""
        for index, name in enumerate(self.ignored_resources):
            at.inside("ignoredResources", index).qualified_name(name)
        for index, group in enumerate(self.ignored_resource_groups):
            spot = at.inside("ignoredResourceGroups", index)
            spot.need("/" not in group, group, "a resource group without /")
            spot.qualified_name(group)
        self.scoring_strategy.check(at.inside("scoringStrategy"))


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """Which resources are to be used evenly."""

    resources: list[ScoredResource] = field(default_factory=cpu_and_memory)

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """Fills in resources and weights."""
        return with_weights(document)

    def check(self, at: FieldPath) -> None:
        """Weights have no meaning here, so they must be 1."""
        spot = at.inside("resources")
        check_resources(self.resources, spot)
        for index, resource in enumerate(self.resources):
            weight = resource.weight
            spot.inside(index, "weight").need(weight == 1, weight, "1")


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """How many nodes a dry run of preemption looks at."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def check(self, at: FieldPath) -> None:
        """In range, and not both 0."""
        percentage = self.min_candidate_nodes_percentage
        at.inside("minCandidateNodesPercentage").between(percentage, 0, 100)
        at.inside("minCandidateNodesAbsolute").at_least(self.min_candidate_nodes_absolute, 0)
        if not percentage and not self.min_candidate_nodes_absolute:
            spot = at.inside("minCandidateNodesPercentage")
            spot.refuse(0, "a number above 0 here or in minCandidateNodesAbsolute")


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """What affinity of existing pods is worth."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def check(self, at: FieldPath) -> None:
        """The weight is 0 to 100."""
        at.inside("hardPodAffinityWeight").between(self.hard_pod_affinity_weight, 0, 100)


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Constraints for pods that have none of their own."""

    default_constraints: list[TopologySpreadConstraint] = []
    defaulting_type: str = SYSTEM

    @classmethod
    def prepared(cls, document: dict[str, Any]) -> dict[str, Any]:
        """An empty type is the default."""
        return without_empty(document, "defaultingType")

    def check(self, at: FieldPath) -> None:
        """Constraints only with type List; each complete, without a selector, and once."""
        at.inside("defaultingType").one_of(self.defaulting_type, (SYSTEM, LIST))
        if self.default_constraints and self.defaulting_type != LIST:
            at.inside("defaultingType").refuse(self.defaulting_type, f"{LIST} with constraints")
        spot = at.inside("defaultConstraints")
        for index, constraint in enumerate(self.default_constraints):
            _check_constraint(constraint, spot.inside(index))
        pairs = [(c.topology_key, c.when_unsatisfiable) for c in self.default_constraints]
        spot.distinct(pairs, "pair of topologyKey and whenUnsatisfiable")


def _check_constraint(constraint: TopologySpreadConstraint, at: FieldPath) -> None:
    at.inside("maxSkew").at_least(constraint.max_skew, 1)
    at.inside("topologyKey").qualified_name(constraint.topology_key)
    choices = ("DoNotSchedule", "ScheduleAnyway")
    at.inside("whenUnsatisfiable").one_of(constraint.when_unsatisfiable, choices)
    if constraint.label_selector is not None:
        at.inside("labelSelector").refuse("a selector", "none: it is made for each pod")


class VolumeBindingArgs(PluginArgs, frozen=True):
    """How long binding waits for volumes."""

    bind_timeout_seconds: int = 600

    def check(self, at: FieldPath) -> None:
        """0 does not wait."""
        at.inside("bindTimeoutSeconds").at_least(self.bind_timeout_seconds, 0)


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Accepted without effect: nothing is searched and nothing bound."""

    filter_timeout: Duration = Duration(10_000_000_000)
    binding_timeout: Duration = Duration(600_000_000_000)


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node affinity that every pod of the profile has beside its own."""

    added_affinity: NodeAffinity | None = None

    def check(self, at: FieldPath) -> None:
        """Terms are such as the API server takes in pods."""
        if self.added_affinity is None:
            return
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        spot = at.inside("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        if required is not None:
            inner = spot.inside("nodeSelectorTerms")
            inner.need(bool(required.node_selector_terms), [], "at least one term")
            for index, term in enumerate(required.node_selector_terms):
                _check_term(term, inner.inside(index))
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        spot = at.inside("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        for index, weighted in enumerate(preferred):
            spot.inside(index, "weight").between(weighted.weight, 1, 100)
            _check_term(weighted.preference, spot.inside(index, "preference"))


def _check_term(term: NodeSelectorTerm, at: FieldPath) -> None:
    for index, requirement in enumerate(term.match_expressions):
        spot = at.inside("matchExpressions", index)
        spot.inside("key").qualified_name(requirement.key)
        spot.inside("operator").one_of(requirement.operator, _OPERATORS)
        _check_values(requirement, spot.inside("values"))
    for index, requirement in enumerate(term.match_fields):
        spot = at.inside("matchFields", index)
        spot.inside("key").one_of(requirement.key, ("metadata.name",))
        spot.inside("operator").one_of(requirement.operator, _FIELD_OPERATORS)
        values = requirement.values
        spot.inside("values").need(len(values) == 1, values, "one name")


def _check_values(requirement: NodeSelectorRequirement, at: FieldPath) -> None:
    values = requirement.values
    if requirement.operator in _FIELD_OPERATORS:
        at.need(bool(values), values, f"at least one value with {requirement.operator}")
    elif requirement.operator in ("Exists", "DoesNotExist"):
        at.need(not values, values, f"no values with {requirement.operator}")
    else:
        number = len(values) == 1 and values[0].removeprefix("-").isdecimal()
        at.need(number, values, f"one integer with {requirement.operator}")
