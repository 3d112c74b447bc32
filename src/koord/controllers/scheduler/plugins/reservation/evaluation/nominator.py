# SPDX-License-Identifier: Apache-2.0
"""Which reservation of a node a pod may use, and which of several it gets.

Rule: docs/reference/reservations.md#nomination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework.feasibility.best_node import normalized
from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.plugins.reservation import reasons
from koord.controllers.scheduler.plugins.reservation.matched_reservation import PLUGIN
from koord.controllers.scheduler.plugins.reservation.state import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.reservation.state.columns import ColumnFit
    from koord.controllers.scheduler.plugins.reservation.state.matched_rows import (
        SingleReservationRows,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )
    from koord.controllers.scheduler.plugins.reservation.state.shape_matches import PodMatches


class ReservationNominator:
    """Filter, nomination and score of one node's reservations.

    Args:
        skipped: resources that are left to other plugins.
        skip_node: a node with one reservation that matches is not looked at again: the gate
            ``SkipReservationFitsNode``.

    Attributes:
        filters, scorers: plugins with a say; see :class:`.offer.ReservationPartner`.
    """

    def __init__(self, skipped: fit.IgnoredResources, *, skip_node: bool = False) -> None:
        self.skipped = skipped
        self.skip_node = skip_node
        self.filters: Sequence[Any] = ()
        self._heeding: Sequence[tuple[Any, Any]] = ()
        self.scorers: Sequence[Any] = ()

    def rejection(self, cycle: Cycle, attempt: PodMatches, row: int) -> Rejection | None:
        """Why the pod cannot go to a row, as far as reservations are concerned."""
        wanted = attempt.request
        if wanted.ignores:
            return None
        records = attempt.records(row)
        if not records:
            return reasons.unresolvable(reasons.AFFINITY) if wanted.required else None
        shortfall: list[str] = []
        texts: list[str] = []
        request = cycle.shape.request
        for record in records:
            if not wanted.required and not fit.shares_resources(record, request):
                continue
            node, own = self._shortfalls(
                cycle, row, record, detailed=bool(wanted.name), of=len(records)
            )
            if not node and not own:
                refused = self._partners(cycle, attempt, row, record, required=wanted.required)
                if refused is None:
                    return None
                own = list(refused.reasons)
            shortfall += node
            texts += own
        return self._alone(cycle, attempt, row, shortfall, texts)

    def _alone(
        self, cycle: Cycle, attempt: PodMatches, row: int, shortfall: list[str], texts: list[str]
    ) -> Rejection | None:
        """No reservation will do: the node alone may, for a pod that does not insist."""
        if attempt.request.required:
            found = [*reasons.by_node(shortfall), *texts]
            return reasons.refused(*(found or [reasons.NONE_MEETS]))
        if not shortfall:
            shortfall = fit.node_shortfall(
                cycle.table, row, cycle.shape.request, None, self.skipped
            )
        return reasons.refused(*reasons.by_node(shortfall)) if shortfall else None

    def _shortfalls(
        self,
        cycle: Cycle,
        row: int,
        record: ReservationInfo,
        *,
        detailed: bool = False,
        of: int = 2,
    ) -> tuple[list[str], list[str]]:
        """What the node has too little of, and what the reservation."""
        request = cycle.shape.request
        node: list[str] = []
        if not (self.skip_node and of == 1):
            node = fit.node_shortfall(cycle.table, row, request, record, self.skipped)
        return node, fit.reservation_shortfall(record, request, self.skipped, detailed=detailed)

    def passes(
        self, cycle: Cycle, attempt: PodMatches, flat: SingleReservationRows
    ) -> NDArray[np.bool_]:
        """What :meth:`refusal` says of rows with one reservation, all at once: True for None."""
        if attempt.request.ignores:
            return np.ones(len(flat.rows), np.bool_)
        usable, alone = self._usable(cycle, attempt, flat, skip_node=self.skip_node)
        if not attempt.request.required:
            usable |= alone
            asked = np.flatnonzero(usable & ~alone)
        else:
            asked = np.flatnonzero(usable)
        return self._heed_partners(cycle, attempt, flat, usable, asked, attempt.request.required)

    def scores(
        self, cycle: Cycle, attempt: PodMatches, flat: SingleReservationRows
    ) -> NDArray[np.int64]:
        """What the pod fills on rows with one reservation; 0 where it does not get that."""
        scores = attempt.matches.book.ledger.columns.scores(flat.slots, cycle.shape.request)
        if attempt.request.required:
            return scores
        usable, _ = self._usable(cycle, attempt, flat, skip_node=False)
        asked = np.flatnonzero(usable)
        usable = self._heed_partners(cycle, attempt, flat, usable, asked, True)
        return np.where(usable, scores, 0)

    def is_columnar(self, cycle: Cycle, attempt: PodMatches) -> bool:
        """Whether columns say all of what reservations are to the pod, on every row."""
        matches = attempt.matches
        matches.update()
        return not (
            attempt.own
            or attempt.request.ignores
            or matches.rows.has_others
            or matches.orders
            or self._partners_of(cycle, attempt)
        )

    def question(self, cycle: Cycle, attempt: PodMatches) -> tuple[Any, ...]:
        """The same as :meth:`passes` and :meth:`scores` for rows that are yet to be chosen: what
        :data:`koord.kernels.placement_board.RowBounds` asks, where :meth:`is_columnar`."""
        table, matches = cycle.table, attempt.matches
        columns, beside = matches.book.ledger.columns, matches.book.beside
        return (
            beside.reservations,
            table.allocatable,
            table.requested,
            columns.all(),
            matches.rows.slots(),
            columns.amounts(cycle.shape.request, self.skipped),
            attempt.request.required,
            self.skip_node,
        )

    def _usable(
        self, cycle: Cycle, attempt: PodMatches, flat: SingleReservationRows, *, skip_node: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where amounts let the pod use the reservation, and where it needs none."""
        found = self._fits(cycle, attempt, flat)
        usable = found.within.copy() if skip_node else found.within & found.beside
        return (usable if attempt.request.required else usable & found.shares), found.alone

    def _fits(self, cycle: Cycle, attempt: PodMatches, flat: SingleReservationRows) -> ColumnFit:
        """What columns say; Filter and Score of one attempt mostly ask it of the same state."""
        book = attempt.matches.book
        key = flat, book.ledger.version, book.table.version
        kept = attempt.column_fit
        if kept is None or kept[0][0] is not flat or kept[0][1:] != key[1:]:
            request = cycle.shape.request
            found = book.ledger.columns.fits(flat.slots, flat.rows, request, self.skipped)
            kept = attempt.column_fit = key, found
        return kept[1]

    def _heed_partners(
        self,
        cycle: Cycle,
        attempt: PodMatches,
        flat: SingleReservationRows,
        usable: NDArray[np.bool_],
        places: NDArray[np.intp],
        required: bool,
    ) -> NDArray[np.bool_]:
        """Takes back what a partner refuses, at the places where that matters."""
        if self._partners_of(cycle, attempt):
            for place, row in zip(places.tolist(), flat.rows[places].tolist(), strict=True):
                record = attempt.records(row)[0]
                refused = self._partners(cycle, attempt, row, record, required=required)
                usable[place] = refused is None
        return usable

    def _partners_of(self, cycle: Cycle, attempt: PodMatches) -> list[Any]:
        """The partners that have anything to say of the pod."""
        found = attempt.partners
        if found is None:
            heeding = self._heeding
            found = [each for each, heeds in heeding if heeds is None or heeds(cycle)]
            attempt.partners = found
        return found

    def _partners(
        self,
        cycle: Cycle,
        attempt: PodMatches,
        row: int,
        record: ReservationInfo,
        *,
        required: bool,
    ) -> Rejection | None:
        partners = self._partners_of(cycle, attempt)
        if not partners:
            return None
        offer = record.offer(required=required)
        for plugin in partners:
            refused: Rejection | None = plugin.filter_reservation(cycle, row, offer)
            if refused is not None:
                return refused
        return None

    def nominate(self, cycle: Cycle, attempt: PodMatches, row: int) -> ReservationInfo | None:
        """The reservation the pod gets on a row, None for none."""
        wanted = attempt.request
        records = attempt.records(row)
        if not records or wanted.ignores:
            return None
        if len(records) == 1 and wanted.required:
            return records[0]
        request = cycle.shape.request
        fitting = [
            each
            for each in records
            if (wanted.required or fit.shares_resources(each, request))
            and self._suits(cycle, attempt, row, each)
        ]
        if len(fitting) <= 1:
            return fitting[0] if fitting else None
        ordered = [each for each in fitting if each.order]
        if ordered:
            return min(ordered, key=lambda each: (each.order, each.age))
        # Among equals the oldest, then the first by name: they come in that order.
        return fitting[int(np.argmax(self._sums(cycle, row, fitting)))]

    def _suits(self, cycle: Cycle, attempt: PodMatches, row: int, record: ReservationInfo) -> bool:
        if record.allocate_once and record.owners:
            return False
        node, own = self._shortfalls(cycle, row, record)
        return (
            not node
            and not own
            and self._partners(cycle, attempt, row, record, required=True) is None
        )

    def _sums(self, cycle: Cycle, row: int, records: list[ReservationInfo]) -> NDArray[np.int64]:
        """Of each reservation its score and what other plugins make of it, added up."""
        total = np.array([self.score(cycle, each) for each in records], np.int64)
        for plugin in self.scorers:
            offers = (each.offer(required=True) for each in records)
            raw = [plugin.score_reservation(cycle, row, offer) for offer in offers]
            kind = getattr(plugin, "reservation_normalization", Normalization.NONE)
            total += normalized(kind, np.array(raw, np.int64))
        return total

    def score(self, cycle: Cycle, record: ReservationInfo) -> int:
        """0..100: how well the pod fills the reservation."""
        return fit.score(record, cycle.shape.request)

    def join(self, plugins: Sequence[Any]) -> None:
        """Tells of the profile's other plugins, of which some may have a say."""
        others = [plugin for plugin in plugins if plugin.name != PLUGIN]
        self.filters = [each for each in others if hasattr(each, "filter_reservation")]
        self._heeding = [(each, getattr(each, "heeds_reservations", None)) for each in self.filters]
        self.scorers = [each for each in others if hasattr(each, "score_reservation")]
