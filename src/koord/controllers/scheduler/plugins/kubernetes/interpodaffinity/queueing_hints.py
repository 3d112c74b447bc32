# SPDX-License-Identifier: Apache-2.0
"""What may let a pod in that other pods kept out, or that missed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.cluster.pods import PodInfo, PodShape
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.existing_terms import (
    terms_or_none,
)
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
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
        AffinityTerms,
        NamespaceLabels,
    )

    TermsOf = Callable[[PodInfo], AffinityTerms]


class _AffinityHints:
    """Whether an event may let a waiting pod meet its terms, and those of others."""

    def __init__(
        self,
        terms_of: TermsOf,
        labels_of: NamespaceLabels,
    ) -> None:
        self._terms_of = terms_of
        self._labels_of = labels_of

    def _affinity_matches(self, info: PodInfo, shape: PodShape | None) -> bool:
        terms = self._terms_of(info).affinity
        return shape is not None and any(term.matches(shape, self._labels_of) for term in terms)

    def _anti_affinity_matches(self, info: PodInfo, shape: PodShape | None) -> bool:
        if shape is None:
            return False
        if any(term.matches(shape, self._labels_of) for term in self._terms_of(info).anti):
            return True
        return any(term.matches(info.shape, self._labels_of) for term in terms_or_none(shape).anti)

    def after_pod(
        self, info: PodInfo, old: PodInfo | Pod | None, new: PodInfo | Pod | None
    ) -> bool:
        before, now = _shape_of(old), _shape_of(new)
        if self._affinity_matches(info, now) and not self._affinity_matches(info, before):
            return True
        return self._anti_affinity_matches(info, before) and not self._anti_affinity_matches(
            info, now
        )

    def after_node(self, info: PodInfo, old: Node | None, new: Node | None) -> bool:
        if new is None:
            return False
        terms = self._terms_of(info)
        labels = new.metadata.labels
        before = old.metadata.labels if old is not None else {}
        if any(term.key not in labels for term in terms.affinity):
            return False
        if old is None:
            return True
        keys = [term.key for term in (*terms.affinity, *terms.anti)]
        # Without terms of its own the pod was kept out by others', whose keys are not its.
        return not keys or any(labels.get(key) != before.get(key) for key in keys)


def of(terms_of: TermsOf, labels_of: NamespaceLabels) -> Sequence[HintedEvent]:
    """Registrations of InterPodAffinity.

    Args:
        terms_of: the terms of a pod that waits.
        labels_of: the labels of a namespace.
    """
    hints = _AffinityHints(terms_of, labels_of)
    pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
    return (
        HintedEvent(ClusterEvent(ASSIGNED_POD, pods), hints.after_pod, per_shape=True),
        HintedEvent(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            hints.after_node,
            per_shape=True,
        ),
    )


def _shape_of(event_object: PodInfo | Pod | None) -> PodShape | None:
    if event_object is None or isinstance(event_object, PodInfo):
        return event_object.shape if event_object is not None else None
    return PodShape(-1, event_object)
