# SPDX-License-Identifier: Apache-2.0
"""Whether a pod fits a node together with one reservation there.

Rule: docs/reference/reservations.md#what-is-free.

The node table says what a pod sees that matches none; the reservation considered adds what is left
of it. Other reservations that match stay occupied. The rule is :func:`shortages`, for one node or
reservation here, for many of them in :mod:`.columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from koord.api.requests import PODS
from koord.controllers.cluster.node_table import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )

UNLIMITED: Final = int(np.iinfo(np.int64).max)
"""What is left of something that is not limited."""

Left = TypeVar("Left", int, NDArray[np.int64])

_NATIVE = ("cpu", "memory", "ephemeral-storage", PODS)


class IgnoredResources:
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


def shortages(
    left: Callable[[str], Left],
    request: Mapping[str, int],
    skipped: IgnoredResources | tuple[()] = (),
) -> Iterator[tuple[str, bool | NDArray[np.bool_]]]:
    """By resource, whether there is too little for a pod: places for pods, then what it asks for.

    Args:
        left: what is left of a resource, and of ``pods``; of one place, or of many at once.
        request: of the pod, by resource.
        skipped: resources not to look at.
    """
    yield PODS, left(PODS) < 1
    for name, amount in request.items():
        if amount > 0 and name not in skipped:
            yield name, left(name) < amount


def node_shortfall(
    table: NodeTable,
    row: int,
    request: Mapping[str, int],
    record: ReservationInfo | None,
    skipped: IgnoredResources | tuple[()] = (),
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
    more = {**record.remaining(), PODS: int(record.is_free)} if record is not None else {}

    def left(name: str) -> int:
        index = table.resource(name)
        if index == ABSENT:  # whatever the reservation holds of it, the node has none
            return 0
        return more.get(name, 0) + int(allocatable[index]) - int(requested[index])

    return [name for name, short in shortages(left, request, skipped) if short]


def reservation_shortfall(
    record: ReservationInfo,
    request: Mapping[str, int],
    skipped: IgnoredResources | tuple[()] = (),
    *,
    detailed: bool = False,
) -> list[str]:
    """Reasons why a Restricted reservation has too little left; none for other policies.

    Args:
        record: the reservation.
        request: of the pod, by resource.
        skipped: resources not to look at.
        detailed: tell the amounts: CPU in milli, all else in units.
    """
    limits = record.limits()
    if not limits:
        return []
    found = shortages(lambda name: limits.get(name, UNLIMITED), request, skipped)
    lacking = sorted((name for name, short in found if short), key=lambda n: (n != PODS, n))
    asked, used = {**request, PODS: 1}, {**record.used, PODS: len(record.owners)}
    return [
        _reason(name, asked[name], used[name], used[name] + limits[name], detailed)
        for name in lacking
    ]


def _reason(name: str, requested: int, used: int, capacity: int, detailed: bool) -> str:
    text = "Too many pods" if name == PODS else f"Insufficient {name}"
    more = f", requested: {requested}, used: {used}, capacity: {capacity}" if detailed else ""
    return f"Reservation(s) {text}{more}"


def shares_resources(record: ReservationInfo, request: Mapping[str, int]) -> bool:
    """Whether a reservation holds anything that a pod asks for."""
    return any(name in record.held for name in request)


def score(record: ReservationInfo, request: Mapping[str, int]) -> int:
    """0..100: how full the reservation would be with the pod.

    Rule: docs/reference/reservations.md#nomination.

    Places of pods are held like any resource, of which no pod asks for any.
    """
    if not record.held:
        return 0
    total = 0
    for name, capacity in record.held.items():
        wanted = request.get(name, 0) + record.used[name]
        if wanted <= capacity:
            total += 100 * wanted // capacity
    return total // (len(record.held) + bool(record.seats))
