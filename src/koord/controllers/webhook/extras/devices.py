# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a Device before it is stored.

Rule: docs/reference/admission.md#devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY_RATIO
from koord.base.errors import Code, KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.device import Device

_PERCENTAGES = (GPU_CORE, GPU_MEMORY_RATIO)
_NOTHING, _WHOLE = Quantity(), Quantity.from_value(100)


def spec_problems(device: Device) -> Iterator[KoordError]:
    """Numbers that two cards of a type share, and shares of a card that are none."""
    seen: dict[tuple[str, int], int] = {}
    for index, card in enumerate(device.spec.devices):
        where = f"spec.devices[{index}]"
        if card.minor is not None:
            first = seen.setdefault((card.type, card.minor), index)
            if first != index:
                expected = f"a number of its own; {card.type} {first} of the list has it"
                yield KoordError(device.title, f"{where}.minor", card.minor, expected)
        for name in _PERCENTAGES:
            amount = card.resources.get(name)
            if amount is not None and not _NOTHING <= amount <= _WHOLE:
                field = f"{where}.resources[{name}]"
                yield KoordError(device.title, field, str(amount), "a percentage from 0 to 100")


def name_problems(device: Device, *, has_node: bool) -> Iterator[KoordError]:
    """A device is named as its node is."""
    if not has_node:
        name, expected = device.metadata.name, "the name of a node that exists"
        yield KoordError(device.title, "metadata.name", name, expected, Code.NOT_FOUND)
