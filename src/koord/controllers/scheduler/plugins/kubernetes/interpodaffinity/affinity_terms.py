# SPDX-License-Identifier: Apache-2.0
"""Pod affinity terms of a shape, read once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.api.codec import to_json
from koord.controllers.cluster.label_index import PodSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.api.kinds.constraints import (
        Affinity,
        PodAffinity,
        PodAffinityTerm,
        WeightedPodAffinityTerm,
    )
    from koord.api.kinds.meta import LabelSelector
    from koord.controllers.cluster.pods import PodShape

    NamespaceLabels = Callable[[str], Mapping[str, str]]


class AffinityTerm(NamedTuple):
    """Some pods, and a node label whose values are the domains.

    Attributes:
        key: the label.
        namespaces: where the pods are, beside those that the selector selects.
        namespace_selector: more namespaces, by their labels; None for none.
        selector: the pods; None for none.
        text: equal for terms that mean the same pods.
    """

    key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None
    text: bytes

    def pods(self, labels_of: NamespaceLabels) -> PodSelector:
        """The pods that are meant, as what can be looked up by labels."""
        wanted, namespaces = self.namespace_selector, self.namespaces
        if wanted is None:
            return PodSelector(self.selector, namespaces)

        def admits(namespace: str) -> bool:
            return namespace in namespaces or selectors.matches(wanted, labels_of(namespace))

        return PodSelector(self.selector, admits=admits)

    def matches(self, shape: PodShape, labels_of: NamespaceLabels) -> bool:
        """Whether pods of a shape are meant."""
        if shape.namespace not in self.namespaces:
            wanted = self.namespace_selector
            if wanted is None or not selectors.matches(wanted, labels_of(shape.namespace)):
                return False
        return selectors.matches(self.selector, shape.labels)


class AffinityTerms(NamedTuple):
    """All terms of a shape.

    Attributes:
        affinity: required to be near.
        anti: required to be far.
        preferred: with weights; negative for anti-affinity.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[AffinityTerm, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti or self.preferred)


NO_TERMS = AffinityTerms()


def read(shape: PodShape) -> AffinityTerms:
    """The terms of a shape.

    Raises:
        KoordError: a selector that cannot be evaluated.
    """
    affinity = shape.pod.spec.affinity
    if affinity is None or not has_terms(affinity):
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    preferred = (*_weighted(shape, near, "podAffinity", 1),
                 *_weighted(shape, far, "podAntiAffinity", -1))  # fmt: skip
    return AffinityTerms(
        _required(shape, near, "podAffinity"),
        _required(shape, far, "podAntiAffinity"),
        preferred,
    )


def has_terms(affinity: Affinity) -> bool:
    """Whether an affinity is about pods, not nodes alone."""
    return affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None


def _required(
    shape: PodShape, affinity: PodAffinity | None, field: str
) -> tuple[AffinityTerm, ...]:
    if affinity is None:
        return ()
    term: Sequence[PodAffinityTerm] = affinity.required_during_scheduling_ignored_during_execution
    return tuple(_term(shape, each, f"{field}.required") for each in term)


def _weighted(
    shape: PodShape, affinity: PodAffinity | None, field: str, sign: int
) -> tuple[tuple[AffinityTerm, int], ...]:
    if affinity is None:
        return ()
    term: Sequence[WeightedPodAffinityTerm] = (
        affinity.preferred_during_scheduling_ignored_during_execution
    )
    return tuple(
        (_term(shape, each.pod_affinity_term, f"{field}.preferred"), sign * each.weight)
        for each in term
    )


@lru_cache(maxsize=1024)
def _only(namespace: str) -> frozenset[str]:
    """One namespace; the terms of all pods there share it, for it takes more than they do."""
    return frozenset((namespace,))


def _term(shape: PodShape, term: PodAffinityTerm, field: str) -> AffinityTerm:
    name = f"Pod {shape.namespace}/{shape.pod.metadata.name}"
    for selector, of in (
        (term.label_selector, "labelSelector"),
        (term.namespace_selector, "namespaceSelector"),
    ):
        if selector is not None:
            selectors.check(selector, name, f"{field}.{of}")
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = _only(shape.namespace)
    parts = (sorted(namespaces), term.namespace_selector, term.label_selector)
    return AffinityTerm(
        term.topology_key,
        namespaces,
        term.namespace_selector,
        term.label_selector,
        to_json(parts),
    )
