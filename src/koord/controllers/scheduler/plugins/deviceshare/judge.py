# SPDX-License-Identifier: Apache-2.0
"""Which nodes can serve a pod's devices: native answers for many rows, exact ones where needed.

A node that has no reservation for the pod is decided by columns and by the kernel where the number
of fitting cards decides; everything else (virtual functions, selectors, joint allocation, matched
reservations, designated cards) is allocated on trial, row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare import names
from koord.controllers.scheduler.plugins.deviceshare.allocator import PLAIN, Terms
from koord.controllers.scheduler.plugins.deviceshare.designated import terms_for
from koord.controllers.scheduler.plugins.deviceshare.names import NAME
from koord.controllers.scheduler.plugins.deviceshare.reserved import AllRefused, NodeAllocator
from koord.controllers.scheduler.plugins.deviceshare.templates import model_key
from koord.kernels.devices_assign import Refusal, assign_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.deviceshare.ask import Ask
    from koord.controllers.scheduler.plugins.deviceshare.holding import Holdings
    from koord.controllers.scheduler.plugins.deviceshare.reserved import ReservationOffer
    from koord.controllers.scheduler.plugins.deviceshare.settings import Settings
    from koord.controllers.scheduler.plugins.deviceshare.tracking import Tracker

    Rows = NDArray[np.intp]


class Question:
    """What is asked of every node in one attempt.

    Attributes:
        ask: the pod's devices.
        templates: ``vendor-model`` to template, None where templates do not matter.
        designated: the devices that the pod is to keep; none: any.
        offers: by row, the reservations that the pod matches.
        by_labels: labels of a node may keep the pod off.
    """

    __slots__ = ("ask", "by_labels", "designated", "offers", "templates")

    def __init__(
        self,
        ask: Ask,
        cycle: Cycle,
        templates: Mapping[str, str] | None = None,
        designated: Holdings = (),
        *,
        models: bool = False,
    ) -> None:
        self.ask = ask
        self.templates = templates
        self.designated = designated
        self.offers = cycle.reservations
        self.by_labels = ask.shared and (
            bool(ask.isolation) or bool(models) or templates is not None
        )

    def of(self, ask: Ask) -> Question:
        """The same attempt, with another wish for devices."""
        found = Question.__new__(Question)
        found.ask, found.templates, found.designated = ask, self.templates, self.designated
        found.offers, found.by_labels = self.offers, self.by_labels
        return found


class Judge:
    """See the head of this file.

    Args:
        tracker: the cache and its columns.
        settings: of the plugin.
    """

    def __init__(self, tracker: Tracker, settings: Settings) -> None:
        self.tracker = tracker
        self.cache = tracker.cache
        self.settings = settings
        self._no: dict[tuple[str, bool], Rejection] = {}

    def passes(self, question: Question, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether the node can serve the pod. A node without a Device is the kubelet's."""
        known = self.tracker.known[rows]
        passes = known
        if question.by_labels:
            # Nodes without a Device are refused by their labels too.
            labelled = self._may_share(question, rows)
            passes, known = labelled & known, known | ~labelled
        if passes.all():
            return self._fits(question, rows)
        asked = np.flatnonzero(passes)
        fits = ~known
        fits[asked] = self._fits(question, rows[asked])
        return fits

    def why(self, question: Question, rows: Rows) -> list[Rejection]:
        """Why each of some refused rows was refused."""
        if question.by_labels or question.designated or not question.ask.by_count:
            return [self._why(question, row) for row in rows.tolist()]
        said = self._counted(question.ask, rows)
        nodes = self.cache.nodes
        for place, row in enumerate(rows.tolist()):
            if nodes[row].holders and self.offers(question, row):
                said[place] = self._why(question, row)
        return said

    def try_row(self, question: Question, row: int) -> Holdings | AllRefused:
        """What the pod would get on a row, cards not scored."""
        offers, base = self.offers(question, row), self.base(question, row)
        return NodeAllocator(self.cache, row, question.ask, offers, base).allocate()

    def most(self, question: Question, row: int, kind: str) -> int:
        """How many devices of one type the pod could have on a row, no more than it wants."""
        wanted = question.ask.demand(kind).count
        for count in range(wanted, 0, -1):
            fewer = question.of(question.ask.only(kind, count))
            if not isinstance(self.try_row(fewer, row), AllRefused):
                return count
        return 0

    def base(self, question: Question, row: int) -> Terms:
        """The terms that hold on a row whatever reservations there are."""
        inventory = self.cache.nodes[row].inventory
        if not question.designated or inventory is None:
            return PLAIN
        return terms_for(question.designated, inventory)

    def offers(self, question: Question, row: int) -> Sequence[ReservationOffer]:
        """Reservations with devices on a row that the pod matches."""
        if not self.cache.nodes[row].holders:
            return ()
        return [o for o in question.offers(row) if self.cache.reserved(row, o.uid)]

    def _may_share(self, question: Question, rows: Rows) -> NDArray[np.bool_]:
        """Whether nodes share GPUs the way the pod wants, by their labels alone."""
        passes = np.ones(len(rows), np.bool_)
        ask, tracker = question.ask, self.tracker
        if ask.isolation:
            passes &= tracker.isolation[rows] == tracker.code(ask.isolation)
        for vendor, model in self.settings.unsupported_models:
            passes &= tracker.model[rows] != tracker.code(vendor, model)
        if question.templates is not None:
            served = [row for row in rows.tolist() if self._has_template(question, row)]
            passes &= np.isin(rows, served) | ~tracker.known[rows]
        return passes

    def template(self, question: Question, row: int) -> str:
        """The GPU shared resource template that the pod uses on a row, "" for none."""
        if question.templates is None:
            return ""
        return question.templates.get(model_key(*self.tracker.vendor_and_model(row)), "")

    def _has_template(self, question: Question, row: int) -> bool:
        return bool(self.template(question, row))

    def _fits(self, question: Question, rows: Rows) -> NDArray[np.bool_]:
        ask = question.ask
        if question.designated or not ask.by_count:
            return self._each(question, rows, self._in_question(question, rows))
        refused: NDArray[np.bool_] | None = None
        for kind in ask.requests:
            short = assign_rows(self.cache.tables[kind], rows, ask.demand(kind)) != 0
            if ask.secondary(kind):
                short &= ~self.tracker.well_planned[rows]
            refused = short if refused is None else refused | short
        assert refused is not None  # a pod without requests is never asked about
        return self._reserved_too(question, rows, ~refused)

    def _in_question(self, question: Question, rows: Rows) -> NDArray[np.bool_]:
        """Rows worth a trial: without enough cards no narrower choice is possible either."""
        possible = np.ones(len(rows), np.bool_)
        for kind in question.ask.requests:
            if question.ask.for_all(kind) or question.ask.secondary(kind):
                continue
            codes = assign_rows(self.cache.tables[kind], rows, question.ask.demand(kind))
            possible &= codes == 0
        return possible

    def _each(
        self, question: Question, rows: Rows, possible: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        fits = np.zeros(len(rows), np.bool_)
        for place, row in enumerate(rows.tolist()):
            if possible[place] or self.offers(question, row):
                fits[place] = not isinstance(self.try_row(question, row), AllRefused)
        return fits

    def _reserved_too(
        self, question: Question, rows: Rows, fits: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Corrects rows where reservations hold devices for the pod."""
        nodes = self.cache.nodes
        for place, row in enumerate(rows.tolist()):
            if nodes[row].holders and self.offers(question, row):
                fits[place] = not isinstance(self.try_row(question, row), AllRefused)
        return fits

    def _why(self, question: Question, row: int) -> Rejection:
        ask = question.ask
        if ask.isolation and self.tracker.isolation[row] != self.tracker.code(ask.isolation):
            return self._says(names.ISOLATION_MISSING, unresolvable=True)
        vendor, model = self.tracker.vendor_and_model(row)
        if ask.shared and (vendor, model) in self.settings.unsupported_models:
            return self._says(names.unsupported_model(vendor, model), unresolvable=True)
        if question.templates is not None and not self._has_template(question, row):
            return self._says(names.NO_TEMPLATE, unresolvable=True)
        if not question.designated and ask.by_count and not self.offers(question, row):
            return self._counted(ask, np.array([row], np.intp))[0]
        found = self.try_row(question, row)
        if isinstance(found, AllRefused):
            return Rejection(NAME, found.reasons, found.unresolvable)
        # The row changed since it was refused; the next attempt will find it.
        return self._says(names.insufficient(next(iter(ask.requests))))

    def _counted(self, ask: Ask, rows: Rows) -> list[Rejection]:
        """The reason of the first type that is not there, else of the first that does not fit."""
        insufficient = self._says(names.insufficient(next(iter(ask.requests))))
        table = [insufficient]
        reasons = np.zeros(len(rows), np.intp)
        for kind in ask.requests:
            absent = ~self.tracker.has[kind][rows] & self._wants(ask, kind, rows) & (reasons == 0)
            reasons[absent] = len(table)
            table.append(self._says(names.insufficient(kind), unresolvable=True))
        for kind in ask.requests:
            codes = assign_rows(self.cache.tables[kind], rows, ask.demand(kind))
            open_ = self._wants(ask, kind, rows) & (reasons == 0)
            for code in np.unique(codes[open_ & (codes != 0)]).tolist():
                reasons[open_ & (codes == code)] = len(table)
                reason, unresolvable = names.refusal_text(Refusal(code), kind)
                table.append(self._says(reason, unresolvable=unresolvable))
        return [table[reason] for reason in reasons.tolist()]

    def _wants(self, ask: Ask, kind: str, rows: Rows) -> NDArray[np.bool_]:
        """Rows on which the pod is asked about a type in Filter."""
        if ask.secondary(kind):
            return ~self.tracker.well_planned[rows]
        return np.ones(len(rows), np.bool_)

    def _says(self, reason: str, *, unresolvable: bool = False) -> Rejection:
        made = self._no.get((reason, unresolvable))
        if made is None:
            made = self._no[reason, unresolvable] = Rejection(NAME, (reason,), unresolvable)
        return made
