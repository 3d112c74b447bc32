# SPDX-License-Identifier: Apache-2.0
"""Where a pod may take CPUs and zone amounts from: the node, or a reservation on it.

A reservation counts twice: as what its reserve pod holds, and as what its owners hold. Pools undo
that for one attempt; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.nodenumaresource.objects import amounts
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import (
    ReadOnlyZoneAmounts,
    ZoneAmounts,
)
from koord.kernels.cpuset import CPUSet

_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class ReservedAllocation:
    """A reservation as this plugin sees it.

    Args:
        uid: of the reservation.
        allocation: what it holds of the node.
        owners: what the pods that use it hold.
        restricted: resources of which its owners take nothing from beyond it.
        pre_allocation: it is a running pod in whose place a new Reservation is to come; what the
            Reservation gets must include all of the pod's CPUs if it is restricted.
    """

    uid: str
    allocation: NUMAAllocation
    owners: Sequence[NUMAAllocation] = ()
    restricted: frozenset[str] = frozenset()
    pre_allocation: bool = False

    def counted_twice(self) -> ZoneAmounts:
        """Amounts that both the reservation and its owners stand for."""
        owned = amounts.total(owner.zones for owner in self.owners)
        return amounts.least(self.allocation.zones, owned)

    def remaining(self) -> ZoneAmounts:
        """Amounts that no owner has taken; every name of the reservation is kept."""
        owned = amounts.total(owner.zones for owner in self.owners)
        return amounts.difference(self.allocation.zones, owned)

    def remaining_cpus(self) -> CPUSet:
        """CPUs that no owner has taken."""
        cpus = self.allocation.cpus
        for owner in self.owners:
            cpus -= owner.cpus
        return cpus


@dataclass(frozen=True, slots=True)
class NUMAPool:
    """What an allocation may use beyond what is free for everybody.

    Args:
        reusable: amounts in use that the pod may take over.
        preferred: CPUs in use that the pod may take over, and takes first.
        limits: amounts that replace what a zone has left, by resource.
        within: the only CPUs to choose from.
        including: CPUs that the answer must include.
    """

    reusable: ReadOnlyZoneAmounts = field(default_factory=dict)
    preferred: CPUSet = _NO_CPUS
    limits: ReadOnlyZoneAmounts | None = None
    within: CPUSet | None = None
    including: CPUSet = _NO_CPUS


FREE_POOL = NUMAPool()


def node_pool(reserved_allocations: Iterable[ReservedAllocation]) -> NUMAPool:
    """The node beside all reservations: what owners use of theirs does not count again."""
    return NUMAPool(amounts.total(reserved.counted_twice() for reserved in reserved_allocations))


def reservation_pool(
    chosen: ReservedAllocation, reserved_allocations: Iterable[ReservedAllocation]
) -> NUMAPool:
    """One reservation, and with it the node's free part unless it is restricted."""
    others = [
        reserved.counted_twice() for reserved in reserved_allocations if reserved.uid != chosen.uid
    ]
    reusable = amounts.total([*others, chosen.allocation.zones])
    cpus = chosen.remaining_cpus()
    if chosen.pre_allocation:
        return NUMAPool(reusable, cpus, including=cpus if chosen.restricted else _NO_CPUS)
    if not chosen.restricted:
        return NUMAPool(reusable, cpus)
    limits = {
        zone: {name: amount for name, amount in row.items() if name in chosen.restricted}
        for zone, row in chosen.remaining().items()
    }
    return NUMAPool(reusable, cpus, limits, cpus if CPU in chosen.restricted else None)


def combined_pool(
    matched: Sequence[ReservedAllocation], others: Iterable[ReservedAllocation]
) -> NUMAPool:
    """Everything that no owner has taken of the matched ones, and the node."""
    tables = [reserved.allocation.zones for reserved in matched] + [
        reserved.counted_twice() for reserved in others
    ]
    cpus = _NO_CPUS
    for reserved in matched:
        cpus |= reserved.remaining_cpus()
    return NUMAPool(amounts.total(tables), cpus)


@dataclass(frozen=True, slots=True)
class NUMAPools:
    """The pools that a pod has on one node, in the order in which they are tried.

    Args:
        reserved: those of reservations.
        node: the node itself; None for a pod that must go into a reservation.
        base: all of them together: what hints are rated by.
    """

    reserved: Sequence[NUMAPool] = ()
    node: NUMAPool | None = FREE_POOL
    base: NUMAPool = FREE_POOL

    def __iter__(self) -> Iterator[NUMAPool]:
        yield from self.reserved
        if self.node is not None:
            yield self.node


FREE_POOLS = NUMAPools()


def pools_of(
    matched: Sequence[ReservedAllocation],
    others: Sequence[ReservedAllocation],
    *,
    required: bool = False,
    ignoring: bool = False,
) -> NUMAPools:
    """How a pod may allocate on a node with these reservations.

    Args:
        matched: those that the pod may use, in their order, that hold CPUs or zones.
        others: the rest of those that do.
        required: the pod goes into a reservation or nowhere. Where it matches none that holds
            CPUs or zones, the node is as good: whether it matches at all is not decided here.
        ignoring: the pod takes what matched reservations hold as if it were free.
    """
    if not matched and not others:
        return FREE_POOLS
    base = combined_pool(matched, others)
    if ignoring or not matched:
        return NUMAPools((), base, base)
    reserved_allocations = [*matched, *others]
    of_reservations = [reservation_pool(one, reserved_allocations) for one in matched]
    node = None if required else node_pool(reserved_allocations)
    return NUMAPools(of_reservations, node, base)
