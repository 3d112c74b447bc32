# SPDX-License-Identifier: Apache-2.0
"""Where a Reservation itself may go: what its reserve pod asks beyond what any pod asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.reservation import reasons
from koord.controllers.scheduler.plugins.reservation.evaluation.pre_allocation import PreAllocation
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    ALIGNED,
    DEFAULT,
    PLUGIN,
    ReservationAllocation,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.reservation.evaluation.nominator import (
        ReservationNominator,
    )
    from koord.controllers.scheduler.plugins.reservation.evaluation.pre_allocation import (
        PreAllocationChoice,
        PreAllocationOptions,
    )
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_cache import (
        ReservationCache,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )


class ReservePodPlacement:
    """One attempt to place a Reservation.

    Args:
        reservation: the Reservation.
        cycle: of its reserve pod.
        book: all reservations.
        options: of pre-allocation.
        chooser: for what other plugins say.

    Attributes:
        pre_allocation: set if the Reservation may take over pods.
    """

    def __init__(
        self,
        reservation: Reservation,
        cycle: Cycle,
        book: ReservationIndex,
        options: PreAllocationOptions,
        chooser: ReservationNominator,
    ) -> None:
        self._reservation = reservation
        self._cycle = cycle
        self._book = book
        self._filters = chooser.filters
        self._pinned = cycle.pod.pod.metadata.annotations.get(keys.RESERVATION_NODE, "")
        self.pre_allocation: PreAllocation | None = None
        if reservation.spec.pre_allocation:
            self.pre_allocation = PreAllocation(
                reservation, cycle.shape, cycle.table, options, chooser.skipped
            )
        self._choices: dict[int, PreAllocationChoice] = {}

    def begin(self) -> Rejection | None:
        """PreFilter: a refusal, or what other plugins must know."""
        found = self.pre_allocation
        if found is None:
            return None
        refused = found.early_refusal()
        if refused is not None or not found.takes_pods:
            return refused
        size = len(self._cycle.table.resources)

        def overlay(row: int) -> NDArray[np.int64] | None:
            freed = found.overlay(row)
            if not freed:
                return None
            vector = np.zeros(max(size, 1 + max(freed)), np.int64)
            for index, amount in freed.items():
                vector[index] = amount
            return vector

        self._cycle.set_overlay(overlay)
        self._cycle.reservations = lambda row: [found.offer(pod) for pod in found.candidates(row)]
        if found.required:
            return self._restrict(found)
        return None

    @property
    def generation(self) -> str | None:
        """What answers depend on beside shape and row; None for what is not kept."""
        if self.pre_allocation is not None and self.pre_allocation.takes_pods:
            return None
        return "default" if self._reservation.spec.allocate_policy == DEFAULT else "other"

    def _restrict(self, pre_allocation: PreAllocation) -> Rejection | None:
        table = self._cycle.table
        rows = [
            row for row, pods in enumerate(table.pods) if pods and pre_allocation.candidates(row)
        ]
        if not rows:
            return reasons.unresolvable(reasons.NO_CANDIDATE)
        self._cycle.restrict(np.array(rows, np.intp))
        return None

    def rejection(self, row: int) -> Rejection | None:
        """Why the Reservation cannot go to a row."""
        table = self._cycle.table
        if self._pinned and table.name(row) != self._pinned:
            return reasons.unresolvable(reasons.NODE_NAME)
        if conflicts(self._book.ledger, row, self._reservation.spec.allocate_policy):
            return reasons.unresolvable(reasons.POLICY_CONFLICT)
        if self.pre_allocation is not None and self.pre_allocation.takes_pods:
            return self._choice(row).refusal
        return None

    def filter(self, rows: Rows, passes: NDArray[np.bool_]) -> None:
        """Strikes out rows that will not do."""
        table = self._cycle.table
        asked = np.arange(len(table.open))[rows]
        if self._pinned:
            pinned = table.row(self._pinned)
            passes &= asked == (-1 if pinned is None else pinned)
        taking = self.pre_allocation is not None and self.pre_allocation.takes_pods
        due = passes & table.open[asked]
        for place in np.flatnonzero(due).tolist():
            row = int(asked[place])
            if taking or row in self._book.ledger.by_row:
                passes[place] = self.rejection(row) is None

    def score(self, rows: Rows, raw: NDArray[np.int64]) -> None:
        """What is taken over counts, see :meth:`PreAllocation.score`; 0 where nothing can be."""
        found = self.pre_allocation
        if found is None or not found.takes_pods:
            return
        for place, row in enumerate(np.arange(len(self._cycle.table.open))[rows].tolist()):
            if row >= self._cycle.table.size:
                continue
            choice = self._choice(row)
            if choice.refusal is None:
                raw[place] = found.score(choice)

    def nominated(self, row: int) -> MatchedReservation | None:
        """The first of the pods that are taken over on a row."""
        found = self.pre_allocation
        if found is None or not found.takes_pods:
            return None
        pods = self._choice(row).pods
        return found.offer(pods[0]) if pods else None

    def reserve(self, row: int) -> Rejection | None:
        """Takes over the chosen pods."""
        found = self.pre_allocation
        if found is None or not found.takes_pods:
            return None
        self._choices.pop(row, None)
        choice = self._choice(row)
        if choice.refusal is not None:
            return choice.refusal
        if choice.pods:
            uids = tuple(pod.uid for pod in choice.pods)
            self._cycle.pod.allocations[PLUGIN] = ReservationAllocation("", "", uids)
        return None

    def _choice(self, row: int) -> PreAllocationChoice:
        assert self.pre_allocation is not None
        if row not in self._choices:
            self._choices[row] = self.pre_allocation.choose(
                row, (lambda offer: self._accepts(row, offer)) if self._filters else None
            )
        return self._choices[row]

    def _accepts(self, row: int, offer: MatchedReservation) -> Rejection | None:
        for plugin in self._filters:
            refused: Rejection | None = plugin.filter_reservation(self._cycle, row, offer)
            if refused is not None:
                return refused
        return None


def conflicts(ledger: ReservationCache, row: int, policy: str) -> bool:
    """Whether a reservation of a policy may not be put on a row: beside the empty one no other."""
    default = policy == DEFAULT
    here = ledger.by_row.get(row, {}).values()
    return any((other.policy == DEFAULT) != default and _counts(other) for other in here)


def strike_conflicts(
    ledger: ReservationCache, rows: Rows, passes: NDArray[np.bool_], size: int
) -> None:
    """Strikes out the rows that pods in operating mode, which are Aligned, may not be put on.

    Args:
        ledger: who is where.
        rows: those asked about.
        passes: bool by row asked about.
        size: how many rows the table has room for.
    """
    refused = np.zeros(size, np.bool_)
    refused[[row for row in ledger.by_row if conflicts(ledger, row, ALIGNED)]] = True
    passes &= ~refused[rows]


def _counts(record: ReservationInfo) -> bool:
    """Whether pods may use a reservation now, or once the API says that it is available."""
    if record.matchable:
        return True
    value = record.object
    return isinstance(value, Reservation) and value.status.phase in ("", "Pending")
