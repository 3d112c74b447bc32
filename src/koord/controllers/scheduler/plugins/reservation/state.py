# SPDX-License-Identifier: Apache-2.0
"""What the plugin keeps from one point of an attempt to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.reservation.offer import PLUGIN

if TYPE_CHECKING:
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.reservation.choosing import Chooser
    from koord.controllers.scheduler.plugins.reservation.matches import Attempt
    from koord.controllers.scheduler.plugins.reservation.offer import Offer
    from koord.controllers.scheduler.plugins.reservation.placing import Placement
    from koord.controllers.scheduler.plugins.reservation.record import Record


class State:
    """``cycle.state["Reservation"]``: of a pod that some reservation is for, or of a reserve pod.

    Args:
        chooser: says which of several reservations a pod gets.
        attempt: of a pod.
        placement: of a reserve pod; one of the two is set.

    Attributes:
        written: the choice may stand on the API.
        first: the row whose reservation comes first by order, -1 for none.
    """

    __slots__ = ("_attempt", "_chooser", "_nominated", "first", "placement", "written")

    def __init__(
        self, chooser: Chooser, attempt: Attempt | None, placement: Placement | None = None
    ) -> None:
        self._chooser = chooser
        self._attempt = attempt
        self.placement = placement
        self.written = False
        self.first = -1
        self._nominated: dict[int, Record | None] = {}

    @property
    def attempt(self) -> Attempt:
        """Of a pod."""
        assert self._attempt is not None
        return self._attempt

    def nominate_record(self, cycle: Cycle, row: int) -> Record | None:
        """The reservation the pod gets on a row; stays the same for the rest of the attempt."""
        if row not in self._nominated:
            self._nominated[row] = self._chooser.nominate(cycle, self.attempt, row)
        return self._nominated[row]

    def nominate(self, cycle: Cycle, row: int) -> Offer | None:
        """The same as an offer; see :func:`.offer.nominated`."""
        if self.placement is not None:
            return self.placement.nominated(row)
        record = self.nominate_record(cycle, row)
        return record.offer(required=True) if record is not None else None


def state_of(cycle: Cycle) -> State:
    """The state of an attempt that has one."""
    state: State = cycle.state[PLUGIN]
    return state
