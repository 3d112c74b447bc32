# SPDX-License-Identifier: Apache-2.0
"""What is measured of Reservations under the original's names, and what the debug endpoint says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec, requests
from koord.api.kinds.reservation import AVAILABLE, FAILED, PENDING, SUCCEEDED
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koord.api.kinds.reservation import Reservation
    from koord.base.metrics import MetricRegistry
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )

PHASES = (PENDING, AVAILABLE, SUCCEEDED, FAILED)
_GIB = 1024**3


def phase_figures(reservation: Reservation) -> Iterator[tuple[str, float]]:
    """Each phase with 1 if the Reservation is in it, else 0."""
    now = reservation.status.phase or PENDING
    for phase in PHASES:
        yield phase, float(phase == now)


def resource_figures(reservation: Reservation) -> Iterator[tuple[str, str, str, float]]:
    """Type, resource, unit and value of what is held, what is used, and their ratio."""
    status = reservation.status
    for name, quantity in status.allocatable.items():
        unit, divisor = _unit(name)
        held = requests.amount(name, quantity) / divisor
        used_quantity = status.allocated.get(name)
        used = requests.amount(name, used_quantity) / divisor if used_quantity is not None else 0.0
        yield "allocatable", name, unit, held
        yield "allocated", name, unit, used
        if held > 0:
            yield "utilization", name, "ratio", used / held


def _unit(name: str) -> tuple[str, int]:
    if name == requests.CPU:
        return "core", 1000
    return ("Gi", _GIB) if name == requests.MEMORY else ("raw", 1)


class ReservationMetrics:
    """Gauges of what reservations hold and how much of it is in use.

    Args:
        into: the component's registry.
    """

    def __init__(self, into: MetricRegistry) -> None:
        self._phases = into.gauge(
            "scheduler_reservation_status_phase", "1 for a Reservation's phase.", ("name", "phase")
        )
        self._resources = into.gauge(
            "scheduler_reservation_resource",
            "What Reservations hold and what of it is used.",
            ("type", "name", "resource", "unit"),
        )

    def record(self, reservations: Iterable[Reservation]) -> None:
        """Sets all gauges anew."""
        self._phases.clear()
        self._resources.clear()
        for reservation in reservations:
            name = reservation.metadata.name
            for phase, value in phase_figures(reservation):
                self._phases.labels(name, phase).set(value)
            for kind, resource, unit, value in resource_figures(reservation):
                self._resources.labels(kind, name, resource, unit).set(value)


def node_reservations(book: ReservationIndex, node: str) -> dict[str, Any]:
    """The answer of ``/apis/v1/plugins/Reservation/nodeReservations/NODE``.

    Available reservations of a node, the oldest first; none for a node that is not known.
    """
    row = book.table.row(node)
    records = book.ledger.by_row.get(row, {}).values() if row is not None else ()
    usable = sorted((each for each in records if each.available), key=lambda each: each.age)
    return {"items": [_item(record) for record in usable]}


def _item(record: ReservationInfo) -> dict[str, Any]:
    value = record.object
    item: dict[str, Any] = {
        "name": record.name,
        "namespace": value.metadata.namespace if value is not None else "",
        "uid": record.uid,
        "kind": "Pod" if record.is_pod else "Reservation",
        "available": record.available,
        "allocateOnce": record.allocate_once,
        "allocatable": _written(record.held),
        "reserved": _written(record.withheld),
        "allocated": _written({name: used for name, used in record.used.items() if used}),
        "owners": [codec.parse_json(codec.to_json(each), "owners") for each in record.entries],
        "allocatePolicy": record.policy,
        "assignedPods": [
            {
                "namespace": owner.pod.metadata.namespace,
                "name": owner.pod.metadata.name,
                "uid": uid,
                "requests": _written(owner.shape.request),
            }
            for uid, owner in sorted(record.owners.items())
        ],
        "error": record.error,
    }
    return {key: entry for key, entry in item.items() if entry not in ("", [], {}, False)}


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in lifecycle.quantities(amounts, {}).items()}
