# SPDX-License-Identifier: Apache-2.0
"""Whether a node accepts a pod by node selector and required node affinity; taints of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.constraints import Taint

if TYPE_CHECKING:
    from koord.api.kinds.constraints import NodeSelectorRequirement, NodeSelectorTerm
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import PodSpec

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def selects(spec: PodSpec, node: Node) -> bool:
    """Whether node selector and required node affinity of a pod match a node."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return True
    return any(_term_matches(term, node) for term in required.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_holds(r, node.metadata.labels) for r in term.match_expressions) and all(
        _holds(r, fields) for r in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(requirement.values) == 1:
            return _compares(requirement.operator, value, requirement.values[0])
    return False


def _compares(operator: str, value: str, bound: str) -> bool:
    try:
        difference = int(value) - int(bound)
    except ValueError:
        return False
    return difference > 0 if operator == "Gt" else difference < 0


def unschedulable_taint() -> Taint:
    """What a cordoned node counts as."""
    return Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE)


def not_ready_taint() -> Taint:
    """What a node counts as that is not ready, whatever its taints say by now."""
    return Taint(key="node.kubernetes.io/not-ready", effect=NO_EXECUTE)
