# SPDX-License-Identifier: Apache-2.0
"""Schedules of CronJobs: five fields, ``@hourly`` and the like, ``@every 1h30m``.

Rule: what kube-controller-manager's cron library takes, and when it fires, daylight saving
included: an hour that does not exist is passed over, one that comes twice fires twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from koord.api.duration import Duration

_YEARS = 5
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
_is_integer = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY, _ZONES = "@every ", ("TZ=", "CRON_TZ=")
_MOST_DIGITS = 18


class ScheduleError(ValueError):
    """A text is no schedule."""


class _FieldBounds(NamedTuple):
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _FieldBounds(0, 59),
    _FieldBounds(0, 23),
    _FieldBounds(1, 31),
    _FieldBounds(1, 12, _MONTHS),
    _FieldBounds(0, 6, _DAYS),
)


@dataclass(frozen=True)
class Schedule:
    """When something is to happen: at set minutes, or every so often.

    Attributes:
        zone: whose wall clock the fields are of.
        every: the distance in seconds; 0 where the fields say when.
        any_day: whether day of month or day of week is a star: then both must match, else one.
    """

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False
    every: int = 0
    zone: tzinfo = UTC

    def after(self, seconds: float) -> float | None:
        """The first time after a time, both in wall seconds; None within the next five years."""
        if self.every:
            return float(int(seconds) + self.every)
        if not (self.minutes and self.hours and self.months and (self.days or self.weekdays)):
            return None
        try:
            return self._next(seconds)
        except (OverflowError, ValueError, OSError):  # the calendar ends with the year 9999
            return None

    def _next(self, seconds: float) -> float | None:
        start = datetime.fromtimestamp(int(seconds) + 1, self.zone)
        now = start if not start.second else _plus(start.replace(second=0), _MINUTE)
        last = now.year + _YEARS
        while now.year <= last:
            if now.month not in self.months:
                now = _midnight(now.replace(day=1), 32, first=True)
            elif not self._is_day(now):
                now = _midnight(now, 1)
            elif now.hour not in self.hours:
                now = _plus(now.replace(minute=0), _HOUR)
            elif now.minute not in self.minutes:
                now = _plus(now, _MINUTE)
            else:
                return now.timestamp()
        return None

    def _is_day(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.any_day else (of_month or of_week)


def parse(text: str, zone: tzinfo = UTC) -> Schedule:
    """The schedule of a text.

    Raises:
        ScheduleError: it is none; worded as Kubernetes words it.
    """
    if text.startswith(_ZONES):
        # The library takes a zone here, too; Kubernetes refuses it where schedules are made.
        _, _, name = text.partition("=")
        name, _, text = name.partition(" ")
        zone, text = zone_of(name), text.strip()
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return Schedule(every=_distance(text), zone=zone)
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    if not text:
        raise ScheduleError("empty spec string")
    fields = text.split()
    if len(fields) != len(_FIELDS):
        listed = f"[{' '.join(fields)}]"
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: {listed}")
    parts = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (values for values, _ in parts)
    any_day = parts[2][1] or parts[4][1]
    return Schedule(minutes, hours, days, months, weekdays, any_day, zone=zone)


def zone_of(name: str | None) -> tzinfo:
    """The time zone of a name; UTC for none.

    Raises:
        ScheduleError: there is no such zone.
    """
    if not name or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def _plus(time: datetime, span: timedelta) -> datetime:
    """A span later, in time that passes rather than on the wall clock."""
    return (time.astimezone(UTC) + span).astimezone(time.tzinfo)


def _midnight(day: datetime, days: int, first: bool = False) -> datetime:
    """The beginning of a later day, or of its month; later where it has no midnight."""
    there = day.replace(hour=0, minute=0, fold=0) + timedelta(days=days)
    there = there.replace(day=1) if first else there
    # Where the wall clock jumps over midnight this is the first moment of the day.
    return there.astimezone(UTC).astimezone(day.tzinfo)


def _distance(text: str) -> int:
    """Whole seconds, at least one."""
    try:
        nanoseconds = Duration.parse(text.removeprefix(_EVERY)).nanoseconds
    except ValueError:
        why = f'time: invalid duration "{text.removeprefix(_EVERY)}"'
        raise ScheduleError(f"failed to parse duration {text}: {why}") from None
    return max(1, nanoseconds // 10**9)


def _field(text: str, bounds: _FieldBounds) -> tuple[frozenset[int], bool]:
    """The values that a field stands for, and whether it is a star."""
    values: set[int] = set()
    star = False
    for expression in filter(None, text.split(",")):
        found, is_star = _range(expression, bounds)
        values.update(found)
        star |= is_star
    return frozenset(values), star


def _range(text: str, bounds: _FieldBounds) -> tuple[range, bool]:
    """``*``, ``5``, ``5-10``, each with ``/STEP`` or without."""
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    star = low in ("*", "?")
    if star:
        start, end = bounds.least, bounds.most
    else:
        start = end = _number(low, bounds.names)
        if len(highs) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        if highs:
            end = _number(highs[0], bounds.names)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and not highs:
        end = bounds.most
    least, most = bounds.least, bounds.most
    if start < least:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise ScheduleError(f"end of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), star and step == 1


def _number(text: str, names: tuple[str, ...] = ()) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + (names is _MONTHS)
    why = "invalid syntax"
    if _is_integer(text) and len(text) > _MOST_DIGITS:
        why = "value out of range"
    elif _is_integer(text):
        number = int(text)
        if number < 0:
            raise ScheduleError(f"negative number ({number}) not allowed: {text}")
        return number
    raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {why}')
