# SPDX-License-Identifier: Apache-2.0
"""What other plugins are told of reservations: the protocol with CPUs, zones and devices.

A reservation on a node is a pod that counts there like any other: its *reserve pod*, whose uid is
the Reservation's. What a plugin gave the reserve pod stands in ``offer.reserve.allocations[name]``,
what it gave the pods that sit in the reservation in ``owner.allocations[name]``. An owner's share
that was taken out of the reservation counts twice in a plain sum over the pods of a row; whoever
sums CPUs, zones or devices takes it off again with :func:`holders`.

For one attempt ``cycle.reservations(row)`` gives the :class:`MatchedReservation` of each
reservation that the pod matches there, in their order of preference (creation time, then name). A
plugin may implement :class:`ReservationAwarePlugin`, and asks :func:`nominated` in Score and
Reserve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Normalization
    from koord.controllers.scheduler.framework.rejection import Rejection

PLUGIN = "Reservation"
DEFAULT, ALIGNED, RESTRICTED = "", "Aligned", "Restricted"


class MatchedReservation(NamedTuple):
    """What one reservation offers the pod of this attempt on one row.

    Attributes:
        uid: of the Reservation, and of its reserve pod. Of an operating-mode pod or, for a
            reserve pod that takes over running pods, of that pod.
        name: of the same.
        reserve: the pod that holds the resources; see the head of this file.
        owners: the pods that sit in it and count on the row, by uid.
        policy: ``""`` or ``Aligned``: may be joined with free resources of the node.
            ``Restricted``: resources in ``restricted`` come from the reservation alone.
        restricted: names of resources; all it holds unless the Reservation says otherwise.
        allocatable: what it holds, by resource: CPU in milli, all else in units.
        allocated: what its owners ask for of those resources; may exceed ``allocatable``.
        remaining: what is left for the pod; never negative.
        required: the pod must use a reservation (it has an affinity), or this one is nominated.
        pre_allocation: the attempt is a reserve pod's, and the offer is a running pod
            (``reserve``) whose resources it takes over; all it has remains.
    """

    uid: str
    name: str
    reserve: PodInfo
    owners: Mapping[str, PodInfo]
    policy: str
    restricted: frozenset[str]
    allocatable: Mapping[str, int]
    allocated: Mapping[str, int]
    remaining: Mapping[str, int]
    required: bool = False
    pre_allocation: bool = False

    @property
    def is_restricted(self) -> bool:
        """Whether some resources come from the reservation alone."""
        return self.policy == RESTRICTED


class ReservationAllocation(NamedTuple):
    """``pod.allocations["Reservation"]``: where the pod sits.

    Attributes:
        uid: of the Reservation or operating-mode pod that the pod sits in; empty for reserve pods.
        name: of the same.
        pre_allocated: for reserve pods, uids of the running pods that it takes over.
    """

    uid: str
    name: str
    pre_allocated: tuple[str, ...] = ()

    def describe(self) -> dict[str, object]:
        """The reservation, or the pods taken over, as explanations show them in JSON."""
        if self.uid:
            return {"reservation": self.name, "uid": self.uid}
        return {"takesOverPods": list(self.pre_allocated)}


class ReservationAwarePlugin(Protocol):
    """A plugin that has a say in which reservation a pod gets; all of it is optional.

    Attributes:
        reservation_normalization: how its scores of a node's reservations become 0..100; as they
            are if it does not say.
    """

    reservation_normalization: ClassVar[Normalization]

    def heeds_reservations(self, cycle: Cycle) -> bool:
        """Whether the plugin might refuse this pod any reservation; else it is not asked."""
        ...

    def filter_reservation(
        self, cycle: Cycle, row: int, offer: MatchedReservation
    ) -> Rejection | None:
        """Why the pod cannot use this reservation; None if it can.

        ``offer.required`` tells whether the pod may still fall back to the node.
        """
        ...

    def score_reservation(self, cycle: Cycle, row: int, offer: MatchedReservation) -> int:
        """The higher the better; normalized, 0..100, it is added to those of others."""
        ...


def nominated(cycle: Cycle, row: int) -> MatchedReservation | None:
    """The reservation that the pod would get on a row that passed all filters, if any.

    For Score and Reserve; the answer stays the same for the rest of the attempt.
    """
    state = cycle.state.get(PLUGIN)
    if state is None:
        return None
    offer: MatchedReservation | None = state.nominate(cycle, row)
    return offer


def reservation_of(pod: PodInfo) -> str:
    """The uid of the reservation that a pod sits in, empty if in none."""
    allocation: Any = pod.allocations.get(PLUGIN)
    return allocation.uid if allocation is not None else ""


def holders(pods: Mapping[str, PodInfo]) -> Iterator[tuple[PodInfo, dict[str, PodInfo]]]:
    """The reserve pods of a row that have owners there, with these by uid.

    Args:
        pods: ``table.pods[row]``: all that count on the row.
    """
    found: dict[str, dict[str, PodInfo]] = {}
    for uid, pod in pods.items():
        allocation: Any = pod.allocations.get(PLUGIN)
        if allocation is None:
            continue
        if allocation.uid in pods:
            found.setdefault(allocation.uid, {})[uid] = pod
        for other in allocation.pre_allocated:
            if other in pods:
                found.setdefault(uid, {})[other] = pods[other]
    for uid, owners in found.items():
        yield pods[uid], owners
