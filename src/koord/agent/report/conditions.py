# SPDX-License-Identifier: Apache-2.0
"""The condition of a device. Rule: docs/reference/reports.md#health-of-devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.api.kinds.meta import Condition

if TYPE_CHECKING:
    from datetime import datetime

TYPE = "Healthy"
# What an API server accepts, docs/reference/reports.md#health-of-devices.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_UNHEALTHY = "Unknown", "device is unhealthy"
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32768


def condition(code: str, message: str, now: datetime, *, healthy: bool = False) -> Condition:
    """What is known of a device's health.

    Args:
        code: why, in a word; empty where nobody says. One that cannot be a reason stands before
            the message.
        message: why, in words; empty where nobody says.
        now: of its transition.
        healthy: whether the device may be used.
    """
    reason, text = ("DeviceHealthy", "device is healthy") if healthy else _UNHEALTHY
    text = message or text
    if len(code) > _LONGEST_REASON or (code and not _REASON.fullmatch(code)):
        code, text = "", f"{code}: {text}"
    return Condition(
        type=TYPE,
        status="True" if healthy else "False",
        reason=code or reason,
        message=text[:_LONGEST_MESSAGE],
        last_transition_time=now,
    )
