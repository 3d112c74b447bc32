# SPDX-License-Identifier: Apache-2.0
"""How long ago something was, as ``kubectl get`` shows it."""

from __future__ import annotations

from datetime import datetime

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400


def age(timestamp: str | None, now_seconds: float) -> str:
    """How long ago a time was, as kubectl shows it: ``45s``, ``3m10s``, ``5d``.

    Args:
        timestamp: RFC 3339; None for unknown.
        now_seconds: seconds since the epoch.
    """
    if timestamp is None:
        return "<unknown>"
    return human_duration(now_seconds - datetime.fromisoformat(timestamp).timestamp())


def human_duration(seconds: float) -> str:
    """A length of time in at most two units (apimachinery's ``HumanDuration``)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big}{big_name}" + (f"{rest}{small_name}" if rest else "")
