# SPDX-License-Identifier: Apache-2.0
"""Moments as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds_text(moment: float | datetime) -> str:
    """RFC 3339 in whole seconds, as ``metav1.Time``.

    Args:
        moment: wall time, in seconds since the Unix epoch or with a time zone.
    """
    return _in_utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros_text(moment: float | datetime) -> str:
    """RFC 3339 with six digits after the second, as ``metav1.MicroTime``."""
    return _in_utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _in_utc(moment: float | datetime) -> datetime:
    if isinstance(moment, datetime):
        return moment.astimezone(UTC)
    return datetime.fromtimestamp(moment, UTC)
