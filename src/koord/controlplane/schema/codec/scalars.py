# SPDX-License-Identifier: Apache-2.0
"""Scalars as an API server reads them and writes them back."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from koord.base.memory.text_cache import LONGEST_TEXT
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)
GO_TYPES = {
    "string": "string",
    "boolean": "bool",
    "int32": "int32",
    "int64": "int64",
    "double": "float64",
    "byte": "[]uint8",
    "time": "string",
    "micro-time": "string",
    "int-or-string": "int32",
}
ZEROS: dict[str, Any] = {
    "string": "", "boolean": False, "int32": 0, "int64": 0, "double": 0, "byte": "",
    "quantity": "0", "int-or-string": 0,
}  # fmt: skip

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_KNOWN_QUANTITIES = 4096


class MistypedError(TypeError):
    """A value of another JSON type than the field's; the walk names the field."""


def read(word: str, value: Any) -> Any:
    """The value as it is stored.

    Args:
        word: the scalar, as in :class:`~koord.api.patching.shapes.Shape`.
        value: JSON value, not null.

    Raises:
        MistypedError: it has another JSON type.
        ValueError: a text that cannot be read; the message is worded as Kubernetes words it.
    """
    return _READERS[word](value)


def reader(word: str) -> Callable[[Any], Any]:
    """The same for one scalar."""
    found: Callable[[Any], Any] = _READERS[word]
    return found


def canonical_quantity(value: Any) -> str:
    """A quantity as Kubernetes writes it: ``1000m`` is ``1``, ``0.5`` is ``500m``.

    Raises:
        ValueError: no quantity.
    """
    known = _quantities.get(value) if isinstance(value, str) else None
    if known is not None:
        return known
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_QUANTITY_RULE)
    try:
        text = str(Quantity.parse(value))
    except ValueError:
        raise ValueError(_QUANTITY_RULE) from None
    if isinstance(value, str) and len(value) <= LONGEST_TEXT:
        if len(_quantities) >= _KNOWN_QUANTITIES:
            _quantities.clear()
        _quantities[value] = text
    return text


# Objects of one cluster repeat few quantities; reading one anew costs ten times a look-up.
_quantities: dict[str, str] = {}


def canonical_time(value: Any, fraction_digits: int = 0) -> str:
    """A time in UTC, cut to whole seconds or to a fraction of so many digits.

    Raises:
        MistypedError: no text.
        ValueError: no RFC 3339 time.
    """
    if not isinstance(value, str):
        raise MistypedError
    if len(value) > LONGEST_TEXT:
        return _canonical_time.__wrapped__(value, fraction_digits)
    return _canonical_time(value, fraction_digits)


@lru_cache(maxsize=4096)
def _canonical_time(value: str, fraction_digits: int) -> str:
    match = _TIME.fullmatch(value)
    if match is None:
        raise ValueError(_unreadable_time(value))
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        if match[9]:
            offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
            moment = moment - offset if match[9] == "+" else moment + offset
    except (ValueError, OverflowError):
        raise ValueError(_unreadable_time(value)) from None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
    if not fraction_digits:
        return f"{text}Z"
    return f"{text}.{(match[7] or '').ljust(fraction_digits, '0')[:fraction_digits]}Z"


def _unreadable_time(value: str) -> str:
    return (
        f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise MistypedError


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise MistypedError


def _integer(value: Any, allowed: range) -> int:
    if type(value) is int and value in allowed:
        return value
    raise MistypedError


def _double(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MistypedError
    return value


def _bytes(value: Any) -> str:
    text = _text(value)
    try:
        return base64.b64encode(
            base64.b64decode(re.sub("[\r\n]", "", text), validate=True)
        ).decode()
    except (binascii.Error, ValueError):
        raise ValueError("illegal base64 data at input byte 0") from None


_READERS: dict[str, Any] = {
    "string": _text,
    "boolean": _boolean,
    "int32": lambda value: _integer(value, INT32),
    "int64": lambda value: _integer(value, INT64),
    "double": _double,
    "byte": _bytes,
    "time": canonical_time,
    "micro-time": lambda value: canonical_time(value, 6),
    "quantity": canonical_quantity,
    "int-or-string": lambda value: value if isinstance(value, str) else _integer(value, INT32),
    "any": lambda value: value,
}
