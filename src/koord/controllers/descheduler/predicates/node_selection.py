# SPDX-License-Identifier: Apache-2.0
"""Whether a node is one that a pod selects, and how much it prefers it.

Rule: docs/reference/descheduling.md#tolerations-and-node-selection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors

if TYPE_CHECKING:
    from koord.api.kinds.constraints import NodeAffinity, NodeSelector, NodeSelectorTerm
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod


def node_affinity(pod: Pod) -> NodeAffinity | None:
    """A pod's node affinity."""
    return pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None


def required_affinity(pod: Pod) -> NodeSelector | None:
    """What a pod's node affinity requires; None for nothing."""
    affinity = node_affinity(pod)
    if affinity is None:
        return None
    return affinity.required_during_scheduling_ignored_during_execution


def selects(pod: Pod, node: Node) -> bool:
    """Whether ``nodeSelector`` and required node affinity both let the pod onto the node."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    required = required_affinity(pod)
    return required is None or _matches(required.node_selector_terms, node)


def preference_weight(pod: Pod, node: Node) -> int:
    """The sum of the weights of the preferred terms that the node matches."""
    affinity = node_affinity(pod)
    if affinity is None:
        return 0
    return sum(
        preferred.weight
        for preferred in affinity.preferred_during_scheduling_ignored_during_execution
        if _matches([preferred.preference], node)
    )


def _matches(terms: list[NodeSelectorTerm], node: Node) -> bool:
    fields = {selectors.NAME_FIELD: node.metadata.name}
    return selectors.matches_terms(terms, node.metadata.labels, fields)
