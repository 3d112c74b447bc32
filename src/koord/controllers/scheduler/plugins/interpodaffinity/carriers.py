# SPDX-License-Identifier: Apache-2.0
"""Pods on nodes that carry affinity terms themselves: each different term with a tally."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.interpodaffinity.terms import (
    NO_TERMS,
    Term,
    has_terms,
    read,
)
from koord.controllers.scheduler.plugins.tallies import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.pods import Arrivals, PodInfo, PodShape
    from koord.controllers.scheduler.plugins.interpodaffinity.terms import Terms

_SWEEP = 20_000


class Role(Enum):
    """What a term of a pod on a node does to pods that it matches."""

    KEEPS_OUT = 0
    SCORES = 1


class Carrier(NamedTuple):
    """A term, what it weighs in scores, and where pods with it are."""

    role: Role
    term: Term
    weight: int
    tally: Tally


class Carriers:
    """All of them.

    Args:
        hard_weight: what a required affinity term adds to scores.
        memo: the key of ``shape.memo`` that is ours.
        first: called when the first term comes.

    Attributes:
        listed: those known, in the order they came.
        generation: changes when :attr:`listed` was begun anew.
    """

    def __init__(self, hard_weight: int, memo: str, first: Callable[[], None]) -> None:
        self.listed: list[Carrier] = []
        self.generation = 0
        self._hard_weight = hard_weight
        self._memo = memo
        self._first = first
        self._by_key: dict[tuple[Role, str, bytes, int], Carrier] = {}

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row from now on."""
        for carrier in self._of(pod.shape):
            carrier.tally.add(row, 1)

    def pods_added(self, arrivals: Sequence[Arrivals]) -> None:
        """Many at once."""
        for each in arrivals:
            for carrier in self._of(each.shape):
                for row in each.rows:
                    carrier.tally.add(row, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        for carrier in self._of(pod.shape):
            carrier.tally.add(row, -1)

    def sweep(self) -> None:
        """Forgets terms that no pod carries any more, when there are many."""
        if len(self.listed) < _SWEEP:
            return
        kept = {key: each for key, each in self._by_key.items() if each.tally.total}
        if len(kept) * 2 < len(self.listed):
            self._by_key = kept
            self.listed = list(kept.values())
            self.generation += 1

    def _of(self, shape: PodShape) -> tuple[Carrier, ...]:
        affinity = shape.pod.spec.affinity
        if affinity is None or not has_terms(affinity):
            return ()
        known: tuple[int, tuple[Carrier, ...]] | None = shape.memo.get(self._memo)
        if known is not None and known[0] == self.generation:
            return known[1]
        terms = terms_or_none(shape)
        found = tuple(
            self._carrier(role, term, weight)
            for role, term, weight in (self._roles(terms) if terms else ())
            if role is Role.KEEPS_OUT or weight
        )
        shape.memo[self._memo] = (self.generation, found)
        return found

    def _roles(self, terms: Terms) -> list[tuple[Role, Term, int]]:
        return [
            *((Role.KEEPS_OUT, term, 0) for term in terms.anti),
            *((Role.SCORES, term, self._hard_weight) for term in terms.affinity),
            *((Role.SCORES, term, weight) for term, weight in terms.preferred),
        ]

    def _carrier(self, role: Role, term: Term, weight: int) -> Carrier:
        key = (role, term.key, term.text, weight)
        carrier = self._by_key.get(key)
        if carrier is None:
            carrier = self._by_key[key] = Carrier(role, term, weight, Tally())
            if not self.listed:
                self._first()
            self.listed.append(carrier)
        return carrier


def terms_or_none(shape: PodShape) -> Terms:
    """The terms of a pod that is on a node; one that cannot be read has none."""
    try:
        return read(shape)
    except KoordError:
        return NO_TERMS
