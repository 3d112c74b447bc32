# SPDX-License-Identifier: Apache-2.0
"""Durations as the wire writes them: ``300ms``, ``1h30m``, ``-1.5h``, ``0``."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Self

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MAX_NANOSECONDS = 2**63 - 1
_EXPECTED = "a duration such as 90s, 5m or 1h30m"


@total_ordering
class Duration:
    """An exact time span that remembers how it was written.

    Args:
        nanoseconds: the length; negative is legal.
        text: the spelling to keep; the shortest one made of h, m and s if None.
    """

    __slots__ = ("_text", "nanoseconds")

    def __init__(self, nanoseconds: int, text: str | None = None) -> None:
        self.nanoseconds = nanoseconds
        self._text = text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a duration.

        Raises:
            ValueError: not a duration, or beyond 2**63-1 nanoseconds (292 years).
        """
        return cls(_nanoseconds(text), text)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Reads a decoded JSON value.

        Raises:
            ValueError: as :meth:`parse`, and for anything but text.
        """
        if not isinstance(value, str):
            raise _invalid(value)
        return cls.parse(value)

    @classmethod
    def of_seconds(cls, seconds: float) -> Self:
        """A duration of that many seconds, to the nearest nanosecond."""
        return cls(round(seconds * 1_000_000_000))

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.nanoseconds / 1_000_000_000

    def __str__(self) -> str:
        return self._text if self._text is not None else _written(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


def _invalid(value: object) -> ValueError:
    error = ValueError(f"duration: got {value!r}, expected {_EXPECTED}")
    error.koord_value, error.koord_expected = value, _EXPECTED  # type: ignore[attr-defined]
    return error


def _nanoseconds(text: str) -> int:
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    total, at = 0, 0
    while at < len(body):
        term = _TERM.match(body, at)
        if term is None or not (term[1] or term[2]):
            raise _invalid(text)
        unit = _NANOSECONDS[term[3]]
        fraction = term[2] or ""
        # Digits beyond a nanosecond are cut, not rounded.
        total += int(term[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        if total > _MAX_NANOSECONDS:
            raise _invalid(text)
        at = term.end()
    if at == 0:
        raise _invalid(text)
    return -total if text[0] == "-" else total


def _written(nanoseconds: int) -> str:
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left == 0:
        return "0s"
    if left < _NANOSECONDS["s"]:
        unit = next(name for name in ("ms", "us", "ns") if left >= _NANOSECONDS[name])
        return f"{sign}{_decimal(left, _NANOSECONDS[unit])}{unit}"
    minutes, left = divmod(left, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(left, _NANOSECONDS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, rest = divmod(nanoseconds, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".")
