# SPDX-License-Identifier: Apache-2.0
"""What scheduler and descheduler make of objects as they enter, before any cache has them.

Old resource names become the present ones, a node offers what its reservation
(``node.koordinator.sh/reservation``) leaves, and a pod is of the scheduler that its label names. So
nobody behind the caches has to know of any of these, and nothing is taken off twice. Manager and
agents read objects as they are.

Most objects need none of it and come through as they came. Parts of an object may be another's too
(:mod:`koord.kube.codec.interner`), so what changes is changed in a copy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from koord.api.kinds.device import Device, DeviceInfo
from koord.api.kinds.node import Node
from koord.api.kinds.pod import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import annotation, keys
from koord.api.protocol.node_reservation import (
    NodeReservation,
    reserved_resources,
    trimmed_allocatable,
)
from koord.api.protocol.resources import DEPRECATED_NAMES, with_current_names
from koord.api.protocol.scheduling import scheduler_name
from koord.api.transforms import BY_GATE
from koord.base import log
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import ResourceList
    from koord.base.feature_gates import FeatureGates

_LOG = log.get("cluster")
_OLD = frozenset(DEPRECATED_NAMES)
# Texts of reservations that are remembered, one a node.
_TEXTS = 16_384


def node(node: Node) -> Node:
    """A node that offers, under present names, what its reservation leaves.

    A reservation that cannot be read is none; it is warned of once.
    """
    status = node.status
    capacity, allocatable = _present(status.capacity), _present(status.allocatable)
    text = node.metadata.annotations.get(keys.NODE_RESERVATION)
    if text:
        allocatable = trimmed_allocatable(allocatable, _reservation(node.metadata.name, text))
    if allocatable is status.allocatable and capacity is status.capacity:
        return node
    return replace(node, status=replace(status, capacity=capacity, allocatable=allocatable))


class _PodTransform:
    """A pod that asks for resources by their present names, of the scheduler that its label names.

    The pods of a workload share what they ask for and come together: one look at whether it is what
    the last one asked for passes over most.
    """

    def __init__(self) -> None:
        self._containers: list[Container] = []
        self._init: list[Container] = []
        self._overhead: ResourceList = {}

    def __call__(self, pod: Pod) -> Pod:
        spec = pod.spec
        if keys.SCHEDULER_NAME in pod.metadata.labels:
            spec = replace(spec, scheduler_name=scheduler_name(pod))
            pod = replace(pod, spec=spec)
        containers, init, overhead = spec.containers, spec.init_containers, spec.overhead
        if containers is self._containers and init is self._init and overhead is self._overhead:
            return pod
        made = _spec(spec)
        if made is not spec:
            return replace(pod, spec=made, status=_status(pod.status))
        self._containers, self._init, self._overhead = containers, init, overhead
        return pod


pod = _PodTransform()


def reservation(reservation: Reservation) -> Reservation:
    """A Reservation that asks for and holds resources by their present names."""
    spec, status = reservation.spec, reservation.status
    template, allocatable = spec.template, _present(status.allocatable)
    if template is not None:
        of_pod = _spec(template.spec)
        if of_pod is not template.spec:
            spec = replace(spec, template=replace(template, spec=of_pod))
    if allocatable is not status.allocatable:
        status = replace(status, allocatable=allocatable)
    if spec is reservation.spec and status is reservation.status:
        return reservation
    return replace(reservation, spec=spec, status=status)


def device(device: Device) -> Device:
    """Cards that offer resources by their present names."""
    cards = device.spec.devices
    if all(_OLD.isdisjoint(card.resources) for card in cards):
        return device
    return replace(device, spec=replace(device.spec, devices=[_card(card) for card in cards]))


def transforms(gates: FeatureGates) -> dict[type, Callable[[Any], Any]]:
    """By kind, what objects pass through; pods through what feature gates add, too."""
    added = [change for gate, change in BY_GATE.items() if gates.enabled(gate)]
    if not added:
        return TRANSFORMS

    def changed(value: Pod) -> Pod:
        value = pod(value)
        for change in added:
            value = change(value)
        return value

    return {**TRANSFORMS, Pod: changed}


TRANSFORMS: Final[dict[type, Callable[[Any], Any]]] = {
    Node: node,
    Pod: pod,
    Reservation: reservation,
    Device: device,
}
"""By kind. Each gives back the very object it got where there is nothing to change."""


@lru_cache(_TEXTS)
def _reservation(name: str, text: str) -> NodeReservation | None:
    """What is held back on a node; None where that cannot be read."""
    title = f"Node {name}"
    try:
        field = annotation.field_of(keys.NODE_RESERVATION)
        found = annotation.parse(text, NodeReservation, title, field)
        reserved_resources(found, title)
    except KoordError as error:
        _LOG.warning("a node reservation is ignored", extra=log.fields(error=str(error)))
        return None
    return replace(found, resources=_present(found.resources))


def _spec(spec: PodSpec) -> PodSpec:
    containers, init = _containers(spec.containers), _containers(spec.init_containers)
    overhead = _present(spec.overhead)
    if containers is spec.containers and init is spec.init_containers and overhead is spec.overhead:
        return spec
    return replace(spec, containers=containers, init_containers=init, overhead=overhead)


def _status(status: PodStatus) -> PodStatus:
    """With the states of containers, which repeat what the spec asks for and must agree with it."""
    return replace(
        status,
        container_statuses=[_state(each) for each in status.container_statuses],
        init_container_statuses=[_state(each) for each in status.init_container_statuses],
    )


def _containers(containers: list[Container]) -> list[Container]:
    for each in containers:
        resources = each.resources
        if not (_OLD.isdisjoint(resources.requests) and _OLD.isdisjoint(resources.limits)):
            return [replace(each, resources=_requirements(each.resources)) for each in containers]
    return containers


def _state(state: ContainerStatus) -> ContainerStatus:
    return replace(
        state,
        allocated_resources=_present(state.allocated_resources),
        resources=state.resources and _requirements(state.resources),
    )


def _requirements(resources: ResourceRequirements) -> ResourceRequirements:
    return replace(
        resources, requests=_present(resources.requests), limits=_present(resources.limits)
    )


def _card(card: DeviceInfo) -> DeviceInfo:
    return replace(card, resources=_present(card.resources))


def _present(amounts: ResourceList) -> ResourceList:
    return amounts if _OLD.isdisjoint(amounts) else with_current_names(amounts)
