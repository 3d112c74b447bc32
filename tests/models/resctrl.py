# SPDX-License-Identifier: Apache-2.0
"""resctrl's rules, way by way and percent by percent."""

from __future__ import annotations

from fractions import Fraction
from math import ceil


def cache_mask(cbm_mask: int, start: int, end: int, min_bits: int = 1) -> int | None:
    """The mask, or None for what is refused."""
    ways = cbm_mask.bit_length()
    if cbm_mask != 2**ways - 1 or ways == 0 or not 0 <= start < end <= 100 or min_bits > ways:
        return None
    first = ceil(Fraction(ways * start, 100))
    chosen = set(range(first, ceil(Fraction(ways * end, 100))))
    # Too few: add the next way above, and below once there is none above.
    while len(chosen) < min_bits:
        above = max(chosen, default=first - 1) + 1
        chosen.add(above if above < ways else min(chosen, default=ways) - 1)
    return sum(2**way for way in chosen)


def bandwidth(vendor: str, percent: int, step: int, least: int, full_scale: int = 160) -> int:
    """The MB value of 1 to 100 percent."""
    if vendor == "amd":
        if percent == 100:
            return 2048
        value = int(Fraction(full_scale * percent, 100))
        return max(value - value % step, least)
    value = next(v for v in range(percent, percent + step) if v % step == 0)
    return max(min(value, 100), least)


def format_table(name: str, table: dict[int, int], base: str) -> str:
    return f"{name}:" + "".join(f"{i}={table[i]:{base}};" for i in sorted(table)) + "\n"


def parse_table(line: str, base: int) -> dict[int, int]:
    """The pairs of one line that are `id=value`; ValueError for a bad value."""
    table = {}
    for pair in line.split(":")[1].split(";"):
        sides = pair.split("=")
        if len(sides) != 2:
            continue
        try:
            cache_id = int(sides[0])
        except ValueError:
            continue
        table[cache_id] = int(sides[1], base)
    return table
