# SPDX-License-Identifier: Apache-2.0
"""What nodes and reservations are worth by LeastAllocated or MostAllocated.

Rule: docs/reference/devices.md#node-score.

A node's score counts all its cards of a type as one, with one instance of the request added;
scores of types add up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.plugins.deviceshare.allocator import Allocator, Refused
from koord.controllers.scheduler.plugins.deviceshare.reserved import NodeAllocator
from koord.kernels.devices_assign import Demand, offered_score, score_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.deviceshare.allocator import Terms
    from koord.controllers.scheduler.plugins.deviceshare.judge import Judge, Question
    from koord.controllers.scheduler.plugins.deviceshare.reserved import ReservationOffer
    from koord.controllers.scheduler.plugins.deviceshare.settings import Settings


class NodeScorer:
    """See the head of this file.

    Args:
        judge: the cache, and who matches which reservations.
        settings: of the plugin.

    Attributes:
        by_type: how cards of each device type are scored.
    """

    def __init__(self, judge: Judge, settings: Settings) -> None:
        self.by_type = settings.by_type()
        self._judge = judge
        self._cache = judge.cache
        self._tracker = judge.tracker

    def score(self, question: Question, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """By row, the raw score; 0 for nodes without a Device."""
        by_count = question.ask.by_count and not question.designated
        known = self._tracker.known[rows]
        scores = np.zeros(len(rows), np.int64)
        if by_count and known.any():
            # Rows without a Device may lie beyond the end of the device tables.
            scores[known] = self._summed(question, rows[known])
        nodes = self._cache.nodes
        for place, row in enumerate(rows.tolist()):
            if not known[place]:
                continue
            if not by_count or (nodes[row].holders and self._judge.offers(question, row)):
                scores[place] = self._of_row(question, row)
        return scores

    def score_offer(self, question: Question, row: int, offer: ReservationOffer) -> int:
        """A node's worth, 0..100 a type, with what one reservation has left."""
        base = self._judge.base(question, row)
        allocator = NodeAllocator(self._cache, row, question.ask, [offer], base)
        if not allocator.offers:
            return 0
        return self._offered(question, row, allocator.terms(offer))

    def _summed(self, question: Question, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        total = np.zeros(len(rows), np.int64)
        for kind in question.ask.requests:
            demand = question.ask.demand(kind)
            scores = score_rows(self._cache.tables[kind], rows, demand, self.by_type[kind])
            if question.ask.secondary(kind):
                scores[self._tracker.well_planned[rows]] = 0  # they are left for Reserve
            total += scores
        return total

    def _of_row(self, question: Question, row: int) -> int:
        offers = self._judge.offers(question, row)
        base = self._judge.base(question, row)
        allocator = NodeAllocator(self._cache, row, question.ask, offers, base)
        return self._offered(question, row, allocator.everything())

    def _offered(self, question: Question, row: int, terms: Terms) -> int:
        allocator = Allocator(self._cache, row, question.ask, terms)
        wanted = allocator.demands()
        if isinstance(wanted, Refused):
            return 0
        # Cards that this pod cannot have count too, as they do where numbers of cards decide.
        return sum(
            offered_score(
                self._cache.tables[kind], row, Demand(demand.each),
                allocator.offer(kind, by_function=False), self.by_type[kind],
            )
            for kind, demand in wanted.items()
        )  # fmt: skip
