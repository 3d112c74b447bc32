# SPDX-License-Identifier: Apache-2.0
"""The pod that stands for a Reservation inside the scheduler.

Rule: docs/reference/reservations.md#reserve-pods.

It goes through queue, filters and reserve like any pod; its name and uid are the Reservation's uid,
by which it is told from pods of users, whose annotations may say anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koord.api import requests
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResourceRequirements,
)
from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.api.protocol.numbers import parse_int
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle

if TYPE_CHECKING:
    from koord.api.kinds.reservation import Reservation

MOST_PRIORITY = 2**31 - 1
_DEFAULT_SCHEDULER = "default-scheduler"
_CONTAINER = "__internal_fake_container__"


def stands_for_reservation(pod: Pod) -> bool:
    """Whether a pod is one that :func:`reserve_pod` made."""
    meta = pod.metadata
    return meta.name == meta.uid and bool(meta.uid) and protocol.is_reserve_pod(pod)


def in_operating_mode(pod: Pod) -> bool:
    """Whether a pod works as a reservation, or will once it runs."""
    return pod.metadata.labels.get(keys.OPERATING_MODE) == protocol.RESERVATION


def reserve_pod(reservation: Reservation) -> Pod:
    """The pod that stands for a Reservation.

    Raises:
        KoordError: its priority label is no 32-bit integer, or its template is missing.
    """
    template = reservation.spec.template
    if template is None:
        raise KoordError(reservation.title, "spec.template", None, "the template spec")
    pod = Pod(
        metadata=_metadata(reservation, template),
        spec=_spec(reservation, template.spec),
        status=PodStatus(phase=_phase(reservation)),
    )
    if lifecycle.is_available(reservation):
        _resize(reservation, pod)
    return pod


def _metadata(reservation: Reservation, template: PodTemplateSpec) -> ObjectMeta:
    meta, own = template.metadata, reservation.metadata
    annotations = {**meta.annotations, **own.annotations}
    annotations[keys.RESERVE_POD] = "true"
    annotations[keys.RESERVATION_NAME] = own.name
    if reservation.spec.pre_allocation:
        annotations[keys.IS_PRE_ALLOCATION] = "true"
    if template.spec.node_name:
        annotations[keys.RESERVATION_NODE] = template.spec.node_name
    return msgspec.structs.replace(
        meta,
        name=own.uid,
        uid=own.uid,
        namespace=meta.namespace or "default",
        labels={**meta.labels, **own.labels},
        annotations=annotations,
        resource_version=own.resource_version,
        generation=own.generation,
        creation_timestamp=own.creation_timestamp,
        deletion_timestamp=own.deletion_timestamp,
    )


def _spec(reservation: Reservation, spec: PodSpec) -> PodSpec:
    return msgspec.structs.replace(
        spec,
        node_name=reservation.status.node_name,
        priority=_priority(reservation, spec),
        scheduler_name=spec.scheduler_name or _DEFAULT_SCHEDULER,
    )


def _phase(reservation: Reservation) -> str:
    return reservation.status.phase if lifecycle.is_terminal(reservation) else ""


def _priority(reservation: Reservation, spec: PodSpec) -> int:
    if spec.priority is not None:
        return spec.priority
    text = reservation.metadata.labels.get(keys.PRIORITY)
    if not text:
        return MOST_PRIORITY
    where = f"labels[{keys.PRIORITY}]"
    value = parse_int(text, reservation.title, where)
    if not -(2**31) <= value <= MOST_PRIORITY:
        raise KoordError(reservation.title, where, text, "a 32-bit integer")
    return value


def _resize(reservation: Reservation, pod: Pod) -> None:
    """Has the pod ask for what the Reservation holds, where the template says otherwise."""
    asked = requests.requested(pod)
    asked.pop(requests.PODS, None)
    held = {
        name: requests.amount(name, quantity)
        for name, quantity in reservation.status.allocatable.items()
    }
    total = {name: amount for name, amount in {**asked, **held}.items() if amount > 0}
    if total == asked:
        return
    spec = pod.spec
    amounts = lifecycle.quantities(total, reservation.status.allocatable)
    fake = Container(
        name=_CONTAINER, resources=ResourceRequirements(requests=amounts, limits=dict(amounts))
    )
    pod.spec = msgspec.structs.replace(
        spec,
        containers=[*map(_emptied, spec.containers), fake],
        init_containers=[_emptied(each) for each in spec.init_containers],
        overhead={},
        resources=None,
    )


def _emptied(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=ResourceRequirements())
