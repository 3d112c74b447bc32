# SPDX-License-Identifier: Apache-2.0
"""Native resources of pods of a class become that class's own.

Rule: docs/reference/admission.md#resource-translation. A second time changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import resources
from koord.api.protocol.priority import PriorityClass
from koord.base.errors import KoordError
from koord.controllers.webhook.pods.documents import all_containers, child, present
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document

_NATIVE = (resources.CPU, resources.MEMORY)


def translate(pod: Document, priority_class: PriorityClass, title: str) -> Iterator[str]:
    """Translates requests, limits and overhead; yields a line for each amount.

    Args:
        pod: changed in place.
        priority_class: of the pod.
        title: of the pod, for errors.

    Raises:
        KoordError: an amount of CPU that does not count in thousandths within 64 bits.
    """
    names = {name: resources.translated(priority_class, name) for name in _NATIVE}
    names = {name: extended for name, extended in names.items() if extended not in ("", name)}
    if not names:
        return
    for container in all_containers(pod):
        given = present(container.document, "resources")
        for part in ("requests", "limits"):
            path = f"{container.path}.resources.{part}"
            yield from _renamed(present(given, part), names, title, path)
        yield from _completed(given, names, f"{container.path}.resources")
    overhead = present(present(pod, "spec"), "overhead")
    yield from _renamed(overhead, names, title, "spec.overhead")


def _renamed(amounts: Document, names: dict[str, str], title: str, path: str) -> Iterator[str]:
    for name, extended in names.items():
        if amounts.get(name) is None:
            continue
        amount = amounts.pop(name)
        amounts[extended] = _milli(amount, title, path) if name == resources.CPU else amount
        yield f"{path}[{name}] = {amount} becomes [{extended}] = {amounts[extended]}"


def _completed(given: Document, names: dict[str, str], path: str) -> Iterator[str]:
    """A limit without a request is the request too."""
    limits = present(given, "limits")
    for extended in names.values():
        limit = limits.get(extended)
        if limit is not None and present(given, "requests").get(extended) is None:
            child(given, "requests")[extended] = limit
            yield f"{path}.requests[{extended}] = {limit}, its limit"


def _milli(amount: object, title: str, path: str) -> str:
    try:
        return str(resources.integer_milli(Quantity.from_wire(amount)))
    except ValueError:
        expected = "an amount of CPU that counts in thousandths within 64 bits"
        raise KoordError(title, f"{path}[{resources.CPU}]", amount, expected) from None
