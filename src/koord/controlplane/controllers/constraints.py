# SPDX-License-Identifier: Apache-2.0
"""Whether a node accepts a pod: its taints, node selector and required node affinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.constraints import Taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.constraints import Toleration
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import PodSpec

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]
) -> Taint | None:
    """The first taint of one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


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
