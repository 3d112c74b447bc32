# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities over fractions.Fraction: the rule, written to be read."""

from __future__ import annotations

import math
import re
from fractions import Fraction

MAX_INT64 = 2**63 - 1
_NANO = Fraction(1, 10**9)
_TEXT = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(.*)", re.ASCII | re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?\d+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse(text: str) -> tuple[Fraction, str]:
    """The exact value and the format's name; ValueError for what is no quantity."""
    sign, whole, fraction, suffix = _TEXT.fullmatch(text).groups()
    if not whole and not fraction:
        raise ValueError(text)
    number = Fraction(int(whole + (fraction or "")), 10 ** len(fraction or ""))
    if suffix in _DECIMAL:
        value, form = number * Fraction(10) ** _DECIMAL[suffix], "DecimalSI"
    elif suffix in _BINARY:
        value, form = number * 2 ** _BINARY[suffix], "BinarySI"
    elif exponent := _EXPONENT.fullmatch(suffix):
        value, form = number * Fraction(10) ** int(exponent[1]), "DecimalExponent"
    else:
        raise ValueError(text)
    value = math.ceil(value / _NANO) * _NANO
    if form == "BinarySI":
        value = min(value, Fraction(MAX_INT64))
        form = "DecimalSI" if 0 < value < 1 else form
    return (-value if sign == "-" else value), form


def canonical(value: Fraction, form: str) -> str:
    """The text with no fraction and the largest suffix that allows it."""
    if value == 0:
        return "0"
    if form == "BinarySI" and value.denominator == 1 and abs(value) >= 1024:
        suffixes = [(suffix, Fraction(2) ** bits) for suffix, bits in _BINARY.items()]
        suffixes.insert(0, ("", Fraction(1)))
    elif form == "DecimalExponent":
        suffixes = [(f"e{e}" if e else "", Fraction(10) ** e) for e in range(-9, 400, 3)]
    else:
        suffixes = [(suffix, Fraction(10) ** e) for suffix, e in _DECIMAL.items()]
    fitting = [(suffix, unit) for suffix, unit in suffixes if (value / unit).denominator == 1]
    suffix, unit = fitting[-1]
    return f"{value / unit}{suffix}"


def count(value: Fraction, unit: Fraction, rounding: str) -> int:
    """How many units; ValueError beyond 64 bits or when EXACT meets a fraction."""
    units = value / unit
    if rounding == "EXACT" and units.denominator != 1:
        raise ValueError(value)
    whole = math.ceil(abs(units)) if rounding == "UP" else math.floor(abs(units))
    signed = -whole if units < 0 else whole
    if not -MAX_INT64 - 1 <= signed <= MAX_INT64:
        raise ValueError(value)
    return signed
