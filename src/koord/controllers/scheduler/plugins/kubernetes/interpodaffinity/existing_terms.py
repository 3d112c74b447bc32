# SPDX-License-Identifier: Apache-2.0
"""Pods on nodes that carry affinity terms themselves: each different term with its pods by row."""

from __future__ import annotations

from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError
from koord.controllers.cluster.label_index import SelectorsByLabel, tokens_of
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
    NO_TERMS,
    AffinityTerm,
    has_terms,
    read,
)
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koord.controllers.cluster.label_index import PodSelector
    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
        AffinityTerms,
        NamespaceLabels,
    )

# Terms that no pod has any more may stay until they are more than these and than the others.
_UNUSED = 512
# So few are looked at one by one.
_FEW = 4


class TermRole(Enum):
    """What a term of a pod on a node does to pods that it matches."""

    REQUIRED_ANTI_AFFINITY = 0
    WEIGHTED = 1


class ExistingTerm(NamedTuple):
    """A term of pods on nodes.

    Attributes:
        number: terms are numbered in the order in which they came.
        role: what it does to pods that it matches.
        term: what it matches, and in which topology.
        weight: in scores; 0 for one that does not score.
        row_counts: the pods that have it, by row.
        pods: what it matches, as what can be looked up by labels.
    """

    number: int
    role: TermRole
    term: AffinityTerm
    weight: int
    row_counts: RowCounts
    pods: PodSelector


class ExistingTerms:
    """The affinity terms of all pods on nodes.

    Args:
        hard_weight: what a required affinity term adds to scores.
        memo: the key of ``shape.memo`` under which a shape's terms are kept.
        terms_of: the terms of a shape; none of one that cannot be read.
        labels_of: the labels of a namespace.
        on_first: called when the first term comes.

    Attributes:
        generation: changes when terms were numbered anew.
    """

    def __init__(
        self,
        hard_weight: int,
        memo: str,
        terms_of: Callable[[PodShape], AffinityTerms],
        labels_of: NamespaceLabels,
        on_first: Callable[[], None],
    ) -> None:
        self.generation = 0
        self._hard_weight = hard_weight
        self._memo = memo
        self._terms_of = terms_of
        self._labels_of = labels_of
        self._on_first = on_first
        # How many terms no pod has any more.
        self._unused = 0
        self._terms: list[ExistingTerm] = []
        self._by_key: dict[tuple[TermRole, str, bytes, int], ExistingTerm] = {}
        self._by_label: SelectorsByLabel[ExistingTerm] = SelectorsByLabel()

    def __len__(self) -> int:
        return len(self._terms)

    def may_match(self, shape: PodShape) -> bool:
        """Whether pods of a shape have a label that some term looks for; where not, none matches.

        That is asked of every shape after every new term, and holds of few.
        """
        return self._by_label.may_match(shape.namespace, shape.labels)

    def matching(self, shape: PodShape, first: int) -> Iterable[ExistingTerm]:
        """The terms that pods of a shape match, of those with a number from the first on."""
        tokens = tokens_of(shape.namespace, shape.labels)
        if len(self._terms) - first <= _FEW:
            having, namespace = frozenset(tokens), shape.namespace
            return [each for each in self._terms[first:] if each.pods.matches(namespace, having)]
        found = self._by_label.matching(shape.namespace, tokens)
        new = (each for each in found if each.number >= first)
        return sorted(new, key=attrgetter("number"))

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row from now on."""
        for existing_term in self._of(pod.shape):
            self._add(existing_term, row)

    def pods_added(self, batches: Sequence[PodBatch]) -> None:
        """Many at once."""
        for batch in batches:
            for existing_term in self._of(batch.shape):
                for row in batch.rows:
                    self._add(existing_term, row)

    def _add(self, existing_term: ExistingTerm, row: int) -> None:
        row_counts = existing_term.row_counts
        self._unused -= not row_counts.total
        row_counts.add(row, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        for existing_term in self._of(pod.shape):
            row_counts = existing_term.row_counts
            row_counts.add(row, -1)
            self._unused += not row_counts.total
        if self._unused > max(_UNUSED, len(self._terms) // 2):
            self._sweep()

    def _sweep(self) -> None:
        """Forgets terms that no pod has any more, and numbers the others anew."""
        kept = [key for key, each in self._by_key.items() if each.row_counts.total]
        terms = [self._by_key[key] for key in kept]
        self._by_key, self._terms, self._by_label = {}, [], SelectorsByLabel()
        self._unused = 0
        self.generation += 1
        for key, each in zip(kept, terms, strict=True):
            self._list(key, each._replace(number=len(self._terms)))

    def _of(self, shape: PodShape) -> tuple[ExistingTerm, ...]:
        affinity = shape.pod.spec.affinity
        if affinity is None or not has_terms(affinity):
            return ()
        known: tuple[int, tuple[ExistingTerm, ...]] | None = shape.memo.get(self._memo)
        if known is not None and known[0] == self.generation:
            return known[1]
        terms = self._terms_of(shape)
        existing = tuple(
            self._existing_term(role, term, weight)
            for role, term, weight in (self._roles(terms) if terms else ())
            if role is TermRole.REQUIRED_ANTI_AFFINITY or weight
        )
        shape.memo[self._memo] = (self.generation, existing)
        return existing

    def _roles(self, terms: AffinityTerms) -> list[tuple[TermRole, AffinityTerm, int]]:
        return [
            *((TermRole.REQUIRED_ANTI_AFFINITY, term, 0) for term in terms.anti),
            *((TermRole.WEIGHTED, term, self._hard_weight) for term in terms.affinity),
            *((TermRole.WEIGHTED, term, weight) for term, weight in terms.preferred),
        ]

    def _existing_term(self, role: TermRole, term: AffinityTerm, weight: int) -> ExistingTerm:
        key = (role, term.key, term.text, weight)
        existing_term = self._by_key.get(key)
        if existing_term is None:
            if not self._terms:
                self._on_first()
            self._unused += 1
            number = len(self._terms)
            existing_term = ExistingTerm(
                number, role, term, weight, RowCounts(), term.pods(self._labels_of)
            )
            self._list(key, existing_term)
        return existing_term

    def _list(self, key: tuple[TermRole, str, bytes, int], existing_term: ExistingTerm) -> None:
        self._by_key[key] = existing_term
        self._terms.append(existing_term)
        self._by_label.add(key, existing_term.pods, existing_term)


def terms_or_none(shape: PodShape) -> AffinityTerms:
    """The terms of a pod that is on a node; one that cannot be read has none."""
    try:
        return read(shape)
    except KoordError:
        return NO_TERMS
