# SPDX-License-Identifier: Apache-2.0
"""Shares of GPUs in the form that the scheduler and devices go by.

Rule: docs/reference/admission.md#device-resource-spec. A second time changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import resources
from koord.base.errors import KoordError
from koord.controllers.webhook.pods.documents import app_containers, child, present
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.documents import Document

_WHOLE_GPU = 100
_MENTIONED = (
    resources.GPU, resources.GPU_CORE, resources.GPU_MEMORY, resources.GPU_MEMORY_RATIO,
    resources.GPU_SHARED,
)  # fmt: skip


def complete(pod: Document, title: str) -> Iterator[str]:
    """Completes what app containers ask for of GPUs; yields a line for each change.

    Args:
        pod: changed in place.
        title: of the pod, for errors.

    Raises:
        KoordError: an amount beyond 64 bits.
    """
    for container in app_containers(pod):
        given = present(container.document, "resources")
        if not given:
            continue
        parts = (present(given, "requests"), present(given, "limits"))
        if not any(part.get(name) is not None for part in parts for name in _MENTIONED):
            continue
        path = f"{container.path}.resources"
        given = child(container.document, "resources")
        amount = parts[0].get(resources.GPU)
        if amount is not None:
            share = _value(amount, title, f"{path}.requests[{resources.GPU}]")
            for name in (resources.GPU_CORE, resources.GPU_MEMORY_RATIO):
                yield from _set(given, name, share, path)
            for part in ("requests", "limits"):
                present(given, part).pop(resources.GPU, None)
        if present(given, "requests").get(resources.GPU_SHARED) is None:
            cards = _cards(present(given, "requests"), title, path)
            yield from _set(given, resources.GPU_SHARED, cards, path)


def _set(given: Document, name: str, amount: int, path: str) -> Iterator[str]:
    for part in ("requests", "limits"):
        child(given, part)[name] = str(amount)
    yield f"{path}.requests and limits[{name}] = {amount}"


def _cards(requests: Document, title: str, path: str) -> int:
    """How many cards a request spans that does not say so."""
    for name in (resources.GPU_MEMORY_RATIO, resources.GPU_CORE):
        given = requests.get(name)
        if given is not None:
            share = _value(given, title, f"{path}.requests[{name}]")
            whole = share > _WHOLE_GPU and share % _WHOLE_GPU == 0
            return share // _WHOLE_GPU if whole else 1
    return 1


def _value(amount: object, title: str, field: str) -> int:
    try:
        return Quantity.from_wire(amount).value()
    except ValueError:
        raise KoordError(title, field, amount, "an amount within 64 bits") from None
