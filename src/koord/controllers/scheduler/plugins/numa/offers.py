# SPDX-License-Identifier: Apache-2.0
"""Where a pod may take CPUs and zone amounts from: the node, or a reservation on it.

A reservation is on the books twice: as what its reserve pod holds, and as what its owners hold.
Offers undo that for one question; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa import amounts
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.amounts import Table, Tables
from koord.kernels.cpuset import CPUSet

_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class Hold:
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
    allocation: Allocation
    owners: Sequence[Allocation] = ()
    restricted: frozenset[str] = frozenset()
    pre_allocation: bool = False

    def twice(self) -> Table:
        """Amounts that both the reservation and its owners stand for."""
        owned = amounts.total(owner.zones for owner in self.owners)
        return amounts.least(self.allocation.zones, owned)

    def remaining(self) -> Table:
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
class Offer:
    """What one way of allocating may use beyond what is plainly free.

    Args:
        reusable: amounts in use that the pod may take over.
        preferred: CPUs in use that the pod may take over, and takes first.
        limits: amounts that replace what a zone has left, by resource.
        within: the only CPUs to choose from.
        including: CPUs that the answer must include.
    """

    reusable: Tables = field(default_factory=dict)
    preferred: CPUSet = _NO_CPUS
    limits: Tables | None = None
    within: CPUSet | None = None
    including: CPUSet = _NO_CPUS


PLAIN = Offer()


def node_offer(holds: Iterable[Hold]) -> Offer:
    """The node beside all reservations: what owners use of theirs does not count again."""
    return Offer(amounts.total(hold.twice() for hold in holds))


def reservation_offer(chosen: Hold, holds: Iterable[Hold]) -> Offer:
    """One reservation, and with it the node's free part unless it is restricted."""
    others = [hold.twice() for hold in holds if hold.uid != chosen.uid]
    reusable = amounts.total([*others, chosen.allocation.zones])
    cpus = chosen.remaining_cpus()
    if chosen.pre_allocation:
        return Offer(reusable, cpus, including=cpus if chosen.restricted else _NO_CPUS)
    if not chosen.restricted:
        return Offer(reusable, cpus)
    limits = {
        zone: {name: amount for name, amount in row.items() if name in chosen.restricted}
        for zone, row in chosen.remaining().items()
    }
    return Offer(reusable, cpus, limits, cpus if CPU in chosen.restricted else None)


def ignoring_offer(matched: Sequence[Hold], others: Iterable[Hold]) -> Offer:
    """Everything that no owner has taken of the matched ones, and the node."""
    tables = [hold.allocation.zones for hold in matched] + [hold.twice() for hold in others]
    cpus = _NO_CPUS
    for hold in matched:
        cpus |= hold.remaining_cpus()
    return Offer(amounts.total(tables), cpus)


@dataclass(frozen=True, slots=True)
class Ways:
    """The offers that a pod has on one node, in the order in which they are tried.

    Args:
        reserved: reservations, by uid.
        node: the node itself; None for a pod that must go into a reservation.
        base: all of it together: what hints are judged by.
    """

    reserved: Sequence[Offer] = ()
    node: Offer | None = PLAIN
    base: Offer = PLAIN

    def __iter__(self) -> Iterator[Offer]:
        yield from self.reserved
        if self.node is not None:
            yield self.node


PLAIN_WAYS = Ways()


def ways_of(
    matched: Sequence[Hold],
    others: Sequence[Hold],
    *,
    required: bool = False,
    ignoring: bool = False,
) -> Ways:
    """How a pod may allocate on a node with these reservations.

    Args:
        matched: those that the pod may use, in their order, that hold CPUs or zones.
        others: the rest of those that do.
        required: the pod goes into a reservation or nowhere. Where it matches none that holds
            CPUs or zones, the node is as good: whether it matches at all is not decided here.
        ignoring: the pod takes what matched reservations hold as if it were free.
    """
    if not matched and not others:
        return PLAIN_WAYS
    base = ignoring_offer(matched, others)
    if ignoring or not matched:
        return Ways((), base, base)
    holds = [*matched, *others]
    reserved = [reservation_offer(hold, holds) for hold in matched]
    return Ways(reserved, None if required else node_offer(holds), base)
