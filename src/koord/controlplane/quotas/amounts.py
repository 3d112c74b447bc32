# SPDX-License-Identifier: Apache-2.0
"""Amounts by resource name, as ResourceQuotas count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_UP, Context, Decimal
from typing import Any

from koord.base.memory.text_cache import text_cache
from koord.kernels.quantity import Format, Quantity

QuotaAmounts = dict[str, Quantity]
ZERO, ONE = Quantity(), Quantity.parse(1)
# What has more digits than a quantity can have is used up rather than refused as a failure.
_ROUGH = Context(prec=30, rounding=ROUND_UP)


@text_cache(16_384)
def parsed(text: str | int | float) -> Quantity:
    """The quantity of a text that a server has accepted."""
    return Quantity.parse(text)


def section(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The mapping at a path; an empty one where there is none."""
    for name in names:
        document = document.get(name) or {}
    return document


def amounts_of(texts: Mapping[str, Any] | None) -> QuotaAmounts:
    """A resource list of a document."""
    return {name: parsed(text) for name, text in (texts or {}).items()}


def texts_of(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """The resource list that a document holds, in order of the names."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def added(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> QuotaAmounts:
    """The sums, over the names of both."""
    result = dict(left)
    for name, amount in right.items():
        known = result.get(name)
        # The form of the first amount that is not nothing stays, e.g. 1Gi + 512Mi = 1536Mi.
        result[name] = _sum(known, amount) if known else amount
    return result


def growth(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> QuotaAmounts:
    """By how much amounts have grown; nothing for those that have not."""
    return {
        name: _sum(new[name], -old.get(name, ZERO))
        for name in new
        if new[name] > old.get(name, ZERO)
    }


def largest(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> QuotaAmounts:
    """The larger amount of each name."""
    result = dict(left)
    for name, amount in right.items():
        if name not in result or amount > result[name]:
            result[name] = amount
    return result


def only(amounts: Mapping[str, Quantity], names: Iterable[str]) -> QuotaAmounts:
    """The amounts of some names."""
    return {name: amounts[name] for name in names if name in amounts}


def words(amounts: Mapping[str, Quantity]) -> str:
    """``cpu=1,memory=1Gi``, in order of the names."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def _sum(left: Quantity, right: Quantity) -> Quantity:
    """The exact sum; rounded up where a quantity has not digits enough for it."""
    try:
        return left + right
    except ValueError:
        rough = _ROUGH.add(_decimal(left), _decimal(right))
        return Quantity.parse(f"{rough:e}").with_format(left.format)


def _decimal(amount: Quantity) -> Decimal:
    return Decimal(str(amount.with_format(Format.DECIMAL_EXPONENT)))
