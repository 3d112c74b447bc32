# SPDX-License-Identifier: Apache-2.0
"""Whether a pod fits a node together with one reservation there (spec section 3.5).

The node table says what a pod sees that matches none; the reservation considered adds what is left
of it. Other reservations that match stay occupied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.controllers.cluster.nodes import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.plugins.reservation.record import Record

_NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")
_NONE: Mapping[str, int] = {}


class Skipped:
    """Which resources are left to other plugins.

    Args:
        names: of extended resources.
        groups: prefixes of resource names, up to their slash.
    """

    def __init__(self, names: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._groups = frozenset(groups)

    def __bool__(self) -> bool:
        return bool(self._names or self._groups)

    def __contains__(self, resource: str) -> bool:
        if resource in _NATIVE:
            return False
        group, slash, _ = resource.partition("/")
        return resource in self._names or bool(slash and group in self._groups)


def node_lacks(
    table: NodeTable,
    row: int,
    request: Mapping[str, int],
    record: Record | None,
    skipped: Skipped | tuple[()] = (),
) -> list[str]:
    """The resources that a node has too little of.

    Args:
        table: the nodes.
        row: which.
        request: of the pod, by resource.
        record: the reservation whose remainder the pod may use; None for none.
        skipped: resources not to look at.
    """
    allocatable, requested = table.allocatable[:, row], table.requested[:, row]
    seat = 1 if record is not None and record.is_free else 0
    lacking = []
    if requested[PODS] - seat + 1 > allocatable[PODS]:
        lacking.append(requests.PODS)
    remaining = record.remaining() if record is not None else _NONE
    for name, amount in request.items():
        if amount <= 0 or name in skipped:
            continue
        index = table.resource(name)
        free = remaining.get(name, 0)
        if index < len(allocatable):  # else nobody has spoken of it so far
            free += allocatable[index] - requested[index]
        if amount > free:
            lacking.append(name)
    return lacking


def reservation_lacks(
    record: Record, request: Mapping[str, int], *, detailed: bool = False
) -> list[str]:
    """Reasons why a Restricted reservation has too little left; none for other policies.

    Args:
        record: the reservation.
        request: of the pod, by resource.
        detailed: tell the amounts: CPU in milli, all else in units.
    """
    reasons = []
    names = record.restricted
    if not names:
        return []
    seats = record.seats
    if seats is not None and len(record.owners) + 1 > seats:
        reasons.append(_reason("Too many pods", 1, len(record.owners), seats, detailed))
    for name in sorted(names):
        amount = request.get(name, 0)
        if amount <= 0:
            continue
        capacity = record.held[name] - record.withheld.get(name, 0)
        used = record.used[name]
        if amount > capacity - used:
            reasons.append(_reason(f"Insufficient {name}", amount, used, capacity, detailed))
    return reasons


def _reason(text: str, requested: int, used: int, capacity: int, detailed: bool) -> str:
    more = f", requested: {requested}, used: {used}, capacity: {capacity}" if detailed else ""
    return f"Reservation(s) {text}{more}"


def shares_resources(record: Record, request: Mapping[str, int]) -> bool:
    """Whether a reservation holds anything that a pod asks for."""
    return any(name in record.held for name in request)


def score(record: Record, request: Mapping[str, int]) -> int:
    """0..100: how full the reservation would be with the pod (MostAllocated, spec section 3.7)."""
    if not record.held:
        return 0
    total = 0
    for name, capacity in record.held.items():
        wanted = request.get(name, 0) + record.used[name]
        if wanted <= capacity:
            total += 100 * wanted // capacity
    return total // len(record.held)
