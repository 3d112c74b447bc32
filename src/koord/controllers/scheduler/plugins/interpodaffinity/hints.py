# SPDX-License-Identifier: Apache-2.0
"""What may let a pod in that other pods kept out, or that missed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.cluster.pods import PodInfo, PodShape
from koord.controllers.scheduler.plugins.interpodaffinity.carriers import terms_or_none
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD,
    NODE,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.plugins.interpodaffinity.terms import (
        NamespaceLabels,
        Terms,
    )

    TermsOf = Callable[[PodInfo], Terms]


def of(terms_of: TermsOf, labels_of: NamespaceLabels) -> Sequence[HintedEvent]:
    """Registrations of InterPodAffinity.

    Args:
        terms_of: the terms of a pod that waits.
        labels_of: the labels of a namespace.
    """

    def brings(info: PodInfo, shape: PodShape | None) -> bool:
        near = terms_of(info).affinity
        return shape is not None and any(term.matches(shape, labels_of) for term in near)

    def keeps_out(info: PodInfo, shape: PodShape | None) -> bool:
        if shape is None:
            return False
        if any(term.matches(shape, labels_of) for term in terms_of(info).anti):
            return True
        return any(term.matches(info.shape, labels_of) for term in terms_or_none(shape).anti)

    def after_pod(info: PodInfo, old: PodInfo | Pod | None, new: PodInfo | Pod | None) -> bool:
        before, now = _shape_of(old), _shape_of(new)
        if brings(info, now) and not brings(info, before):
            return True
        return keeps_out(info, before) and not keeps_out(info, now)

    def after_node(info: PodInfo, old: Node | None, new: Node | None) -> bool:
        if new is None:
            return False
        terms = terms_of(info)
        labels = new.metadata.labels
        before = old.metadata.labels if old is not None else {}
        if any(term.key not in labels for term in terms.affinity):
            return False
        if old is None:
            return True
        keys = [term.key for term in (*terms.affinity, *terms.anti)]
        # Without terms of its own the pod was kept out by others', whose keys are not its.
        return not keys or any(labels.get(key) != before.get(key) for key in keys)

    pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
    return (
        HintedEvent(ClusterEvent(ASSIGNED_POD, pods), after_pod, per_shape=True),
        HintedEvent(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), after_node, per_shape=True
        ),
    )


def _shape_of(thing: PodInfo | Pod | None) -> PodShape | None:
    if thing is None or isinstance(thing, PodInfo):
        return thing.shape if thing is not None else None
    return PodShape(-1, thing)
