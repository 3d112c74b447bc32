# SPDX-License-Identifier: Apache-2.0
"""Allocation where reservations hold devices: which the pod may use, and how.

Rule: docs/reference/devices.md#reserved-devices.

``cycle.reservations(row)`` tells of the reservations on a row that the pod matches, or that it
ignores, in the order in which they are to be tried. Their devices are those of the reserve pod,
which the cache knows by the offer's uid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koord.controllers.scheduler.plugins.deviceshare.allocator import (
    PLAIN,
    Allocator,
    Refused,
    Terms,
)
from koord.controllers.scheduler.plugins.deviceshare.holding import minors_of
from koord.controllers.scheduler.plugins.deviceshare.names import INSUFFICIENT_GPUS, TYPES
from koord.controllers.scheduler.plugins.deviceshare.request import OF_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.ask import Ask
    from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache, Remained
    from koord.controllers.scheduler.plugins.deviceshare.holding import Holdings
    from koord.kernels.devices_assign import Scoring

RESTRICTED = "Restricted"
PREFIX = "Reservation(s) "


class ReservationOffer(Protocol):
    """What is needed of the Reservation plugin's ``Offer``."""

    @property
    def uid(self) -> str:
        """The reservation's and its reserve pod's; of a pod that is taken over, that pod's."""
        ...

    @property
    def policy(self) -> str:
        """``""``, ``Aligned`` or ``Restricted``."""
        ...

    @property
    def restricted(self) -> frozenset[str]:
        """Resources that come from the reservation alone; all it holds if empty."""
        ...

    @property
    def pre_allocation(self) -> bool:
        """The pod to place is a reserve pod that takes over a running pod's devices."""
        ...


class AllRefused:
    """No way served the pod.

    Attributes:
        reasons: of reservations prefixed so; of the node as it is.
        unresolvable: removing pods would not help.
    """

    __slots__ = ("reasons", "unresolvable")

    def __init__(self, refused: Iterable[Refused], prefix: str = "") -> None:
        found = list(refused)
        self.reasons = tuple(prefix + each.reason for each in found)
        self.unresolvable = bool(found) and all(each.unresolvable for each in found) and not prefix


class NodeAllocator:
    """Allocates on one row with what reservations there hold.

    Args:
        cache: the state of all nodes.
        row: of a node whose Device is known.
        ask: what the pod wants.
        offers: reservations the pod matches there, in the order in which they are tried.
        base: terms that hold for every try.
        scoring: by device type.
    """

    def __init__(
        self,
        cache: DeviceCache,
        row: int,
        ask: Ask,
        offers: Sequence[ReservationOffer] = (),
        base: Terms = PLAIN,
        scoring: Mapping[str, Scoring] | None = None,
    ) -> None:
        self.cache, self.row, self.ask, self.base = cache, row, ask, base
        self.offers = [offer for offer in offers if cache.reserved(row, offer.uid)]
        self.scoring = scoring

    def allocate(self, nominated: str | None = None) -> Holdings | AllRefused:
        """What the pod gets.

        Args:
            nominated: uid of the one reservation to try; None for the first that serves.
        """
        refusals: list[Refused] = []
        if not self.ask.reservations_ignored:
            for offer in self.offers:
                if nominated is not None and offer.uid != nominated:
                    continue
                found = self.from_offer(offer)
                if not isinstance(found, Refused):
                    return found
                refusals.append(found)
            if refusals and self.ask.reservation_required:
                return AllRefused(refusals, PREFIX)
        found = self._try(self.everything())
        return AllRefused([found]) if isinstance(found, Refused) else found

    def everything(self) -> Terms:
        """The node with all that matched reservations have left."""
        return self._terms([offer.uid for offer in self.offers])

    def terms(self, offer: ReservationOffer) -> Terms:
        """The node with what one reservation has left, used first or alone as its policy says."""
        held = self.cache.reserved(self.row, offer.uid)
        cards = {kind: word for kind in TYPES if (word := minors_of(held, kind))}
        terms = self._terms([offer.uid], preferred=cards)
        if offer.policy != RESTRICTED:
            return terms
        only = {kind: word for kind, word in cards.items() if _restricts(offer, kind)}
        left = self.cache.remained(self.row, offer.uid)
        capped = {card: amounts for card, amounts in left.items() if card[0] in only}
        if offer.pre_allocation:
            capped = {}
        return self._terms([offer.uid], preferred=cards, required=only, caps=capped)

    def _terms(
        self,
        uids: Sequence[str],
        *,
        preferred: Mapping[str, int] | None = None,
        required: Mapping[str, int] | None = None,
        caps: Remained | None = None,
    ) -> Terms:
        base = self.base
        both = dict(required or {})
        for kind, word in base.required.items():
            both[kind] = both.get(kind, word) & word
        return Terms(
            numa_nodes=base.numa_nodes,
            returned=_sum(self.cache.remained(self.row, uid) for uid in uids),
            preferred=preferred or base.preferred,
            required=both,
            caps=_least(base.caps, caps or {}),
            functions_of=uids,
            designated=base.designated,
            reserving=base.reserving,
        )

    def from_offer(self, offer: ReservationOffer) -> Holdings | Refused:
        """What the pod gets with one reservation, or why it cannot use that."""
        found = self._try(self.terms(offer))
        if isinstance(found, Refused) or not offer.pre_allocation:
            return found
        held = self.cache.reserved(self.row, offer.uid)
        missed = any(minors_of(held, kind) & ~minors_of(found, kind) for kind in TYPES)
        return Refused(INSUFFICIENT_GPUS) if missed else found

    def _try(self, terms: Terms) -> Holdings | Refused:
        return Allocator(self.cache, self.row, self.ask, terms, self.scoring).allocate()


def _restricts(offer: ReservationOffer, kind: str) -> bool:
    return not offer.restricted or not offer.restricted.isdisjoint(OF_TYPE[kind])


def _sum(parts: Iterable[Remained]) -> Remained:
    total: Remained = {}
    for part in parts:
        for card, amounts in part.items():
            before = total.get(card)
            total[card] = (
                amounts
                if before is None
                else tuple(a + b for a, b in zip(before, amounts, strict=True))
            )
    return total


def _least(one: Remained, other: Remained) -> Remained:
    """Both caps at once; a type that one of them does not name is not capped by it."""
    if not one or not other:
        return one or other
    kinds = {kind for kind, _ in one} & {kind for kind, _ in other}
    merged: Remained = {}
    for card in one.keys() | other.keys():
        if card in one and card in other:
            pairs = zip(one[card], other[card], strict=True)
            merged[card] = tuple(min(a, b) for a, b in pairs)
        elif card[0] in kinds:
            merged[card] = tuple(0 for _ in one.get(card, other.get(card, ())))
        else:
            merged[card] = one.get(card) or other[card]
    return dict(sorted(merged.items()))
