# SPDX-License-Identifier: Apache-2.0
"""Whether a node accepts a pod by node selector and required node affinity; taints of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.constraints import Taint

if TYPE_CHECKING:
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
    fields = {selectors.NAME_FIELD: node.metadata.name}
    return selectors.matches_terms(required.node_selector_terms, labels, fields)


def unschedulable_taint() -> Taint:
    """What a cordoned node counts as."""
    return Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE)


def not_ready_taint() -> Taint:
    """What a node counts as that is not ready, whatever its taints say by now."""
    return Taint(key="node.kubernetes.io/not-ready", effect=NO_EXECUTE)
