# SPDX-License-Identifier: Apache-2.0
"""Allocation where reservations hold devices: which the pod may use, and how.

Rule: docs/reference/devices.md#reserved-devices.

``cycle.reservations(row)`` has the reservations on a row that the pod matches, or that it
ignores, in the order in which they are to be tried. Their devices are those of the reserve pod,
which the cache knows by the reservation's uid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare import reasons
from koord.controllers.scheduler.plugins.deviceshare.allocation.allocator import DeviceAllocator
from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import FREE_POOL, DevicePool
from koord.controllers.scheduler.plugins.deviceshare.names import NAME, TYPES
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import minors_of
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import OF_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.controllers.scheduler.plugins.deviceshare.state.cache import (
        DeviceCache,
        RemainingAmounts,
    )
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )
    from koord.kernels.devices_assign import Scoring

_RESTRICTED = "Restricted"
_PREFIX = "Reservation(s) "


class NodeDeviceAllocator:
    """Allocates on one row with what reservations there hold.

    Args:
        cache: the state of all nodes.
        row: of a node whose Device is known.
        request: of the pod.
        reservations: that the pod matches there, in the order in which they are tried.
        base: a pool that narrows every other one.
        scoring: by device type.
    """

    def __init__(
        self,
        cache: DeviceCache,
        row: int,
        request: DeviceRequest,
        reservations: Sequence[MatchedReservation] = (),
        base: DevicePool = FREE_POOL,
        scoring: Mapping[str, Scoring] | None = None,
    ) -> None:
        self.cache, self.row, self.request, self.base = cache, row, request, base
        self.reservations = [one for one in reservations if cache.reserved(row, one.uid)]
        self.scoring = scoring

    def allocate(self, nominated: str | None = None) -> CardAllocations | Rejection:
        """What the pod gets.

        Args:
            nominated: uid of the one reservation to try; None for the first that serves.
        """
        texts: list[str] = []
        if not self.request.reservations_ignored:
            for matched in self.reservations:
                if nominated is not None and matched.uid != nominated:
                    continue
                chosen = self.from_reservation(matched)
                if not isinstance(chosen, Rejection):
                    return chosen
                texts += [_PREFIX + text for text in chosen.reasons]
            if texts and self.request.reservation_required:
                return Rejection(NAME, tuple(texts))
        return self._try(self.combined_pool())

    def combined_pool(self) -> DevicePool:
        """The node with all that matched reservations have left."""
        if not self.reservations and self.base.is_open:
            return self.base
        return self._pool([matched.uid for matched in self.reservations])

    def pool_with(self, matched: MatchedReservation) -> DevicePool:
        """The node with what one reservation has left, used first, or alone, by its policy."""
        held = self.cache.reserved(self.row, matched.uid)
        cards = {kind: word for kind in TYPES if (word := minors_of(held, kind))}
        pool = self._pool([matched.uid], preferred=cards)
        if matched.policy != _RESTRICTED:
            return pool
        only = {kind: word for kind, word in cards.items() if _restricts(matched, kind)}
        left = self.cache.remaining(self.row, matched.uid)
        capped = {card: amounts for card, amounts in left.items() if card[0] in only}
        if matched.pre_allocation:
            capped = {}
        return self._pool([matched.uid], preferred=cards, required=only, caps=capped)

    def _pool(
        self,
        uids: Sequence[str],
        *,
        preferred: Mapping[str, int] | None = None,
        required: Mapping[str, int] | None = None,
        caps: RemainingAmounts | None = None,
    ) -> DevicePool:
        base = self.base
        both = dict(required or {})
        for kind, word in base.required.items():
            both[kind] = both.get(kind, word) & word
        return DevicePool(
            numa_nodes=base.numa_nodes,
            returned=_sum(self.cache.remaining(self.row, uid) for uid in uids),
            preferred=preferred or base.preferred,
            required=both,
            caps=_least(base.caps, caps or {}),
            functions_of=uids,
            designated=base.designated,
            reserving=base.reserving,
        )

    def from_reservation(self, matched: MatchedReservation) -> CardAllocations | Rejection:
        """What the pod gets with one reservation, or why it cannot use that."""
        chosen = self._try(self.pool_with(matched))
        if isinstance(chosen, Rejection) or not matched.pre_allocation:
            return chosen
        held = self.cache.reserved(self.row, matched.uid)
        missed = any(minors_of(held, kind) & ~minors_of(chosen, kind) for kind in TYPES)
        return Rejection(NAME, (reasons.INSUFFICIENT_GPUS,)) if missed else chosen

    def _try(self, pool: DevicePool) -> CardAllocations | Rejection:
        return DeviceAllocator(self.cache, self.row, self.request, pool, self.scoring).allocate()


def _restricts(matched: MatchedReservation, kind: str) -> bool:
    return not matched.restricted or not matched.restricted.isdisjoint(OF_TYPE[kind])


def _sum(parts: Iterable[RemainingAmounts]) -> RemainingAmounts:
    total: RemainingAmounts = {}
    for part in parts:
        for card, amounts in part.items():
            before = total.get(card)
            total[card] = (
                amounts
                if before is None
                else tuple(a + b for a, b in zip(before, amounts, strict=True))
            )
    return total


def _least(one: RemainingAmounts, other: RemainingAmounts) -> RemainingAmounts:
    """Both caps at once; a type that one of them does not name is not capped by it."""
    if not one or not other:
        return one or other
    kinds = {kind for kind, _ in one} & {kind for kind, _ in other}
    merged: RemainingAmounts = {}
    for card in one.keys() | other.keys():
        if card in one and card in other:
            pairs = zip(one[card], other[card], strict=True)
            merged[card] = tuple(min(a, b) for a, b in pairs)
        elif card[0] in kinds:
            merged[card] = tuple(0 for _ in one.get(card, other.get(card, ())))
        else:
            merged[card] = one.get(card) or other[card]
    return dict(sorted(merged.items()))
