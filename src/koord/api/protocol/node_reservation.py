# SPDX-License-Identifier: Apache-2.0
"""``node.koordinator.sh/reservation``: what an operator holds back on a node for other software."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.meta import ResourceList
from koord.api.protocol import annotation, keys
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, CPU
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object

DEFAULT, RESERVED_CPUS_ONLY = "Default", "ReservedCPUsOnly"

_MILLI = 1000
_ZERO = Quantity()
# The manager has taken the reservation off these already.
_ALREADY_TRIMMED = (BATCH_CPU, BATCH_MEMORY)


class NodeReservation(WireStruct):
    """Amounts, or CPUs by number (a Linux list), and how they are held back."""

    resources: ResourceList = {}
    reserved_cpus: str = ""
    apply_policy: str = ""


def node_reservation(obj: Object) -> NodeReservation | None:
    """The reservation of a node or its topology object; None if absent or empty.

    Raises:
        KoordError: malformed, or an amount is negative; readers that return amounts take it for
            none and log it.
    """
    found = annotation.read(obj, keys.NODE_RESERVATION, NodeReservation, empty_is_absent=True)
    if found is not None:
        check_amounts(found, obj.title)
    return found


def check_amounts(reservation: NodeReservation, object_name: str) -> None:
    """Nobody holds back less than nothing.

    Raises:
        KoordError: an amount is negative.
    """
    for name, amount in reservation.resources.items():
        if amount < _ZERO:
            field = f"{annotation.field_of(keys.NODE_RESERVATION)}.resources[{name}]"
            raise KoordError(object_name, field, str(amount), "an amount of 0 or more")


def reserved_cpus(reservation: NodeReservation | None) -> tuple[str, int]:
    """The CPUs by number, or else how many whole CPUs: exactly one of the two says something."""
    if reservation is None:
        return "", 0
    if reservation.reserved_cpus:
        return reservation.reserved_cpus, 0
    milli = reservation.resources.get(CPU, _ZERO).milli(Rounding.UP)
    return "", max(0, -(-milli // _MILLI))


def reserved_resources(reservation: NodeReservation | None, object_name: str) -> ResourceList:
    """The amounts held back; CPUs by number count instead of an amount of cpu.

    Raises:
        KoordError: the CPUs are no Linux CPU list, or an amount is negative.
    """
    if reservation is None:
        return {}
    check_amounts(reservation, object_name)
    amounts = dict(reservation.resources)
    if reservation.reserved_cpus:
        try:
            cpus = CPUSet.parse_wire(reservation.reserved_cpus)
        except ValueError as error:
            field = f"{annotation.field_of(keys.NODE_RESERVATION)}.reservedCPUs"
            raise KoordError.wrap(object_name, field, error) from None
        amounts[CPU] = Quantity.from_value(len(cpus))
    return amounts


def trimmed_allocatable(
    allocatable: ResourceList, reservation: NodeReservation | None
) -> ResourceList:
    """What is allocatable to pods in the scheduler's view.

    Nothing changes under a policy other than ``Default``, or where the CPU list is malformed or an
    amount negative.
    """
    if reservation is None or reservation.apply_policy not in ("", DEFAULT):
        return allocatable
    try:
        reserved = reserved_resources(reservation, "node")
    except KoordError:
        return allocatable
    trimmed = dict(allocatable)
    for name, amount in reserved.items():
        if name in trimmed and name not in _ALREADY_TRIMMED:
            trimmed[name] = max(_ZERO, trimmed[name] - amount)
    return trimmed
