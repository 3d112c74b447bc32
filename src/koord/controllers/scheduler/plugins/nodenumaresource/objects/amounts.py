# SPDX-License-Identifier: Apache-2.0
"""Amounts as the plugin counts them: integers in base units, CPU in milli, by zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord.api.kinds.meta import ResourceList
from koord.api.protocol.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from koord.kernels.quantity import Format, Quantity, Rounding

MILLI = 1000
_HUGEPAGES = "hugepages-"

Amounts = dict[str, int]
ZoneAmounts = dict[int, Amounts]
ReadOnlyZoneAmounts = Mapping[int, Mapping[str, int]]
ZoneIds = tuple[int, ...]


def amounts_of(resources: ResourceList) -> Amounts:
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


def add(into: ZoneAmounts, table: ReadOnlyZoneAmounts) -> None:
    """Adds amounts zone by zone."""
    for zone, row in table.items():
        total = into.setdefault(zone, {})
        for name, amount in row.items():
            total[name] = total.get(name, 0) + amount


def subtract(out_of: ZoneAmounts, table: ReadOnlyZoneAmounts) -> None:
    """Takes amounts off, clamped at zero; names and zones that end at zero are dropped."""
    for zone, row in table.items():
        rest = out_of.get(zone, {})
        for name, amount in row.items():
            left = rest.get(name, 0) - amount
            if left > 0:
                rest[name] = left
            else:
                rest.pop(name, None)
        if not rest:
            out_of.pop(zone, None)


def total(tables: Iterable[ReadOnlyZoneAmounts]) -> ZoneAmounts:
    """The sum of tables."""
    out: ZoneAmounts = {}
    for table in tables:
        add(out, table)
    return out


def least(one: ReadOnlyZoneAmounts, other: ReadOnlyZoneAmounts) -> ZoneAmounts:
    """The smaller amount wherever both have one."""
    return {
        zone: {name: min(amount, other[zone][name]) for name, amount in row.items()
               if name in other[zone]}
        for zone, row in one.items()
        if zone in other
    }  # fmt: skip


def difference(one: ReadOnlyZoneAmounts, other: ReadOnlyZoneAmounts) -> ZoneAmounts:
    """What of each amount of ``one`` is left, zero at the least; every name of it is kept."""
    return {
        zone: {
            name: max(0, amount - other.get(zone, {}).get(name, 0)) for name, amount in row.items()
        }
        for zone, row in one.items()
    }


def key_of(table: ReadOnlyZoneAmounts) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
    """A hashable form: equal for equal tables."""
    return tuple((zone, tuple(sorted(table[zone].items()))) for zone in sorted(table))
