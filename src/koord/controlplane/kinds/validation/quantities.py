# SPDX-License-Identifier: Apache-2.0
"""Quantities inside documents: canonical text, order, whole numbers; cached, for texts repeat."""

from __future__ import annotations

from typing import Any

from koord.base.memory.text_cache import text_cache
from koord.controlplane.api_errors import bad_request
from koord.kernels.quantity import Quantity, Rounding

_PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
ZERO = Quantity()


@text_cache(16_384)
def parsed(text: str | int | float) -> Quantity:
    """The quantity that a text stands for.

    Raises:
        ApiError: 400, it is none.
    """
    try:
        return Quantity.parse(text)
    except ValueError:
        raise bad_request(f"quantities must match the regular expression '{_PATTERN}'") from None


@text_cache(16_384)
def canonical(text: str | int | float) -> str:
    """The text that Kubernetes writes for a quantity, e.g. ``1Gi`` for ``1024Mi``."""
    return str(parsed(text))


@text_cache(16_384)
def canonical_milli(text: str | int | float) -> str:
    """The same, rounded up to thousandths, as for every amount in a resource list."""
    quantity = parsed(text)
    try:
        milli = quantity.milli(Rounding.UP)
    except ValueError:  # beyond 64 bits there is nothing left to round
        return str(quantity)
    if Quantity.from_milli(milli) == quantity:
        return str(quantity)
    return str(Quantity.from_milli(milli, quantity.format))


@text_cache(16_384)
def is_whole(text: str) -> bool:
    """Whether a quantity has no fraction."""
    try:
        parsed(text).value(Rounding.EXACT)
    except ValueError:
        return "." not in canonical(text) and not canonical(text).endswith(("m", "u", "n"))
    return True


def normalise(resources: dict[str, Any]) -> None:
    """Writes the amounts of a resource list (name to quantity) in their canonical text."""
    for name, amount in resources.items():
        text = canonical_milli(amount)
        if text != amount:
            resources[name] = text
