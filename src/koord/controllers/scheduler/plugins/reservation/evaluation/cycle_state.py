# SPDX-License-Identifier: Apache-2.0
"""What the plugin keeps from one point of an attempt to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.reservation.matched_reservation import PLUGIN

if TYPE_CHECKING:
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.reservation.evaluation.nominator import (
        ReservationNominator,
    )
    from koord.controllers.scheduler.plugins.reservation.evaluation.reserve_pod_placement import (
        ReservePodPlacement,
    )
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )
    from koord.controllers.scheduler.plugins.reservation.state.shape_matches import PodMatches


class ReservationCycleState:
    """``cycle.state["Reservation"]``: of a pod that some reservation is for, or of a reserve pod.

    Args:
        chooser: says which of several reservations a pod gets.
        attempt: of a pod.
        placement: of a reserve pod; one of the two is set.
        operates: the pod will work as a reservation.

    Attributes:
        written: the choice may stand on the API.
        first: the row whose reservation comes first by order, -1 for none.
    """

    __slots__ = ("_attempt", "_chooser", "_nominated", "first", "operates", "placement", "written")

    def __init__(
        self,
        chooser: ReservationNominator,
        attempt: PodMatches | None,
        placement: ReservePodPlacement | None = None,
        operates: bool = False,
    ) -> None:
        self._chooser = chooser
        self._attempt = attempt
        self.placement = placement
        self.operates = operates
        self.written = False
        self.first = -1
        self._nominated: dict[int, ReservationInfo | None] = {}

    @property
    def attempt(self) -> PodMatches:
        """Of a pod."""
        assert self._attempt is not None
        return self._attempt

    def nominate_record(self, cycle: Cycle, row: int) -> ReservationInfo | None:
        """The reservation the pod gets on a row; stays the same for the rest of the attempt."""
        if row not in self._nominated:
            self._nominated[row] = self._chooser.nominate(cycle, self.attempt, row)
        return self._nominated[row]

    def nominate(self, cycle: Cycle, row: int) -> MatchedReservation | None:
        """The same as an offer; see :func:`.offer.nominated`."""
        if self.placement is not None:
            return self.placement.nominated(row)
        record = self.nominate_record(cycle, row)
        return record.offer(required=True) if record is not None else None


def state_of(cycle: Cycle) -> ReservationCycleState:
    """The state of an attempt that has one."""
    state: ReservationCycleState = cycle.state[PLUGIN]
    return state
