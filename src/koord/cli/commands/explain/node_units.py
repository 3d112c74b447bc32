# SPDX-License-Identifier: Apache-2.0
"""Amounts as a screen shows them, so that what stands in a sum adds up there too.

Memory is shown in hundredths of a GiB. Were each term rounded by itself, a sum of seven could be
off by a few hundredths; so what is shown of a term is how far it moves the rounded sum so far. No
term is off by more than a step, and totals are rounded by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Unit(NamedTuple):
    """What amounts of a resource are shown in.

    Args:
        name: of the unit.
        size: how much one of it is.
        steps: how many steps of it are told apart.
        fixed: whether every decimal is shown, also where it is 0.
    """

    name: str
    size: int
    steps: int
    fixed: bool

    def rounded(self, amount: int) -> int:
        """An amount in steps, half a step up."""
        return (2 * amount * self.steps + self.size) // (2 * self.size)

    def terms(self, amounts: Iterable[int], before: int = 0) -> list[int]:
        """Terms in steps; together they are what all of them, rounded, are more than ``before``."""
        found, total = [], before
        for amount in amounts:
            found.append(self.rounded(total + amount) - self.rounded(total))
            total += amount
        return found

    def text(self, steps: int) -> str:
        """Steps as a number of the unit."""
        decimals = len(str(self.steps)) - 1
        text = f"{steps / self.steps:.{decimals}f}"
        return text if self.fixed else text.rstrip("0").rstrip(".")

    def show(self, amount: int) -> str:
        """An amount that stands in no sum."""
        return self.text(self.rounded(amount))


CORES = Unit("cores", 1000, 1000, fixed=False)
"""Of milli-cores: shown exactly."""

GIB = Unit("GiB", 2**30, 100, fixed=True)
"""Of bytes."""

ZONE_GIB = GIB._replace(size=1000 * GIB.size)
"""Of thousandths of a byte, in which zones are told."""
