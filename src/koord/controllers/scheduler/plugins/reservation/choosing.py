# SPDX-License-Identifier: Apache-2.0
"""Which reservation of a node a pod may use, and which of several it gets.

Rule: docs/reference/reservations.md#nomination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.framework.select import normalized
from koord.controllers.scheduler.plugins.reservation import fit, reasons
from koord.controllers.scheduler.plugins.reservation.offer import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.reservation.matches import Attempt, Flat
    from koord.controllers.scheduler.plugins.reservation.record import Record


class Chooser:
    """Filter, nomination and score of one node's reservations.

    Args:
        skipped: resources that are left to other plugins.
        skip_node: a node with one reservation that matches is not looked at again: the gate
            ``SkipReservationFitsNode``.

    Attributes:
        filters, scorers: plugins with a say; see :class:`.offer.ReservationPartner`.
    """

    def __init__(self, skipped: fit.Skipped, *, skip_node: bool = False) -> None:
        self.skipped = skipped
        self.skip_node = skip_node
        self.filters: Sequence[Any] = ()
        self._heeding: Sequence[tuple[Any, Any]] = ()
        self.scorers: Sequence[Any] = ()

    def refusal(self, cycle: Cycle, attempt: Attempt, row: int) -> Rejection | None:
        """Why the pod cannot go to a row, as far as reservations are concerned."""
        wish = attempt.wish
        if wish.ignores:
            return None
        records = attempt.records(row)
        if not records:
            return reasons.unresolvable(reasons.AFFINITY) if wish.required else None
        lacking: list[str] = []
        texts: list[str] = []
        request = cycle.shape.request
        for record in records:
            if not wish.required and not fit.shares_resources(record, request):
                continue
            node, own = self._lacks(cycle, row, record, detailed=bool(wish.name), of=len(records))
            if not node and not own:
                refused = self._partners(cycle, attempt, row, record, required=wish.required)
                if refused is None:
                    return None
                own = list(refused.reasons)
            lacking += node
            texts += own
        return self._alone(cycle, attempt, row, lacking, texts)

    def _alone(
        self, cycle: Cycle, attempt: Attempt, row: int, lacking: list[str], texts: list[str]
    ) -> Rejection | None:
        """No reservation will do: the node alone may, for a pod that does not insist."""
        if attempt.wish.required:
            found = [*reasons.by_node(lacking), *texts]
            return reasons.refused(*(found or [reasons.NONE_MEETS]))
        if not lacking:
            lacking = fit.node_lacks(cycle.table, row, cycle.shape.request, None, self.skipped)
        return reasons.refused(*reasons.by_node(lacking)) if lacking else None

    def _lacks(
        self, cycle: Cycle, row: int, record: Record, *, detailed: bool = False, of: int = 2
    ) -> tuple[list[str], list[str]]:
        """What the node has too little of, and what the reservation."""
        request = cycle.shape.request
        node: list[str] = []
        if not (self.skip_node and of == 1):
            node = fit.node_lacks(cycle.table, row, request, record, self.skipped)
        return node, fit.reservation_lacks(record, request, self.skipped, detailed=detailed)

    def passes(self, cycle: Cycle, attempt: Attempt, flat: Flat) -> NDArray[np.bool_]:
        """What :meth:`refusal` says of rows with one reservation, all at once: True for None."""
        if attempt.wish.ignores:
            return np.ones(len(flat.rows), np.bool_)
        usable, alone = self._usable(cycle, attempt, flat, skip_node=self.skip_node)
        if not attempt.wish.required:
            usable |= alone
            asked = np.flatnonzero(usable & ~alone)
        else:
            asked = np.flatnonzero(usable)
        return self._heed_partners(cycle, attempt, flat, usable, asked, attempt.wish.required)

    def scores(self, cycle: Cycle, attempt: Attempt, flat: Flat) -> NDArray[np.int64]:
        """What the pod fills on rows with one reservation; 0 where it does not get that."""
        scores = attempt.matches.book.ledger.columns.scores(flat.slots, cycle.shape.request)
        if attempt.wish.required:
            return scores
        usable, _ = self._usable(cycle, attempt, flat, skip_node=False)
        asked = np.flatnonzero(usable)
        usable = self._heed_partners(cycle, attempt, flat, usable, asked, True)
        return np.where(usable, scores, 0)

    def _usable(
        self, cycle: Cycle, attempt: Attempt, flat: Flat, *, skip_node: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where amounts let the pod use the reservation, and where it needs none."""
        columns = attempt.matches.book.ledger.columns
        found = columns.fits(flat.slots, flat.rows, cycle.shape.request, self.skipped)
        usable = found.within if skip_node else found.within & found.beside
        return (usable if attempt.wish.required else usable & found.shares), found.alone

    def _heed_partners(
        self,
        cycle: Cycle,
        attempt: Attempt,
        flat: Flat,
        usable: NDArray[np.bool_],
        asked: NDArray[np.intp],
        required: bool,
    ) -> NDArray[np.bool_]:
        """Takes back what a partner refuses, at the places where that matters."""
        if self._asked(cycle, attempt):
            for place, row in zip(asked.tolist(), flat.rows[asked].tolist(), strict=True):
                record = attempt.records(row)[0]
                refused = self._partners(cycle, attempt, row, record, required=required)
                usable[place] = refused is None
        return usable

    def _asked(self, cycle: Cycle, attempt: Attempt) -> list[Any]:
        """The partners that have anything to say of the pod."""
        found = attempt.partners
        if found is None:
            heeding = self._heeding
            found = [each for each, heeds in heeding if heeds is None or heeds(cycle)]
            attempt.partners = found
        return found

    def _partners(
        self, cycle: Cycle, attempt: Attempt, row: int, record: Record, *, required: bool
    ) -> Rejection | None:
        partners = self._asked(cycle, attempt)
        if not partners:
            return None
        offer = record.offer(required=required)
        for plugin in partners:
            refused: Rejection | None = plugin.filter_reservation(cycle, row, offer)
            if refused is not None:
                return refused
        return None

    def nominate(self, cycle: Cycle, attempt: Attempt, row: int) -> Record | None:
        """The reservation the pod gets on a row, None for none."""
        wish = attempt.wish
        records = attempt.records(row)
        if not records or wish.ignores:
            return None
        if len(records) == 1 and wish.required:
            return records[0]
        request = cycle.shape.request
        fitting = [
            each
            for each in records
            if (wish.required or fit.shares_resources(each, request))
            and self._suits(cycle, attempt, row, each)
        ]
        if len(fitting) <= 1:
            return fitting[0] if fitting else None
        ordered = [each for each in fitting if each.order]
        if ordered:
            return min(ordered, key=lambda each: (each.order, each.age))
        # Among equals the oldest, then the first by name: they come in that order.
        return fitting[int(np.argmax(self._sums(cycle, row, fitting)))]

    def _suits(self, cycle: Cycle, attempt: Attempt, row: int, record: Record) -> bool:
        if record.allocate_once and record.owners:
            return False
        node, own = self._lacks(cycle, row, record)
        return (
            not node
            and not own
            and self._partners(cycle, attempt, row, record, required=True) is None
        )

    def _sums(self, cycle: Cycle, row: int, records: list[Record]) -> NDArray[np.int64]:
        """Of each reservation its score and what other plugins make of it, added up."""
        total = np.array([self.score(cycle, each) for each in records], np.int64)
        for plugin in self.scorers:
            offers = (each.offer(required=True) for each in records)
            raw = [plugin.score_reservation(cycle, row, offer) for offer in offers]
            kind = getattr(plugin, "reservation_normalization", Normalization.NONE)
            total += normalized(kind, np.array(raw, np.int64))
        return total

    def score(self, cycle: Cycle, record: Record) -> int:
        """0..100: how well the pod fills the reservation."""
        return fit.score(record, cycle.shape.request)

    def join(self, plugins: Sequence[Any]) -> None:
        """Tells of the profile's other plugins, of which some may have a say."""
        others = [plugin for plugin in plugins if plugin.name != PLUGIN]
        self.filters = [each for each in others if hasattr(each, "filter_reservation")]
        self._heeding = [(each, getattr(each, "heeds_reservations", None)) for each in self.filters]
        self.scorers = [each for each in others if hasattr(each, "score_reservation")]
