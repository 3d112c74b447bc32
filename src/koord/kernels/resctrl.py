# SPDX-License-Identifier: Apache-2.0
"""Cache ways and memory bandwidth as the kernel's resctrl file system takes them.

Percentages become masks and throttle values, policies of classes become schemata lines. Nothing is
written here. Rules: Linux ``Documentation/arch/x86/resctrl.rst``, Koordinator's percentages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from koord._native.core import resctrl as _native

#: On AMD this many eighths of a GB/s mean no limit.
AMD_UNLIMITED = 2048
#: 25 GB/s a cache domain, of which 80 % can be reached, in eighths: measured on EPYC Milan.
AMD_FULL_SCALE = 160


class Vendor(StrEnum):
    """Who made the CPU, which decides what a bandwidth number means; others count as Intel."""

    INTEL = "intel"
    AMD = "amd"


class Limits(NamedTuple):
    """What the hardware takes. 0 is not known: then no check, and the vendor's usual values."""

    cbm_mask: int
    min_cbm_bits: int = 1
    shareable_bits: int = 0
    num_closids: int = 0
    bandwidth_gran: int = 0
    min_bandwidth: int = 0
    amd_full_scale: int = AMD_FULL_SCALE


class CacheMask(NamedTuple):
    """Ways of a group; `widened` when the range alone was too narrow, `shared` those of devices."""

    bits: int
    widened: bool
    shared: int


class Bandwidth(NamedTuple):
    """An MB value; `clamped` when raised to the least the hardware takes."""

    value: int
    clamped: bool


class ClassPolicy(NamedTuple):
    """What a class asks for; None gives no line."""

    name: str
    cat_range_start_percent: int | None = None
    cat_range_end_percent: int | None = None
    mba_percent: int | None = None


class GroupPlan(NamedTuple):
    """Lines to write to the group's schemata, one at a time, and what the hardware did not take."""

    name: str
    lines: list[str]
    notes: list[str]


class Info(NamedTuple):
    """A mounted resctrl tree: its limits and the cache ids of the root group."""

    limits: Limits
    has_bandwidth: bool
    delay_linear: bool
    l3_ids: list[int]


class Schemata(NamedTuple):
    """Tables by cache id; None is a table that is not there. Other tables are kept as text."""

    l3: dict[int, int] | None = None
    mb: dict[int, int] | None = None
    others: dict[str, str] = {}  # noqa: RUF012 (a NamedTuple's default; never changed)

    def format(self) -> str:
        """Lines as the kernel writes them: ids ascending, lower-case hex, a trailing semicolon."""
        return _native.format_schemata(self.l3, self.mb)

    def holds_in(self, current: Schemata) -> bool:
        """Whether a group with the tables of `current` already has every value of these."""
        return _within(self.l3, current.l3) and _within(self.mb, current.mb)


def _within(wanted: dict[int, int] | None, current: dict[int, int] | None) -> bool:
    return wanted is None or (current is not None and wanted.items() <= current.items())


def parse_l3_ids(text: str) -> list[int]:
    """Cache ids from a list such as ``0-1`` or ``0,8``; ValueError when malformed or empty."""
    return _native.parse_l3_ids(os.fsencode(text))


def parse_cbm_mask(hex_text: str) -> int:
    """A cache bit mask in hex: 1 to 32 bits, all of them the lowest. ValueError otherwise."""
    return _native.parse_cbm_mask(os.fsencode(hex_text))


def cache_mask(limits: Limits, start_percent: int, end_percent: int) -> CacheMask:
    """The ways from start to end percent, both rounded up to whole ways.

    A range that holds fewer ways than the hardware takes grows, upwards first. ValueError unless
    0 <= start < end <= 100.
    """
    return CacheMask(*_native.cache_mask(limits, start_percent, end_percent))


def bandwidth(vendor: Vendor, limits: Limits, percent: int) -> Bandwidth:
    """The MB value of 1 to 100 percent; ValueError outside.

    On Intel the percentage in whole steps, rounded up; on AMD the share of the full scale in
    eighths of a GB/s, rounded down, and 2048 (no limit) for 100.
    """
    return Bandwidth(*_native.bandwidth(vendor, limits, percent))


def plan(
    vendor: Vendor, limits: Limits, l3_ids: Sequence[int], classes: Iterable[ClassPolicy]
) -> list[GroupPlan]:
    """One group a class, in the order given.

    MB percentages outside 1..100 give no line. ValueError for a bad cache range, no cache ids, or
    more groups than the hardware has.
    """
    return [GroupPlan(*group) for group in _native.plan(vendor, limits, l3_ids, list(classes))]


def parse_schemata(text: str | bytes, ids_expected: int = -1) -> Schemata:
    """A schemata file. ValueError for a bad line or value, or another number of ids.

    Args:
        text: lines ``NAME:id=value;id=value``; pairs of another form are skipped.
        ids_expected: ids that each table must have; -1 takes the number from the first one.
    """
    return Schemata(*_native.parse_schemata(text, ids_expected))


def read_info(root: str | os.PathLike[str]) -> Info:
    """Reads ``info/`` and ``schemata`` of a mounted resctrl tree.

    Raises:
        OSError: there is no L3 control.
        ValueError: a file does not hold what the kernel writes.
    """
    limits, has_bandwidth, delay_linear, l3_ids = _native.read_info(os.fsencode(root))
    return Info(Limits(*limits), has_bandwidth, delay_linear, l3_ids)


def parse_counter(text: str | bytes) -> int | None:
    """A monitoring value; None for ``Unavailable`` and ``Error``."""
    return _native.parse_counter(text)
