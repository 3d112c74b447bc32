# SPDX-License-Identifier: Apache-2.0
"""The published tables' bins, row by row in plain Python."""

from __future__ import annotations

from fractions import Fraction


def table(arrived: list[int], values: list[Fraction], gpus: int) -> dict[int, Fraction | None]:
    """Mean value of the rows of each bin, or of those one bin around where it is empty."""
    bins = [round(Fraction(milli * 100, gpus * 1000)) for milli in arrived]
    cells: dict[int, Fraction | None] = {}
    for cell in range(131):
        inside = [value for at, value in zip(bins, values, strict=True) if at == cell]
        if not inside:
            inside = [v for at, v in zip(bins, values, strict=True) if abs(at - cell) <= 1]
        cells[cell] = sum(inside, Fraction(0)) / len(inside) if inside else None
    return cells


def tuned(requests: list[tuple[int, int]], target: float, draws: list[int]) -> list[int]:
    """Indices appended to ``requests`` (milli per GPU, GPUs) when the draws come in this order."""
    requested = sum(milli * gpus for milli, gpus in requests)
    appended: list[int] = []
    for index in draws:
        milli, gpus = requests[index]
        if requested + milli > target:
            return appended
        requested += milli * gpus
        appended.append(index)
    return appended
