# SPDX-License-Identifier: Apache-2.0
"""Which reservations there are on a row, and what they leave to the pod of the attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.pools import (
    FREE_POOLS,
    NUMAPools,
    ReservedAllocation,
    node_pool,
    pools_of,
    reservation_pool,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.reservation.matched_reservation import nominated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.nodenumaresource.state.cache import NUMACache
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )


class ReservationPools:
    """Reservations by row, as far as they hold CPUs or zones."""

    def __init__(self, cache: NUMACache) -> None:
        self._cache = cache

    def numa_pools(self, cycle: Cycle, row: int) -> NUMAPools:
        """From what the pod may allocate; FREE_POOLS itself where no reservation matters."""
        matched, shared = cycle.reservations(row), self._cache.shared(row)
        if not matched and not shared:
            return FREE_POOLS
        return pools_of(
            _matched(matched),
            _others(matched, shared),
            required=any(one.required for one in matched),
            ignoring=cycle.shape.labels.get(keys.RESERVATION_IGNORED) == "true",
        )

    def nominated(self, cycle: Cycle, row: int, numa_pools: NUMAPools) -> NUMAPools | Rejection:
        """The pools of Score and Reserve: the nominated reservation's alone, or the node's."""
        if numa_pools is FREE_POOLS or not numa_pools.reserved:
            return numa_pools
        chosen = nominated(cycle, row)
        only = self.only(cycle, row, chosen, numa_pools) if chosen is not None else None
        if only is not None:
            return only
        matched = cycle.reservations(row)
        if chosen is None and numa_pools.node is None:
            taken_over = any(one.pre_allocation for one in matched)
            return reasons.NO_NOMINATED_POD if taken_over else reasons.NO_NOMINATED_RESERVATION
        return NUMAPools((), node_pool(self._reserved_allocations(cycle, row)), numa_pools.base)

    def only(
        self, cycle: Cycle, row: int, matched: MatchedReservation, numa_pools: NUMAPools
    ) -> NUMAPools | None:
        """One reservation and nothing beside it; None if it holds neither CPUs nor zones."""
        reserved = _reserved(matched)
        if reserved is None:
            return None
        return NUMAPools(
            (reservation_pool(reserved, self._reserved_allocations(cycle, row)),),
            None,
            numa_pools.base,
        )

    def _reserved_allocations(self, cycle: Cycle, row: int) -> list[ReservedAllocation]:
        matched = cycle.reservations(row)
        return [*_matched(matched), *_others(matched, self._cache.shared(row))]


def _matched(reservations: Iterable[MatchedReservation]) -> list[ReservedAllocation]:
    return [reserved for reserved in map(_reserved, reservations) if reserved is not None]


def _others(
    reservations: Iterable[MatchedReservation],
    shared: Iterable[tuple[PodInfo, dict[str, PodInfo]]],
) -> list[ReservedAllocation]:
    matched = {reservation.uid for reservation in reservations}
    others = (
        _reserved_allocation(reserve.uid, reserve, owners.values())
        for reserve, owners in shared
        if reserve.uid not in matched
    )
    return [reserved for reserved in others if reserved is not None]


def _reserved(matched: MatchedReservation) -> ReservedAllocation | None:
    restricted = matched.restricted if matched.is_restricted else frozenset[str]()
    owners = matched.owners.values()
    return _reserved_allocation(
        matched.uid, matched.reserve, owners, restricted, matched.pre_allocation
    )


def _reserved_allocation(
    uid: str,
    reserve: PodInfo,
    owners: Iterable[PodInfo],
    restricted: frozenset[str] = frozenset(),
    pre_allocation: bool = False,
) -> ReservedAllocation | None:
    held = reserve.allocations.get(reasons.NAME)
    if not isinstance(held, NUMAAllocation) or not held:
        return None
    allocations = [owner.allocations.get(reasons.NAME) for owner in owners]
    owned = [one for one in allocations if isinstance(one, NUMAAllocation)]
    return ReservedAllocation(uid, held, owned, restricted, pre_allocation)
