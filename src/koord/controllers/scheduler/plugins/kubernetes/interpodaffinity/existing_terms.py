# SPDX-License-Identifier: Apache-2.0
"""Pods on nodes that carry affinity terms themselves: each different term with a tally."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
    NO_TERMS,
    AffinityTerm,
    has_terms,
    read,
)
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
        AffinityTerms,
    )

_SWEEP = 1024


class TermRole(Enum):
    """What a term of a pod on a node does to pods that it matches."""

    REQUIRED_ANTI_AFFINITY = 0
    WEIGHTED = 1


class ExistingTerm(NamedTuple):
    """A term of pods on nodes.

    Attributes:
        role: what it does to pods that it matches.
        term: what it matches, and in which topology.
        weight: in scores; 0 for one that does not score.
        row_counts: the pods that have it, by row.
    """

    role: TermRole
    term: AffinityTerm
    weight: int
    row_counts: RowCounts


class ExistingTerms:
    """The affinity terms of all pods on nodes.

    Args:
        hard_weight: what a required affinity term adds to scores.
        memo: the key of ``shape.memo`` under which a shape's terms are kept.
        on_first: called when the first term comes.

    Attributes:
        listed: the terms, in the order in which they came.
        generation: changes when :attr:`listed` was begun anew.
    """

    def __init__(self, hard_weight: int, memo: str, on_first: Callable[[], None]) -> None:
        self.listed: list[ExistingTerm] = []
        self.generation = 0
        self._hard_weight = hard_weight
        self._due = _SWEEP
        self._memo = memo
        self._on_first = on_first
        self._by_key: dict[tuple[TermRole, str, bytes, int], ExistingTerm] = {}

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row from now on."""
        for existing_term in self._of(pod.shape):
            existing_term.row_counts.add(row, 1)

    def pods_added(self, batches: Sequence[PodBatch]) -> None:
        """Many at once."""
        for batch in batches:
            for existing_term in self._of(batch.shape):
                for row in batch.rows:
                    existing_term.row_counts.add(row, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        for existing_term in self._of(pod.shape):
            existing_term.row_counts.add(row, -1)
        if len(self.listed) >= self._due:
            self.sweep()

    def sweep(self) -> None:
        """Forgets terms that no pod has any more, when there are many."""
        if len(self.listed) < _SWEEP:
            return
        # Whoever lists many terms pays for the look at all of them.
        self._due = 2 * len(self.listed)
        kept = {key: term for key, term in self._by_key.items() if term.row_counts.total}
        if len(kept) * 2 < len(self.listed):
            self._by_key = kept
            self.listed = list(kept.values())
            self.generation += 1
            self._due = max(_SWEEP, 2 * len(kept))

    def _of(self, shape: PodShape) -> tuple[ExistingTerm, ...]:
        affinity = shape.pod.spec.affinity
        if affinity is None or not has_terms(affinity):
            return ()
        known: tuple[int, tuple[ExistingTerm, ...]] | None = shape.memo.get(self._memo)
        if known is not None and known[0] == self.generation:
            return known[1]
        terms = terms_or_none(shape)
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
            existing_term = self._by_key[key] = ExistingTerm(role, term, weight, RowCounts())
            if not self.listed:
                self._on_first()
            self.listed.append(existing_term)
        return existing_term


def terms_or_none(shape: PodShape) -> AffinityTerms:
    """The terms of a pod that is on a node; one that cannot be read has none."""
    try:
        return read(shape)
    except KoordError:
        return NO_TERMS
