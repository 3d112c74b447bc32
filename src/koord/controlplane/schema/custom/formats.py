# SPDX-License-Identifier: Apache-2.0
"""The string formats that a kube-apiserver enforces in custom resources; others are remarks.

Names are compared without dashes: ``date-time`` is ``datetime``. What a format takes is what Go's
parsers take, odd as it may be; a table of a real server's answers stands in the tests.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = "[0-9a-f]"
_ADDRESS = r"""(?:"[^"]+"|[^@\s<>]+)@[^@\s<>]+"""
# A unit counts by its short name, or by what its long name begins with.
_SHORT_UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_LONG_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_LATER_WORDS = re.compile("[0-9]+\\s*([A-Za-zµ]+)")
_DATE_TIME = re.compile(r"(.*)T(\d\d):(\d\d):(\d\d)(.\d+)?(Z|[+-]\d\d:\d\d)", re.I | re.A)


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


def _is_date(text: str) -> bool:
    return len(text) == 10 and _reads(date.fromisoformat)(text)


def _is_date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    if match is None or not _is_date(match[1]):
        return False
    return match[2] <= "23" and match[3] <= "59" and match[4] <= "59"


def _is_duration(text: str) -> bool:
    """A Go duration, or a text with a number and a known unit somewhere in it."""
    if _GO_DURATION.fullmatch(text):
        return True
    units = (unit.lower() for unit in _LATER_WORDS.findall(text))
    return any(unit in _SHORT_UNITS or unit.startswith(_LONG_UNITS) for unit in units)


def _is_cidr(text: str) -> bool:
    return "/" in text and _reads(lambda given: ipaddress.ip_network(given, strict=False))(text)


def _is_request_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return not re.search(r"[\x00-\x20\x7f]", text) and (bool(parts.scheme) or text.startswith("/"))


def _is_hostname(text: str) -> bool:
    """Dotted labels that end in letters, or one label with a dash after its first sign at most."""
    *labels, last = text.split(".")
    if not labels:
        rest = last[1:].removeprefix("-")
        return bool(last) and len(rest) <= 62 and all(map(_is_sign, last[0] + rest))
    if not 2 <= len(last) <= 63 or not all(unicodedata.category(sign)[0] == "L" for sign in last):
        return False
    return len(text.encode()) <= 255 and all(map(_is_label, labels))


def _is_label(text: str) -> bool:
    if not 1 <= len(text) <= 63 or "-" in (text[0], text[-1]):
        return False
    return all(map(_is_sign, text.replace("-", "")))


def _is_sign(character: str) -> bool:
    ascii_digit = character.isascii() and character.isdigit()
    return ascii_digit or unicodedata.category(character)[0] in "LS"


def _is_ipv4(text: str) -> bool:
    text = re.sub("^::ffff:", "", text, flags=re.IGNORECASE)
    return _reads(ipaddress.IPv4Address)(re.sub(r"(?<![0-9])0+(?=[0-9])", "", text))


def _is_ipv6(text: str) -> bool:
    return "%" not in text and _reads(ipaddress.IPv6Address)(text)


def _is_mac(text: str) -> bool:
    """6, 8 or 20 bytes, by twos with one separator, by fours with dots, or (6 and 8) plain."""
    plain = re.sub("[:.-]", "", text)
    if len(plain) not in (12, 16, 40) or not re.fullmatch(f"{_HEX}+", plain, re.IGNORECASE):
        return False
    pairs, fours = re.findall("..", plain), re.findall("....", plain)
    forms = {separator.join(pairs) for separator in ":-"} | {".".join(fours)}
    return text in forms or (text == plain and len(plain) < 40)


_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern(f"{_HEX}{{24}}"),
    "uri": _is_request_uri,
    "email": _pattern(rf"\s*{_ADDRESS}\s*|[^<>@]*<{_ADDRESS}>\s*"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "hexcolor": _pattern(r"#?([0-9a-f]{3}|[0-9a-f]{6})"),
    "ssn": _pattern(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "byte": _pattern(
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", 0
    ),
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": _pattern(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", 0),
    "k8slongname": lambda text: (
        len(text) <= 253
        and _pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", 0)(text)
    ),
}
