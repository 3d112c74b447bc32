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
from koord.controllers.scheduler.plugins.deviceshare import reasons
from koord.controllers.scheduler.plugins.deviceshare.allocation.designated_allocation import (
    designated_pool,
)
from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import FREE_POOL
from koord.controllers.scheduler.plugins.deviceshare.allocation.reservation_pools import (
    NodeDeviceAllocator,
)
from koord.controllers.scheduler.plugins.deviceshare.names import NAME
from koord.controllers.scheduler.plugins.deviceshare.objects.gpu_templates import model_key
from koord.kernels.devices_assign import Refusal, assign_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import DevicePool
    from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.controllers.scheduler.plugins.deviceshare.state.cycle_state import DeviceCycleState
    from koord.controllers.scheduler.plugins.deviceshare.state.event_handlers import DeviceTracker
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )

    Rows = NDArray[np.intp]


class DeviceNodeEvaluator:
    """Filter: whether nodes can serve a pod's devices, and why not.

    Args:
        tracker: the cache and the columns.
        options: of the plugin.
    """

    def __init__(self, tracker: DeviceTracker, options: DeviceShareOptions) -> None:
        self.tracker = tracker
        self.cache = tracker.cache
        self._columns = tracker.columns
        self.options = options
        self._rejections: dict[tuple[str, bool], Rejection] = {}

    def passes(self, cycle_state: DeviceCycleState, rows: Rows) -> NDArray[np.bool_]:
        """By row, whether the node can serve the pod. A node without a Device is the kubelet's."""
        known = self._columns.known[rows]
        passes = known
        if cycle_state.by_labels:
            # Nodes without a Device are refused by their labels too.
            labelled = self._may_share(cycle_state, rows)
            passes, known = labelled & known, known | ~labelled
        if passes.all():
            return self._fits(cycle_state, rows)
        requested = np.flatnonzero(passes)
        fits = ~known
        fits[requested] = self._fits(cycle_state, rows[requested])
        return fits

    def diagnose(self, cycle_state: DeviceCycleState, rows: Rows) -> list[Rejection]:
        """Why each of some refused rows was refused."""
        if cycle_state.by_labels or cycle_state.designated or not cycle_state.request.by_count:
            return [self._diagnose_row(cycle_state, row) for row in rows.tolist()]
        rejections = self._counted(cycle_state.request, rows)
        for place in self.reserved_places(cycle_state, rows):
            rejections[place] = self._diagnose_row(cycle_state, int(rows[place]))
        return rejections

    def try_allocate(self, cycle_state: DeviceCycleState, row: int) -> CardAllocations | Rejection:
        """What the pod would get on a row, cards not scored."""
        matched, base = self.reservations(cycle_state, row), self.base(cycle_state, row)
        return NodeDeviceAllocator(self.cache, row, cycle_state.request, matched, base).allocate()

    def most(self, cycle_state: DeviceCycleState, row: int, kind: str) -> int:
        """How many devices of one type the pod could have on a row, no more than it wants."""
        wanted = cycle_state.request.demand(kind).count
        for count in range(wanted, 0, -1):
            fewer = cycle_state.of(cycle_state.request.only(kind, count))
            if not isinstance(self.try_allocate(fewer, row), Rejection):
                return count
        return 0

    def base(self, cycle_state: DeviceCycleState, row: int) -> DevicePool:
        """The pool that narrows every other one on a row, whatever reservations there are."""
        inventory = self.cache.nodes[row].inventory
        if not cycle_state.designated or inventory is None:
            return FREE_POOL
        return designated_pool(cycle_state.designated, inventory)

    def reservations(self, cycle_state: DeviceCycleState, row: int) -> Sequence[MatchedReservation]:
        """Reservations with devices on a row that the pod matches."""
        if not self.cache.nodes[row].holders:
            return ()
        return [one for one in cycle_state.reservations(row) if self.cache.reserved(row, one.uid)]

    def reserved_places(self, cycle_state: DeviceCycleState, rows: Rows) -> list[int]:
        """The places among some rows where the pod matches a reservation with devices."""
        places = cycle_state.reserved_places(rows)
        return [place for place in places if self.reservations(cycle_state, int(rows[place]))]

    def _may_share(self, cycle_state: DeviceCycleState, rows: Rows) -> NDArray[np.bool_]:
        """Whether nodes share GPUs the way the pod wants, by their labels alone."""
        passes = np.ones(len(rows), np.bool_)
        request, columns = cycle_state.request, self._columns
        if request.isolation:
            passes &= columns.isolation[rows] == columns.known_code(request.isolation)
        for vendor, model in self.options.unsupported_models:
            passes &= columns.model[rows] != columns.known_code(vendor, model)
        if cycle_state.templates is not None:
            served = [row for row in rows.tolist() if self.template(cycle_state, row)]
            passes &= np.isin(rows, served) | ~columns.known[rows]
        return passes

    def template(self, cycle_state: DeviceCycleState, row: int) -> str:
        """The GPU shared resource template that the pod uses on a row, "" for none."""
        if cycle_state.templates is None:
            return ""
        return cycle_state.templates.get(model_key(*self.tracker.vendor_and_model(row)), "")

    def _fits(self, cycle_state: DeviceCycleState, rows: Rows) -> NDArray[np.bool_]:
        request = cycle_state.request
        if cycle_state.designated or not request.by_count:
            return self._try_rows(cycle_state, rows, self._candidates(cycle_state, rows))
        refused: NDArray[np.bool_] | None = None
        for kind in request.requests:
            short = assign_rows(self.cache.tables[kind], rows, request.demand(kind)) != 0
            if request.secondary(kind):
                short &= ~self._columns.well_planned[rows]
            refused = short if refused is None else refused | short
        assert refused is not None  # a pod without requests is never asked about
        return self._with_reservations(cycle_state, rows, ~refused)

    def _candidates(self, cycle_state: DeviceCycleState, rows: Rows) -> NDArray[np.bool_]:
        """Rows worth a trial: without enough cards no narrower choice is possible either."""
        possible = np.ones(len(rows), np.bool_)
        for kind in cycle_state.request.requests:
            if cycle_state.request.wants_all(kind) or cycle_state.request.secondary(kind):
                continue
            codes = assign_rows(self.cache.tables[kind], rows, cycle_state.request.demand(kind))
            possible &= codes == 0
        return possible

    def _try_rows(
        self, cycle_state: DeviceCycleState, rows: Rows, possible: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        fits = np.zeros(len(rows), np.bool_)
        for place, row in enumerate(rows.tolist()):
            if possible[place] or self.reservations(cycle_state, row):
                fits[place] = not isinstance(self.try_allocate(cycle_state, row), Rejection)
        return fits

    def _with_reservations(
        self, cycle_state: DeviceCycleState, rows: Rows, fits: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Corrects rows where reservations hold devices for the pod."""
        for place in self.reserved_places(cycle_state, rows):
            tried = self.try_allocate(cycle_state, int(rows[place]))
            fits[place] = not isinstance(tried, Rejection)
        return fits

    def _diagnose_row(self, cycle_state: DeviceCycleState, row: int) -> Rejection:
        request = cycle_state.request
        isolation = self._columns.known_code(request.isolation)
        if request.isolation and self._columns.isolation[row] != isolation:
            return self._rejection(reasons.ISOLATION_MISSING, unresolvable=True)
        vendor, model = self.tracker.vendor_and_model(row)
        if request.shared and (vendor, model) in self.options.unsupported_models:
            return self._rejection(reasons.unsupported_model(vendor, model), unresolvable=True)
        if cycle_state.templates is not None and not self.template(cycle_state, row):
            return self._rejection(reasons.NO_TEMPLATE, unresolvable=True)
        by_count = request.by_count and not cycle_state.designated
        if by_count and not self.reservations(cycle_state, row):
            return self._counted(request, np.array([row], np.intp))[0]
        chosen = self.try_allocate(cycle_state, row)
        if isinstance(chosen, Rejection):
            return chosen
        # The row changed since it was refused; the next attempt will find it.
        return self._rejection(reasons.insufficient(next(iter(request.requests))))

    def _counted(self, request: DeviceRequest, rows: Rows) -> list[Rejection]:
        """The reason of the first type that is not there, else of the first that does not fit."""
        insufficient = self._rejection(reasons.insufficient(next(iter(request.requests))))
        table = [insufficient]
        codes_by_row = np.zeros(len(rows), np.intp)
        for kind in request.requests:
            wanted = self._wants(request, kind, rows) & (codes_by_row == 0)
            codes_by_row[wanted & ~self._columns.has[kind][rows]] = len(table)
            table.append(self._rejection(reasons.insufficient(kind), unresolvable=True))
        for kind in request.requests:
            codes = assign_rows(self.cache.tables[kind], rows, request.demand(kind))
            undecided = self._wants(request, kind, rows) & (codes_by_row == 0)
            for code in np.unique(codes[undecided & (codes != 0)]).tolist():
                codes_by_row[undecided & (codes == code)] = len(table)
                table.append(reasons.rejection_of(Refusal(code), kind))
        return [table[code] for code in codes_by_row.tolist()]

    def _wants(self, request: DeviceRequest, kind: str, rows: Rows) -> NDArray[np.bool_]:
        """Rows on which the pod is asked about a type in Filter."""
        if request.secondary(kind):
            return ~self._columns.well_planned[rows]
        return np.ones(len(rows), np.bool_)

    def _rejection(self, reason: str, *, unresolvable: bool = False) -> Rejection:
        made = self._rejections.get((reason, unresolvable))
        if made is None:
            made = self._rejections[reason, unresolvable] = Rejection(NAME, (reason,), unresolvable)
        return made
