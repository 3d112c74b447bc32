# SPDX-License-Identifier: Apache-2.0
"""Readers of options' values, for programs with and without typer."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable


MOST_SEEDS = 10_000


def parse_seeds(text: str, option: str = "--seeds") -> list[int]:
    """Seeds of a list such as ``42-51`` or ``42,44``, each once. KoordError for anything else."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + MOST_SEEDS:
            expected = f"seeds such as 42-51 or 42,44, up to 999999999, at most {MOST_SEEDS}"
            raise KoordError(option, "", text, expected)
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return list(seeds)


def whole_number(option: str, least: int, most: int) -> Callable[[str | int], int]:
    """A reader of an option's value, and of its default: a number between the bounds."""

    def read(value: str | int) -> int:
        text = str(value)
        # The length first: Python refuses to convert thousands of digits.
        if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        raise KoordError(option, "", text, f"a whole number from {least} to {most}")

    return read


def number(option: str) -> Callable[[str | float], float]:
    """A reader of an option's value, and of its default: any finite number."""

    def read(value: str | float) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise KoordError(option, "", value, "a number such as 0.5 or 24")
        return found

    return read


def rate(option: str) -> Callable[[str], float]:
    """A reader of an option's value: as Go reads a number such as 0.5, not negative."""

    def read(text: str) -> float:
        from koord.api.protocol.numbers import parse_float

        try:
            found = parse_float(text, option, "")
        except KoordError:
            found = -1.0
        if found < 0:
            raise KoordError(option, "", text, "a number such as 10 or 0.5, or 0")
        return found

    return read


def seconds(option: str) -> Callable[[str | float], float]:
    """A reader of an option's value, and of its default: a duration such as 30s, not negative."""

    def read(value: str | float) -> float:
        if isinstance(value, float):
            return value
        from koord.api.duration import Duration

        try:
            found = Duration.parse(value).nanoseconds / 1e9
        except ValueError:
            found = -1.0
        if found < 0:
            raise KoordError(option, "", value, "a duration such as 30s, or 0")
        return found

    return read


def duration_text(seconds: float) -> str:
    """A duration as one would type it: ``90s`` is ``1m30s``, ``43200s`` is ``12h``."""
    from koord.api.duration import Duration

    whole = str(Duration.of_seconds(seconds))
    return re.sub(r"(?<=[hm])0[ms]", "", re.sub(r"(?<=[hm])0s", "", whole))
