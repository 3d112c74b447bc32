# SPDX-License-Identifier: Apache-2.0
"""A Reservation's life: which phase it is in, and the status of each step.

Rule: docs/reference/reservations.md#life-of-a-reservation.

Statuses are made new; nothing that an informer holds is changed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from koord.api import requests
from koord.api.kinds.meta import ResourceList
from koord.api.kinds.pod import Pod, PodSpec
from koord.api.kinds.reservation import (
    AVAILABLE,
    EXPIRED,
    FAILED,
    READY,
    SCHEDULED,
    SUCCEEDED,
    UNSCHEDULABLE,
    WAITING,
    Reservation,
    ReservationCondition,
    ReservationStatus,
)
from koord.api.protocol import reservations as protocol
from koord.api.timestamps import seconds_text
from koord.base.errors import KoordError
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRUE, FALSE = "True", "False"


def is_active(reservation: Reservation) -> bool:
    """Whether it holds resources of a node."""
    status = reservation.status
    return bool(status.node_name) and status.phase in (AVAILABLE, WAITING)


def is_available(reservation: Reservation) -> bool:
    """Whether pods may use it."""
    return bool(reservation.status.node_name) and reservation.status.phase == AVAILABLE


def is_terminal(reservation: Reservation) -> bool:
    """Whether it has come to its end."""
    return reservation.status.phase in (SUCCEEDED, FAILED)


def is_expired(reservation: Reservation) -> bool:
    """Whether it came to its end because its time was up, or its node went."""
    ready = condition(reservation.status.conditions, READY)
    return (
        reservation.status.phase == FAILED
        and ready is not None
        and (ready.status, ready.reason) == (FALSE, EXPIRED)
    )


def condition(conditions: Sequence[ReservationCondition], kind: str) -> ReservationCondition | None:
    """The condition of a type."""
    return next((each for each in conditions if each.type == kind), None)


def check(reservation: Reservation) -> None:
    """Accepts a Reservation that can be scheduled.

    Raises:
        KoordError: no template, no owner, neither ttl nor expires, or a negative amount: the API
            server checks those of pods, but not of templates.
    """
    spec, title = reservation.spec, reservation.title
    if spec.template is None:
        raise KoordError(title, "spec.template", None, "the template spec")
    if not spec.owners:
        raise KoordError(title, "spec.owners", spec.owners, "at least one owner spec")
    if spec.ttl is None and spec.expires is None:
        raise KoordError(title, "spec.ttl", None, "an expiration spec: ttl or expires")
    _check_amounts(reservation, spec.template.spec)


def _check_amounts(reservation: Reservation, spec: PodSpec) -> None:
    found = {f"containers[{i}].resources.requests": c for i, c in enumerate(spec.containers)}
    found |= {
        f"initContainers[{i}].resources.requests": c for i, c in enumerate(spec.init_containers)
    }
    amounts = {where: container.resources.requests for where, container in found.items()}
    amounts["overhead"] = spec.overhead
    if spec.resources is not None:
        amounts["resources.requests"] = spec.resources.requests
    for where, listed in amounts.items():
        for name, quantity in listed.items():
            if quantity < Quantity.from_value(0):
                field = f"spec.template.spec.{where}[{name}]"
                raise KoordError(reservation.title, field, str(quantity), "an amount of 0 or more")


def due_seconds(reservation: Reservation) -> float | None:
    """When its time is up, in seconds since the Unix epoch; None for never.

    A ttl of 0 disables expiry, that by ``expires`` too.
    """
    spec = reservation.spec
    if spec.ttl is not None and not spec.ttl.seconds:
        return None
    ends = []
    if spec.expires is not None:
        ends.append(_seconds(spec.expires))
    created = reservation.metadata.creation_timestamp
    if spec.ttl is not None and created is not None:
        ends.append(_seconds(created) + spec.ttl.seconds)
    return min(ends, default=None)


def needs_expiry(reservation: Reservation, now_seconds: float) -> bool:
    """Whether its time is up."""
    due = due_seconds(reservation)
    return due is not None and now_seconds > due


def quantities(amounts: Mapping[str, int], like: Mapping[str, Quantity]) -> ResourceList:
    """Amounts (CPU in milli, all else in units) as they are written.

    Args:
        amounts: by resource.
        like: quantities whose format is kept; memory and hugepages are binary without one.
    """
    made: ResourceList = {}
    for name, amount in amounts.items():
        format_ = like[name].format if name in like else _format(name)
        made[name] = (
            Quantity.from_milli(amount, format_)
            if name == requests.CPU
            else Quantity.from_value(amount, format_)
        )
    return made


def template_requests(reservation: Reservation) -> ResourceList:
    """What the template asks for."""
    template = reservation.spec.template
    if template is None:
        return {}
    amounts = requests.requested(Pod(metadata=template.metadata, spec=template.spec))
    amounts.pop(requests.PODS, None)
    like: dict[str, Quantity] = {}
    for container in (*template.spec.containers, *template.spec.init_containers):
        for name, quantity in container.resources.requests.items():
            like.setdefault(name, quantity)
    return quantities(amounts, like)


def allocatable(reservation: Reservation) -> ResourceList:
    """What it will hold: the template's requests, as far as no annotation replaces them.

    Raises:
        KoordError: that annotation is malformed.
    """
    resized = protocol.resize_allocatable(reservation)
    return {**template_requests(reservation), **(resized.resources if resized else {})}


def bound(reservation: Reservation, node: str, now_seconds: float) -> ReservationStatus:
    """The status of a Reservation that was given a node.

    Raises:
        KoordError: it has failed meanwhile, or its annotations are malformed.
    """
    if reservation.status.phase == FAILED:
        raise KoordError(
            reservation.title,
            "status.phase",
            FAILED,
            "one that is active: reservation is not active",
        )
    return msgspec.structs.replace(
        reservation.status,
        phase=AVAILABLE,
        node_name=node,
        allocatable=allocatable(reservation),
        conditions=[
            _made(SCHEDULED, TRUE, SCHEDULED, "", now_seconds),
            _made(READY, TRUE, AVAILABLE, "", now_seconds),
        ],
    )


def refused(reservation: Reservation, message: str, now_seconds: float) -> ReservationStatus:
    """The status of a Reservation that fits nowhere now; one that is scheduled stays so."""
    known = condition(reservation.status.conditions, SCHEDULED)
    if known is None:
        fresh = _made(SCHEDULED, FALSE, UNSCHEDULABLE, message, now_seconds)
    elif known.status == TRUE:
        fresh = msgspec.structs.replace(known, last_probe_time=_time(now_seconds))
    else:
        fresh = msgspec.structs.replace(
            known, reason=UNSCHEDULABLE, message=message, last_probe_time=_time(now_seconds)
        )
    return _with(reservation.status, fresh)


def succeeded(status: ReservationStatus, now_seconds: float) -> ReservationStatus:
    """The status once the one pod it was for sits in it."""
    return _ended(msgspec.structs.replace(status, phase=SUCCEEDED), SUCCEEDED, now_seconds)


def expired(reservation: Reservation, now_seconds: float) -> ReservationStatus:
    """The status once its time is up."""
    status = msgspec.structs.replace(reservation.status, phase=FAILED)
    return _ended(status, EXPIRED, now_seconds, _never_valid(reservation))


def _never_valid(reservation: Reservation) -> str:
    """Why its time was up before it began; empty where it was not."""
    spec, title = reservation.spec, reservation.title
    if spec.ttl is not None and spec.ttl.nanoseconds < 0:
        return str(KoordError(title, "spec.ttl", str(spec.ttl), "a duration of 0 or more"))
    created = reservation.metadata.creation_timestamp
    if spec.expires is None or created is None or spec.expires > created:
        return ""
    expected = f"a time after {seconds_text(created)}, when it was created"
    return str(KoordError(title, "spec.expires", seconds_text(spec.expires), expected))


def _ended(
    status: ReservationStatus, reason: str, now_seconds: float, message: str = ""
) -> ReservationStatus:
    known = condition(status.conditions, READY)
    fresh = _made(READY, FALSE, reason, message, now_seconds)
    if known is not None and known.status == FALSE:
        fresh.last_transition_time = known.last_transition_time
    return _with(status, fresh)


def _with(status: ReservationStatus, fresh: ReservationCondition) -> ReservationStatus:
    kept = list(status.conditions)
    for place, known in enumerate(kept):
        if known.type == fresh.type:
            kept[place] = fresh
            break
    else:
        kept.append(fresh)
    return msgspec.structs.replace(status, conditions=kept)


def _made(
    kind: str, status: str, reason: str, message: str, now_seconds: float
) -> ReservationCondition:
    now = _time(now_seconds)
    return ReservationCondition(kind, status, reason, message, now, now)


def _time(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))


def _seconds(moment: datetime) -> float:
    return moment.timestamp()


def _format(name: str) -> Format:
    binary = name in (requests.MEMORY, "ephemeral-storage") or name.startswith("hugepages-")
    return Format.BINARY_SI if binary else Format.DECIMAL_SI
