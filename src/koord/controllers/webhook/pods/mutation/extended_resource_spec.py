# SPDX-License-Identifier: Apache-2.0
"""The annotation that tells the node which extended resources containers ask for.

Rule: docs/reference/admission.md#extended-resource-spec. A second time changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import annotation, keys, resources
from koord.api.protocol.agent import ExtendedContainer, ExtendedResourceSpec
from koord.controllers.webhook.pods.documents import all_containers, child, present
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.meta import ResourceList
    from koord.base.documents import Document

_EXTENDED = (resources.BATCH_CPU, resources.BATCH_MEMORY, resources.MID_CPU, resources.MID_MEMORY)


def write_spec(pod: Document, title: str) -> Iterator[str]:
    """Writes the annotation where it says something else; yields a line if so.

    Args:
        pod: changed in place.
        title: of the pod, for errors.

    Raises:
        KoordError: the annotation that is there cannot be read.
    """
    found = dict(_containers(pod))
    wanted = ExtendedResourceSpec(containers={name: found[name] for name in sorted(found)})
    if _current_spec(pod, title) == wanted:
        return
    text = annotation.text(wanted)
    child(child(pod, "metadata"), "annotations")[keys.EXTENDED_RESOURCE_SPEC] = text
    yield f"annotations[{keys.EXTENDED_RESOURCE_SPEC}] = {text}"


def _current_spec(pod: Document, title: str) -> ExtendedResourceSpec:
    key = keys.EXTENDED_RESOURCE_SPEC
    text = present(present(pod, "metadata"), "annotations").get(key)
    if text is None:
        return ExtendedResourceSpec()
    return annotation.parse(text, ExtendedResourceSpec, title, annotation.field_of(key))


def _containers(pod: Document) -> Iterator[tuple[str, ExtendedContainer]]:
    for container in all_containers(pod):
        given = present(container.document, "resources")
        requests, limits = (
            _extended_amounts(present(given, "requests")),
            _extended_amounts(present(given, "limits")),
        )
        if requests or limits:
            yield container.name, ExtendedContainer(limits=limits, requests=requests)


def _extended_amounts(amounts: Document) -> ResourceList:
    return {
        name: Quantity.from_wire(amounts[name])
        for name in _EXTENDED
        if amounts.get(name) is not None
    }
