# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from array import array
from decimal import ROUND_UP, Decimal

from benchmarks.conftest import Gate
from koord.kernels.quantity import Quantity, parse_column

TEXTS = ["500m", "2", "1.5Gi", "16Gi", "100k", "1e3", "250m", "64Mi"] * 250
_UNITS = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(10) ** (3 * i + 3) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Decimal(1024) ** (i + 1) for i, suffix in enumerate("KMGTPE")},
}


def plain_milli(text: str) -> int:
    """What a Python program does without us: the suffix from a table, the number as a Decimal."""
    number = text.rstrip("numkMGTPEi")
    value = Decimal(number) * _UNITS.get(text[len(number) :], Decimal(1))
    return int((value * 1000).to_integral_value(ROUND_UP))


def test_column(gate: Gate) -> None:
    out = array("q", bytes(8 * len(TEXTS)))
    reference = array("q", bytes(8 * len(TEXTS)))

    def plain() -> None:
        for row, text in enumerate(TEXTS):
            reference[row] = plain_milli(text)

    gate("quantity: column of 2,000", lambda: parse_column(TEXTS, out), plain, 4.5)
    plain()
    assert out == reference


def test_one(gate: Gate) -> None:
    gate("quantity: parse one", lambda: Quantity.parse("1.5Gi"), lambda: plain_milli("1.5Gi"), 2.0)
