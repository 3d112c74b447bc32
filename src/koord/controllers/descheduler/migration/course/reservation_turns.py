# SPDX-License-Identifier: Apache-2.0
"""In which order the jobs of one workload evict.

The pod that comes anew may take any reservation of its workload, and takes that of the lowest
order. So the job of that one goes first, and the next one once a pod has taken it.

Rule: docs/reference/migration.md#one-after-another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.reservation import AVAILABLE
from koord.api.protocol import keys

if TYPE_CHECKING:
    from koord.api.kinds.reservation import Reservation


class ReservationTurns:
    """Reservations of migrations that wait for a pod, by the controller of the pod."""

    def __init__(self) -> None:
        self._by_controller: dict[str, dict[str, tuple[int, str]]] = {}

    def put(self, reservation: Reservation) -> None:
        """A reservation is there, or has changed."""
        self.remove(reservation)
        status = reservation.status
        owner = _controller(reservation)
        if owner and status.phase == AVAILABLE and not status.current_owners:
            turns = self._by_controller.setdefault(owner, {})
            turns[reservation.metadata.name] = _turn(reservation)

    def remove(self, reservation: Reservation) -> None:
        """A reservation is gone."""
        owner = _controller(reservation)
        turns = self._by_controller.get(owner, {})
        turns.pop(reservation.metadata.name, None)
        if not turns:
            self._by_controller.pop(owner, None)

    def is_first(self, reservation: Reservation) -> bool:
        """Whether no other reservation of the workload that waits comes before."""
        turns = self._by_controller.get(_controller(reservation), {})
        return all(turn >= _turn(reservation) for turn in turns.values())

    def same_workload(self, reservation: Reservation) -> list[str]:
        """Names of the reservations of the workload that wait."""
        return sorted(self._by_controller.get(_controller(reservation), ()))


def _controller(reservation: Reservation) -> str:
    """The uid of the controller whose pods may take it; empty where that is said otherwise."""
    if reservation.metadata.labels.get(keys.CREATED_BY) != "koord-descheduler":
        return ""
    for owner in reservation.spec.owners:
        if owner.controller is not None:
            return owner.controller.uid
    return ""


def _turn(reservation: Reservation) -> tuple[int, str]:
    order = reservation.metadata.labels.get(keys.RESERVATION_ORDER, "")
    return int(order) if order.isdecimal() else 0, reservation.metadata.name
