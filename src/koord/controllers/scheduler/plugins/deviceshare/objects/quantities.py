# SPDX-License-Identifier: Apache-2.0
"""Amounts of devices: exact quantities on the wire, integers inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import annotation
from koord.api.protocol import resources as res
from koord.controllers.scheduler.plugins.deviceshare.names import MEMORY, RATIO, RESOURCES
from koord.kernels.devices import complete_memory
from koord.kernels.quantity import Format, Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.meta import ResourceList

_MOST = 1 << 50


def amount_of(quantity: Quantity) -> int:
    """The integer value, rounded up as Kubernetes does. ValueError unless it is 0 to 2^50."""
    value = quantity.value(Rounding.UP)
    if not 0 <= value <= _MOST:
        raise ValueError(f"got {quantity}, expected an amount from 0 to 2^50")
    return value


def amounts_from(device_type: str, resources: ResourceList) -> list[int]:
    """Amounts in the order of a type's resources; names that no card of the type has are left out.

    Raises:
        ValueError: an amount out of range.
    """
    return [
        amount_of(resources[name]) if name in resources else 0 for name in RESOURCES[device_type]
    ]


def resource_list(device_type: str, amounts: Sequence[int]) -> ResourceList:
    """The opposite of :func:`amounts_from`, zeros left out; bytes with binary suffixes."""
    return _wire_list(dict(zip(RESOURCES[device_type], amounts, strict=True)))


def _wire_list(amounts: Mapping[str, int]) -> ResourceList:
    """Amounts by resource as quantities, zeros left out; bytes with binary suffixes."""
    return {name: _quantity(name, amount) for name, amount in amounts.items() if amount}


def amount_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts by resource as texts, zeros too; bytes with binary suffixes."""
    return {name: str(_quantity(name, amount)) for name, amount in amounts.items()}


def _quantity(name: str, amount: int) -> Quantity:
    in_bytes = name == res.GPU_MEMORY
    return Quantity.from_value(amount, Format.BINARY_SI if in_bytes else Format.DECIMAL_SI)


def resources_text(amounts: Mapping[str, int]) -> str:
    """``{"resources":{...}}``, as ``reservation-resize-allocatable`` has it."""
    return annotation.text({"resources": _wire_list(amounts)})


def completed(per_card: Sequence[int], card_bytes: int) -> list[int]:
    """GPU amounts with memory both in bytes and in percent of the card that was chosen.

    Rule: docs/reference/devices.md#requests. A card that reports no memory in bytes keeps the
    percentage alone.
    """
    full = list(per_card)
    if full[MEMORY] and full[RATIO]:
        return full
    if not card_bytes:
        return full
    full[MEMORY], full[RATIO] = complete_memory(
        card_bytes, size_bytes=full[MEMORY], percent=full[RATIO]
    )
    return full
