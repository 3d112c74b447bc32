# SPDX-License-Identifier: Apache-2.0
"""How pods and Reservations refer to each other in labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from koord.api.kinds.constraints import NodeSelectorTerm, Toleration
from koord.api.kinds.meta import Object, ObjectReference, ResourceList
from koord.api.kinds.reservation import ReservationOwner
from koord.api.protocol import annotation, keys
from koord.api.protocol.numbers import parse_int
from koord.api.wirestruct import WireStruct, emitted
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation

T = TypeVar("T")

RUNNABLE, RESERVATION = "Runnable", "Reservation"


class ReservationAllocated(WireStruct):
    """``scheduling.koordinator.sh/reservation-allocated``: the reservation a pod sits in."""

    name: str = emitted(str)
    uid: str = emitted(str)


class ReservationSelector(WireStruct):
    """Node selector terms over a reservation's labels; one term must match."""

    reservation_selector_terms: list[NodeSelectorTerm] = []


class ReservationAffinity(WireStruct):
    """``scheduling.koordinator.sh/reservation-affinity``; a name makes the rest irrelevant."""

    name: str = ""
    required_during_scheduling_ignored_during_execution: ReservationSelector | None = None
    reservation_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class RestrictedOptions(WireStruct):
    """``scheduling.koordinator.sh/reservation-restricted-options``: what Restricted applies to."""

    resources: list[str] = []


class ReservedResources(WireStruct):
    """Amounts that an annotation of a Reservation names: what replaces its allocatable, and what
    its owners do not get.
    """

    resources: ResourceList = {}


class ExactMatch(WireStruct):
    """``scheduling.koordinator.sh/exact-match-reservation``: amounts that must be the same."""

    resource_names: list[str] = []


def ignores_reservations(pod: Pod) -> bool:
    """Whether the pod uses reserved and free resources alike and never becomes an owner."""
    return pod.metadata.labels.get(keys.RESERVATION_IGNORED) == "true"


def is_reserve_pod(pod: Pod) -> bool:
    """Whether the pod stands for a Reservation inside the scheduler."""
    return pod.metadata.annotations.get(keys.RESERVE_POD) == "true"


def reservation_allocated(pod: Pod) -> ReservationAllocated | None:
    """The reservation the pod sits in; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.RESERVATION_ALLOCATED, ReservationAllocated)


def reservation_affinity(pod: Pod) -> ReservationAffinity | None:
    """Which reservations the pod must use; None without the annotation, empty if that is empty.

    Raises:
        KoordError: malformed.
    """
    if pod.metadata.annotations.get(keys.RESERVATION_AFFINITY) == "":
        return ReservationAffinity()
    return annotation.read(pod, keys.RESERVATION_AFFINITY, ReservationAffinity)


def exact_match(pod: Pod) -> ExactMatch | None:
    """Which amounts must be the same; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.EXACT_MATCH_RESERVATION, ExactMatch)


def matches_exactly(
    spec: ExactMatch | None, pod: Mapping[str, T], reserved: Mapping[str, T]
) -> bool:
    """Whether a pod's requests are what a reservation holds, for the resources listed.

    Args:
        spec: the pod's annotation.
        pod: what it asks for, by resource: quantities, or plain numbers of one unit a resource.
        reserved: what the reservation holds, likewise.

    A resource that neither has ends the comparison with a match; later names are not looked at.
    Koordinator does so too, and both may schedule the same pods.
    """
    for name in spec.resource_names if spec else ():
        if name not in pod and name not in reserved:
            return True
        if pod.get(name) != reserved.get(name):
            return False
    return True


def restricted_options(reservation: Reservation) -> RestrictedOptions | None:
    """The resources that the Restricted policy applies to; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(reservation, keys.RESERVATION_RESTRICTED_OPTIONS, RestrictedOptions)


def resize_allocatable(reservation: Reservation) -> ReservedResources | None:
    """The amounts that replace those of the template; None without the annotation.

    Raises:
        KoordError: malformed, or a negative amount.
    """
    return _amounts(reservation, keys.RESERVATION_RESIZE_ALLOCATABLE)


def withheld(reservation: Reservation) -> ReservedResources | None:
    """The amounts that the Reservation holds but owners do not get; None without the annotation.

    Raises:
        KoordError: malformed, or a negative amount.
    """
    return _amounts(reservation, keys.NODE_RESERVATION)


def _amounts(reservation: Reservation, key: str) -> ReservedResources | None:
    found = annotation.read(reservation, key, ReservedResources)
    for name, quantity in found.resources.items() if found else ():
        if quantity < Quantity.from_value(0):
            where = f"{annotation.field_of(key)}.resources[{name}]"
            raise KoordError(reservation.title, where, str(quantity), "an amount of 0 or more")
    return found


def reservation_order(reservation: Reservation) -> int:
    """The preference among reservations, lower first; 0 leaves it to their scores.

    Raises:
        KoordError: no integer.
    """
    text = reservation.metadata.labels.get(keys.RESERVATION_ORDER, "")
    if not text:
        return 0
    return parse_int(text, reservation.title, f"labels[{keys.RESERVATION_ORDER}]")


def requires_pre_allocation(reservation: Reservation) -> bool:
    """Whether the reservation must take the place of a running pod."""
    return reservation.metadata.labels.get(keys.PRE_ALLOCATION_REQUIRED) == "true"


def operating_mode(pod: Pod) -> str:
    """``Runnable`` (default), or ``Reservation`` for a pod that only holds resources."""
    mode = pod.metadata.labels.get(keys.OPERATING_MODE)
    return RESERVATION if mode == RESERVATION else RUNNABLE


def reservation_owners(obj: Object) -> list[ReservationOwner]:
    """Who may use a pod that works as a reservation; empty without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(obj, keys.RESERVATION_OWNERS, list[ReservationOwner]) or []


def reservation_current_owner(obj: Object) -> ObjectReference | None:
    """Who uses a pod that works as a reservation; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(obj, keys.RESERVATION_CURRENT_OWNER, ObjectReference)
