# SPDX-License-Identifier: Apache-2.0
"""Where a pod may take CPUs and zone amounts from: the node, or a reservation on it.

A reservation is on the books twice: as what its reserve pod holds, and as what its owners hold.
Offers undo that for one question; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from koord.controllers.scheduler.plugins.numa import amounts
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.amounts import Table, Tables
from koord.kernels.cpuset import CPUSet

_NO_CPUS = CPUSet()


@dataclass(frozen=True, slots=True)
class Hold:
    """A reservation as this plugin sees it.

    Args:
        uid: orders reservations that are equally good.
        matched: whether the pod at hand may use it.
        allocation: what it holds of the node.
        owners: what the pods that use it hold.
        restricted: its owners may take nothing from beyond it.
        pre_allocation: it is a running pod in whose place a new Reservation is to come; what the
            Reservation gets must include all of the pod's CPUs.
    """

    uid: str
    matched: bool
    allocation: Allocation
    owners: Sequence[Allocation] = ()
    restricted: bool = False
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


class Reserved(Protocol):
    """What the Reservation plugin tells of one reservation on a node (``cycle.reservations``)."""

    @property
    def uid(self) -> str: ...
    @property
    def matched(self) -> bool:
        """Whether the pod at hand may use it."""
        ...

    @property
    def restricted(self) -> bool:
        """Whether its allocate policy is Restricted."""
        ...

    @property
    def pre_allocation(self) -> bool:
        """Whether it is a running pod that the Reservation at hand would take over."""
        ...

    def held(self, plugin: str) -> object | None:
        """What a plugin allocated to the reservation: its reserve pod's ``allocations[plugin]``."""
        ...

    def owned(self, plugin: str) -> Iterable[object]:
        """What the plugin allocated to the pods that use it, those that got nothing left out."""
        ...


PLAIN = Offer()


def node_offer(holds: Iterable[Hold]) -> Offer:
    """The node beside all reservations: what owners use of theirs does not count again."""
    return Offer(amounts.total(hold.twice() for hold in holds))


def reservation_offer(chosen: Hold, holds: Iterable[Hold]) -> Offer:
    """One matched reservation, and with it the node's free part unless it is restricted."""
    others = [hold.twice() for hold in holds if hold.uid != chosen.uid]
    reusable = amounts.total([*others, chosen.allocation.zones])
    cpus = chosen.remaining_cpus()
    if chosen.pre_allocation:
        return Offer(reusable, cpus, including=cpus if chosen.restricted else _NO_CPUS)
    if chosen.restricted:
        return Offer(reusable, cpus, limits=chosen.remaining(), within=cpus)
    return Offer(reusable, cpus)


def ignoring_offer(holds: Iterable[Hold]) -> Offer:
    """Everything that no owner has taken, for a pod that ignores reservations."""
    holds = list(holds)
    tables = [hold.allocation.zones if hold.matched else hold.twice() for hold in holds]
    return Offer(amounts.total(tables), _union(hold for hold in holds if hold.matched))


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


def ways_of(holds: Sequence[Hold], *, required: bool = False, ignoring: bool = False) -> Ways:
    """How a pod may allocate on a node with these reservations.

    Args:
        holds: those that hold something of the node's CPUs or zones.
        required: the pod goes into a reservation or nowhere. Where it matches none that holds
            CPUs or zones, the node is as good: whether it matches at all is not decided here.
        ignoring: the pod takes what reservations hold as if it were free.
    """
    if not holds:
        return PLAIN_WAYS
    base = ignoring_offer(holds)
    if ignoring:
        return Ways((), base, base)
    matched = sorted((hold for hold in holds if hold.matched), key=lambda hold: hold.uid)
    reserved = [reservation_offer(hold, holds) for hold in matched]
    node = None if required and matched else node_offer(holds)
    return Ways(reserved, node, base)


def hold_of(reserved: Reserved, plugin: str) -> Hold | None:
    """The reservation if it holds something of the node's CPUs or zones."""
    held = reserved.held(plugin)
    if not isinstance(held, Allocation) or not held:
        return None
    owners = [owned for owned in reserved.owned(plugin) if isinstance(owned, Allocation)]
    return Hold(
        reserved.uid, reserved.matched, held, owners, reserved.restricted, reserved.pre_allocation
    )


def _union(holds: Iterable[Hold]) -> CPUSet:
    cpus = _NO_CPUS
    for hold in holds:
        cpus |= hold.remaining_cpus()
    return cpus


