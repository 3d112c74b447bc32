# SPDX-License-Identifier: Apache-2.0
"""Numbers and switches in labels and annotations, with the readings that peers give them."""

from __future__ import annotations

import math
import re

from koord.base.errors import KoordError

_DECIMAL = re.compile(r"[+-]?[0-9]+")
# A base prefix and a leading zero both count as a digit that an underscore may follow.
_PREFIXED = re.compile(
    r"[+-]?(?:0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+"
    r"|0(?:_?[0-7])*|[1-9](?:_?[0-9])*)"
)
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_MAX_DIGITS = 400


def parse_int(
    text: str, object_name: str, field: str, *, bits: int = 64, base_prefix: bool = False
) -> int:
    """A signed integer.

    Args:
        text: the number.
        object_name: for errors.
        field: for errors.
        bits: size of the two's complement integer it must fit.
        base_prefix: whether 0x, 0b, 0o, a leading 0 (octal) and ``_`` between digits are legal.

    Raises:
        KoordError: not such a number.
    """
    expected = f"an integer of {bits} bits"
    pattern = _PREFIXED if base_prefix else _DECIMAL
    if len(text) > _MAX_DIGITS or not pattern.fullmatch(text):
        raise KoordError(object_name, field, text, expected)
    digits = text.lstrip("+-").replace("_", "")
    base = 10
    if base_prefix and digits[0] == "0" and len(digits) > 1:
        base = 0 if digits[1].isalpha() else 8
    value = int(digits, base) * (-1 if text[0] == "-" else 1)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise KoordError(object_name, field, text, expected)
    return value


def parse_float(text: str, object_name: str, field: str) -> float:
    """A finite decimal number.

    Raises:
        KoordError: not a number, or too large.
    """
    value = float(text) if len(text) <= _MAX_DIGITS and _FLOAT.fullmatch(text) else math.inf
    if math.isinf(value):
        raise KoordError(object_name, field, text, "a number")
    return value


def parse_bool(text: str, object_name: str, field: str) -> bool:
    """A truth value in one of the spellings 1, t, T, TRUE, true, True and their opposites.

    Raises:
        KoordError: another spelling.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise KoordError(object_name, field, text, '"true" or "false"')
