# SPDX-License-Identifier: Apache-2.0
"""Amounts as the plugin counts them: integers in base units, CPU in milli, by zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord.api.kinds.meta import ResourceList
from koord.api.protocol.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from koord.kernels.quantity import Format, Quantity, Rounding

MILLI = 1000
_HUGEPAGES = "hugepages-"

Row = dict[str, int]
Table = dict[int, Row]
Tables = Mapping[int, Mapping[str, int]]


def row_of(resources: ResourceList) -> Row:
    """Integers of a resource list, rounded up; ValueError beyond 64 bits."""
    return {
        name: amount.milli(Rounding.UP) if name == CPU else amount.value(Rounding.UP)
        for name, amount in resources.items()
    }


def resource_list(row: Mapping[str, int]) -> ResourceList:
    """The quantities of a row, sorted by name; bytes in powers of two."""
    return {name: _quantity(name, row[name]) for name in sorted(row)}


def _quantity(name: str, amount: int) -> Quantity:
    if name == CPU:
        return Quantity.from_milli(amount)
    in_bytes = name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(_HUGEPAGES)
    return Quantity.from_value(amount, Format.BINARY_SI if in_bytes else Format.DECIMAL_SI)


def add(into: Table, table: Tables) -> None:
    """Adds a table zone by zone."""
    for zone, row in table.items():
        there = into.setdefault(zone, {})
        for name, amount in row.items():
            there[name] = there.get(name, 0) + amount


def subtract(out_of: Table, table: Tables) -> None:
    """Takes a table off, clamped at zero; names and zones that end at zero are dropped."""
    for zone, row in table.items():
        there = out_of.get(zone, {})
        for name, amount in row.items():
            left = there.get(name, 0) - amount
            if left > 0:
                there[name] = left
            else:
                there.pop(name, None)
        if not there:
            out_of.pop(zone, None)


def total(tables: Iterable[Tables]) -> Table:
    """The sum of tables."""
    out: Table = {}
    for table in tables:
        add(out, table)
    return out


def least(one: Tables, other: Tables) -> Table:
    """The smaller amount wherever both have one."""
    return {
        zone: {name: min(amount, other[zone][name]) for name, amount in row.items()
               if name in other[zone]}
        for zone, row in one.items()
        if zone in other
    }  # fmt: skip


def difference(one: Tables, other: Tables) -> Table:
    """What of each amount of ``one`` is left, zero at the least; every name of it is kept."""
    return {
        zone: {
            name: max(0, amount - other.get(zone, {}).get(name, 0)) for name, amount in row.items()
        }
        for zone, row in one.items()
    }


def key_of(table: Tables) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
    """A hashable form: equal for equal tables."""
    return tuple((zone, tuple(sorted(table[zone].items()))) for zone in sorted(table))
