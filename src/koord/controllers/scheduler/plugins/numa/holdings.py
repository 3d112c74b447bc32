# SPDX-License-Identifier: Apache-2.0
"""Which reservations stand on a row, and what they leave to the pod at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.numa import designated, reasons
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.offers import (
    PLAIN_WAYS,
    Hold,
    Ways,
    node_offer,
    reservation_offer,
    ways_of,
)
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.reservation.offer import nominated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.numa.ledger import Ledger
    from koord.controllers.scheduler.plugins.reservation.offer import Offer

NAME = designated.PLUGIN


class Holdings:
    """Reservations by row, as far as they hold CPUs or zones."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def ways(self, cycle: Cycle, row: int) -> Ways:
        """How the pod may allocate there; `PLAIN_WAYS` itself where no reservation matters."""
        offers, shared = cycle.reservations(row), self._ledger.shared(row)
        if not offers and not shared:
            return PLAIN_WAYS
        return ways_of(
            _matched(offers),
            _others(offers, shared),
            required=any(offer.required for offer in offers),
            ignoring=cycle.shape.labels.get(keys.RESERVATION_IGNORED) == "true",
        )

    def nominated(self, cycle: Cycle, row: int, ways: Ways) -> Ways | Refusal:
        """What is left of the ways in Score and Reserve: the nominated reservation, or the node."""
        if ways is PLAIN_WAYS or not ways.reserved:
            return ways
        chosen = nominated(cycle, row)
        only = self.only(cycle, row, chosen, ways) if chosen is not None else None
        if only is not None:
            return only
        offers = cycle.reservations(row)
        if chosen is None and ways.node is None:
            taken_over = any(offer.pre_allocation for offer in offers)
            return reasons.NO_NOMINATED_POD if taken_over else reasons.NO_NOMINATED_RESERVATION
        return Ways((), node_offer(self._holds(cycle, row)), ways.base)

    def only(self, cycle: Cycle, row: int, offer: Offer, ways: Ways) -> Ways | None:
        """One reservation and nothing beside it; None if it holds neither CPUs nor zones."""
        hold = _hold(offer)
        if hold is None:
            return None
        return Ways((reservation_offer(hold, self._holds(cycle, row)),), None, ways.base)

    def _holds(self, cycle: Cycle, row: int) -> list[Hold]:
        offers = cycle.reservations(row)
        return [*_matched(offers), *_others(offers, self._ledger.shared(row))]


def _matched(offers: Iterable[Offer]) -> list[Hold]:
    return [hold for hold in map(_hold, offers) if hold is not None]


def _others(
    offers: Iterable[Offer], shared: Iterable[tuple[PodInfo, dict[str, PodInfo]]]
) -> list[Hold]:
    known = {offer.uid for offer in offers}
    found = (
        _hold_of(reserve.uid, reserve, owners.values())
        for reserve, owners in shared
        if reserve.uid not in known
    )
    return [hold for hold in found if hold is not None]


def _hold(offer: Offer) -> Hold | None:
    restricted = offer.restricted if offer.is_restricted else frozenset[str]()
    owners = offer.owners.values()
    return _hold_of(offer.uid, offer.reserve, owners, restricted, offer.pre_allocation)


def _hold_of(
    uid: str,
    reserve: PodInfo,
    owners: Iterable[PodInfo],
    restricted: frozenset[str] = frozenset(),
    pre_allocation: bool = False,
) -> Hold | None:
    held = reserve.allocations.get(NAME)
    if not isinstance(held, Allocation) or not held:
        return None
    found = [owner.allocations.get(NAME) for owner in owners]
    owned = [each for each in found if isinstance(each, Allocation)]
    return Hold(uid, held, owned, restricted, pre_allocation)
