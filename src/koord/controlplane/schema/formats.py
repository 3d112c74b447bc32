# SPDX-License-Identifier: Apache-2.0
"""The string formats that a kube-apiserver enforces in custom resources; others are remarks.

Names are compared without dashes: ``date-time`` is ``datetime``.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import date, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = "[0-9a-f]"
_UNIT = r"(?:ns|us|µs|μs|ms|s|m|h|nanoseconds?|nanos?|microseconds?|micros?|milliseconds?|millis?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|d|weeks?|w)"  # noqa: E501


def is_valid(format_name: str, text: str) -> bool:
    """Whether a text has a format; unknown formats take any text."""
    check = _CHECKS.get(format_name.replace("-", ""))
    return check is None or check(text)


def names() -> tuple[str, ...]:
    """The formats that are looked at, without dashes."""
    return tuple(_CHECKS)


def is_enforced(format_name: str) -> bool:
    """Whether a format is looked at."""
    return format_name.replace("-", "") in _CHECKS


def _pattern(pattern: str, flags: int = re.IGNORECASE) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(third: str = "", fourth: str = "") -> Callable[[str], bool]:
    middle = f"{third}{_HEX}{{3}}" if third else f"{_HEX}{{4}}"
    after = f"{fourth}{_HEX}{{3}}" if fourth else f"{_HEX}{{4}}"
    return _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{middle}-?{after}-?{_HEX}{{12}}")


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _is_date_time(text: str) -> bool:
    if not re.fullmatch(
        r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text, re.ASCII
    ):
        return False
    return _reads(datetime.fromisoformat)(re.sub(r"\.\d+", "", text).upper())


def _is_date(text: str) -> bool:
    return len(text) == 10 and _reads(date.fromisoformat)(text)


def _is_cidr(text: str) -> bool:
    return "/" in text and _reads(lambda given: ipaddress.ip_network(given, strict=False))(text)


def _is_request_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return not re.search(r"[\x00-\x20\x7f]", text) and (bool(parts.scheme) or text.startswith("/"))


def _is_hostname(text: str) -> bool:
    label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    return len(text) <= 255 and _pattern(rf"{label}(\.{label})*")(text)


_DURATION = rf"[+-]?(\d+(\.\d*)?|\.\d+)\s*{_UNIT}((\d+(\.\d*)?|\.\d+)\s*{_UNIT})*"
_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern(f"{_HEX}{{24}}"),
    "uri": _is_request_uri,
    "email": _pattern(r"[^@\s<>]+@[^@\s<>]+"),
    "hostname": _is_hostname,
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "cidr": _is_cidr,
    "mac": _pattern(rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}|{_HEX}{{4}}(\.{_HEX}{{4}}){{2}}"),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "hexcolor": _pattern(r"#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "byte": _pattern(
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", 0
    ),
    "date": _is_date,
    "duration": _pattern(rf"0|{_DURATION}"),
    "datetime": _is_date_time,
    "k8sshortname": _pattern(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", 0),
    "k8slongname": lambda text: (
        len(text) <= 253
        and _pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", 0)(text)
    ),
}
