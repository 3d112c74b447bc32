# SPDX-License-Identifier: Apache-2.0
"""Reservations as the scheduler reads them, and the node that they are pinned to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import objects
from koord.api.kinds.node import Node
from koord.api.kinds.registry import kind_of_type
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.base.errors import KoordError
from koord.check import api_validation
from koord.check.problem import Finding
from koord.check.registry import checker
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle, owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.check.object_index import ObjectIndex
    from koord.check.subject import Subject

_NODE = kind_of_type(Node)
_HOSTNAME = "kubernetes.io/hostname"
_READERS: tuple[Callable[[Reservation], object], ...] = (
    lifecycle.check,
    lambda each: owners.check(each.spec.owners, each.title, "spec.owners"),
    protocol.reservation_order,
    protocol.restricted_options,
    protocol.resize_allocatable,
    protocol.withheld,
)


@checker("Reservation", "scheduling.koordinator.sh")
def reservation(subject: Subject, world: ObjectIndex) -> Iterator[Finding]:
    """A Reservation with the server's defaults."""
    if not isinstance(subject.typed, Reservation):
        return
    found = objects.decode(api_validation.defaulted(subject.document), subject.title)
    assert isinstance(found, Reservation)
    for reader in _READERS:
        try:
            reader(found)
        except KoordError as error:
            yield Finding.of(error)
    if found.spec.ttl is not None and found.spec.ttl.nanoseconds < 0:
        yield Finding("spec.ttl", str(found.spec.ttl), "a duration of 0 or more")
    yield from _reach(found)
    template = found.spec.template
    if template is None:
        return
    spec = template.spec
    if not spec.containers:
        path, expected = "spec.template.spec.containers", "at least one, whose requests it reserves"
        yield Finding.warning(path, None, expected)
    if spec.node_name:
        yield from world.reference(_NODE, "spec.template.spec.nodeName", spec.node_name)
    elif host := spec.node_selector.get(_HOSTNAME):
        path = f"spec.template.spec.nodeSelector[{_HOSTNAME}]"
        yield from world.reference(_NODE, path, host)


def _reach(item: Reservation) -> Iterator[Finding]:
    """Owners that are pods of all namespaces."""
    if item.metadata.annotations.get(keys.OWNER_NAMESPACE):
        return
    for index, entry in enumerate(item.spec.owners):
        if not owners.namespaces_of(entry):
            expected = (
                "a namespace: pods of all namespaces may use it; with "
                f"--reservation-scope=namespace those of its annotation {keys.OWNER_NAMESPACE}"
            )
            yield Finding.warning(f"spec.owners[{index}]", None, expected)
