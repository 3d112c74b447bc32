# SPDX-License-Identifier: Apache-2.0
"""The counts of shapes that pod affinity concerns, of those that came lately.

Most shapes have no terms, and no term of a pod on a node looks for a label that they have: of these
nothing is kept, nor of those whose own terms look for what no pod on a node has. Of those that have
a label that is looked for it is kept how many of the terms have been looked at.
"""

from __future__ import annotations

from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from koord.controllers.cluster.label_index import PodSelector
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import NO_TERMS
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.term_counts import TermCounts
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import ShapeCache

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.affinity_terms import (
        AffinityTerm,
        AffinityTerms,
        NamespaceLabels,
    )
    from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.existing_terms import (
        ExistingTerms,
    )
    from koord.controllers.scheduler.plugins.kubernetes.pod_counts import PodCounts, RowCounts

_SERIAL = count(1)
# Of so many shapes the counts are kept.
_KEPT = 256
# As a plain int: to look a member up in its class takes longer.
_POD_AFFINITY = int(PodField.POD_AFFINITY)
# What stands for all terms where one of them matches.
_MATCHED = -1


class TermStates:
    """Finds the counts of a shape.

    Args:
        table: the nodes.
        pods: on nodes.
        existing: their terms.
        terms_of: the terms of a shape; none of one that cannot be read.
        labels_of: the labels of a namespace.
        ignores_preferred: whether weighted terms of pods on nodes count only for pods that have
            such terms.
    """

    def __init__(
        self,
        table: NodeTable,
        pods: PodCounts,
        existing: ExistingTerms,
        terms_of: Callable[[PodShape], AffinityTerms],
        labels_of: NamespaceLabels,
        ignores_preferred: bool,
    ) -> None:
        self._table, self._pods, self._existing = table, pods, existing
        self._terms_of, self._labels_of = terms_of, labels_of
        self._ignores_preferred = ignores_preferred
        self._states = ShapeCache(_KEPT, self._dropped)
        self._memo = f"{type(self).__name__}#{next(_SERIAL)}"
        # How often it was forgotten which namespaces are meant.
        self._cleared = 0
        # What was found last, for which shape and how many changes of pods and nodes.
        self._latest: tuple[PodShape, tuple[int, int], TermCounts | None] | None = None

    def of(self, shape: PodShape) -> TermCounts | None:
        """What is known of a shape, up to date; None where nothing concerns it."""
        # During an attempt it is asked for again and again.
        now = self._pods.changes, self._table.nodes_version
        latest = self._latest
        if latest is not None and latest[0] is shape and latest[1] == now:
            return latest[2]
        terms = NO_TERMS
        # Most have none, as is known without a look at them.
        if shape.fields & _POD_AFFINITY:
            terms = self._terms_of(shape)
            concerned = self._may_match(shape, terms) or self._is_matched(shape)
        else:
            concerned = self._is_matched(shape)
        found = self._state(shape, terms) if concerned else None
        self._latest = shape, now, found
        return found

    def clear(self) -> None:
        """Forgets all: which pods a namespaceSelector means may have changed."""
        self._cleared += 1
        self._latest = None
        self._states.clear()

    def empty(self) -> TermCounts:
        """The counts of a shape that nothing concerns."""
        return TermCounts(self._table, next(_SERIAL), (), alone_ok=False)

    def _may_match(self, shape: PodShape, terms: AffinityTerms) -> bool:
        """Whether terms of a shape may match pods on nodes, or something is kept of it; required
        affinity keeps pods away where there are none."""
        if not terms:
            return False
        if terms.affinity or shape in self._states:
            return True
        may_match = self._pods.may_match
        return any(may_match(term.selector) for term in terms.anti) or any(
            may_match(term.selector) for term, _ in terms.preferred
        )

    def _is_matched(self, shape: PodShape) -> bool:
        """Whether a term of pods on nodes matches pods of a shape, or did."""
        if not self._existing.may_match(shape):
            return False
        number = len(self._existing)
        listed = self._existing.generation, self._cleared
        known: tuple[tuple[int, int], int] | None = shape.memo.get(self._memo)
        first = known[1] if known is not None and known[0] == listed else 0
        if first in (_MATCHED, number):
            return first == _MATCHED
        is_matched = any(True for _ in self._existing.matching(shape, first))
        shape.memo[self._memo] = listed, _MATCHED if is_matched else number
        return is_matched

    def _state(self, shape: PodShape, terms: AffinityTerms) -> TermCounts:
        table = self._table
        key = (table.labels.version, table.layout, self._existing.generation)
        state: TermCounts | None = self._states.get(shape)
        if state is None or state.key != key:
            self._states.drop(shape)
            state = self._build(shape, terms, key)
            self._states.put(shape, state)
        if state.seen < len(self._existing):
            self._add_existing_terms(shape, terms, state)
        state.sync(self._pods.changes)
        return state

    def _build(
        self, shape: PodShape, terms: AffinityTerms, key: tuple[Hashable, ...]
    ) -> TermCounts:
        itself = all(term.matches(shape, self._labels_of) for term in terms.affinity)
        state = TermCounts(self._table, next(_SERIAL), key, itself)
        if terms.affinity:
            pods = self._acquire(state, terms.affinity)
            for topology in dict.fromkeys(term.key for term in terms.affinity):
                state.watch(state.affinity, topology, pods)
        for term in terms.anti:
            state.watch(state.anti_affinity, term.key, self._acquire(state, (term,)))
        for term, weight in terms.preferred:
            if weight:
                state.add_weighted(term.key, self._acquire(state, (term,)), weight)
        return state

    def _add_existing_terms(self, shape: PodShape, terms: AffinityTerms, state: TermCounts) -> None:
        new = self._existing.matching(shape, state.seen)
        state.seen = len(self._existing)
        ignored = self._ignores_preferred and not terms.preferred
        state.add_existing_terms(term for term in new if not (ignored and term.weight))

    def _acquire(
        self, state: TermCounts, terms: tuple[AffinityTerm, ...]
    ) -> Sequence[tuple[RowCounts, int]]:
        """The counts of pods that match all of some terms."""
        key = tuple(sorted({term.text for term in terms}))
        state.acquired.append(key)
        selector = reduce(PodSelector.joined, (term.pods(self._labels_of) for term in terms))
        return self._pods.acquire(key, selector)

    def _dropped(self, state: TermCounts) -> None:
        for key in state.acquired:
            self._pods.release(key)
