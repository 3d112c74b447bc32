# SPDX-License-Identifier: Apache-2.0
"""Which thresholds of evictions are valid.

Rules: docs/reference/evictions.md#cpu-evictions,
docs/reference/evictions.md#memory-evictions.
"""

from __future__ import annotations

from typing import NamedTuple

from koord.base.errors import KoordError

_BUFFER_PERCENT = 2
_HIGHEST_MID_PRIORITY = 7999


class ThresholdRange(NamedTuple):
    """Where eviction begins and where it ends, in percent."""

    threshold_percent: int
    lower_percent: int


def usage_range(field: str, threshold: int | None, lower: int | None) -> ThresholdRange:
    """A range whose lower end may be left out.

    Raises:
        KoordError: the threshold is missing or negative, or the lower end is not below it.
    """
    begin = _set(field, threshold)
    return _range(field, begin, begin - _BUFFER_PERCENT if lower is None else lower)


def request_range(field: str, threshold: int | None, lower: int | None) -> ThresholdRange:
    """A range that needs both ends.

    Raises:
        KoordError: one is missing, the threshold is negative, or the lower end is not below it.
    """
    begin = _set(field, threshold)
    return _range(field, begin, _set(field.replace("Threshold", "Lower"), lower))


def usage_priority(value: int | None) -> int:
    """The highest priority of victims of usage.

    Raises:
        KoordError: missing.
    """
    return _set("evictEnabledPriorityThreshold", value)


def request_priority(value: int | None) -> int:
    """The highest priority of victims of requests: never one of production.

    Raises:
        KoordError: missing or too high.
    """
    field = "allocatableEvictPriorityThreshold"
    found = _set(field, value)
    if found > _HIGHEST_MID_PRIORITY:
        raise _invalid(field, found, f"at most {_HIGHEST_MID_PRIORITY}")
    return found


def satisfaction_range(lower: int | None, upper: int | None) -> ThresholdRange:
    """The upper and the lower end of satisfaction, as (threshold, lower).

    Raises:
        KoordError: one is missing or out of range.
    """
    low_field, high_field = (
        "cpuEvictBESatisfactionLowerPercent",
        "cpuEvictBESatisfactionUpperPercent",
    )
    low, high = _set(low_field, lower), _set(high_field, upper)
    if not 0 < low <= 60:
        raise _invalid(low_field, low, "1 to 60")
    if not low <= high < 100:
        raise _invalid(high_field, high, f"{low} to 99")
    return ThresholdRange(high, low)


def _range(field: str, begin: int, end: int) -> ThresholdRange:
    if begin < 0:
        raise _invalid(field, begin, "0 or more")
    if end >= begin:
        raise _invalid(field.replace("Threshold", "Lower"), end, f"less than {begin}")
    return ThresholdRange(begin, end)


def _set(field: str, value: int | None) -> int:
    if value is None:
        raise _invalid(field, None, "a number")
    return value


def _invalid(field: str, value: object, expected: str) -> KoordError:
    return KoordError("NodeSLO", f"resourceUsedThresholdWithBE.{field}", value, expected)
