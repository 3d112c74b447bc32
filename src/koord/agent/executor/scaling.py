# SPDX-License-Identifier: Apache-2.0
"""CPU normalization of a quota, as the executor and the other deliveries of hooks do it."""

from __future__ import annotations

import math


def scaled_quota_us(quota_us: int, ratio: float) -> int:
    """``ceil(quota / ratio)`` of a positive quota for a ratio above 1; else the quota as it is.

    In doubles, as in Koordinator: both must come to the same quota.
    Rule: docs/reference/hooks.md#cpunormalization.
    """
    return math.ceil(quota_us / ratio) if quota_us > 0 and ratio > 1.0 else quota_us
