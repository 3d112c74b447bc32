# SPDX-License-Identifier: Apache-2.0
"""What a pod says about where it may run: selectors, affinity, tolerations, spreading."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.kinds.meta import LabelSelector
from koord.api.schema import REQUIRED, Time
from koord.api.wirestruct import WireStruct, emitted


class Toleration(WireStruct):
    """A taint that a pod puts up with; an empty operator means ``Equal``."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(WireStruct):
    """A mark on a node (or a Reservation) that keeps pods away."""

    key: Annotated[str, REQUIRED] = emitted(str)
    value: str = ""
    effect: Annotated[str, REQUIRED] = emitted(str)
    time_added: Time | None = None


class NodeSelectorRequirement(WireStruct):
    """``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt`` or ``Lt`` on a label or field."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class NodeSelectorTerm(WireStruct):
    """A conjunction of requirements; a term with none matches nothing."""

    match_expressions: list[NodeSelectorRequirement] = []
    match_fields: list[NodeSelectorRequirement] = []


class NodeSelector(WireStruct):
    """A disjunction of terms."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(WireStruct):
    """A term that adds its weight to a node's score."""

    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(WireStruct):
    """Which nodes a pod must, or would rather, run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = []


class PodAffinityTerm(WireStruct):
    """Pods to be near to, or far from, within one topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(WireStruct):
    """A pod affinity term that counts for or against a node."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(WireStruct):
    """Affinity, or anti-affinity, of a pod to other pods."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = []


class Affinity(WireStruct):
    """The three affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(WireStruct):
    """How evenly pods that match spread over the domains of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""


class SchedulingGate(WireStruct):
    """A name that holds a pod back from scheduling while it is listed."""

    name: str = ""
