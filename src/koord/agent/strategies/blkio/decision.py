# SPDX-License-Identifier: Apache-2.0
"""Limits, weights and cost of block devices: columns in, columns out, one row a (target, device).

Rule: docs/reference/strategies.md#lines-of-a-device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

UNSET = -1
NO_LIMIT = 0
FULL_WEIGHT = 100
DEFAULT_LATENCY_PERCENT = 95
DEFAULT_LATENCY_US = 3000


def throttles(configured: Ints) -> Ints:
    """A limit in operations or bytes a second; 0, which is none, where nothing is configured."""
    return np.where(configured == UNSET, NO_LIMIT, configured)


def weights(configured: Ints) -> Ints:
    """The weight of a class on a device, 100 where nothing is configured."""
    return np.where(configured == UNSET, FULL_WEIGHT, configured)


def latencies(configured_us: Ints, configured_percent: Ints) -> tuple[Ints, Ints]:
    """Target latency in microseconds and the percentile it holds for, with their defaults."""
    latency = np.where(configured_us == UNSET, DEFAULT_LATENCY_US, configured_us)
    share = np.where(configured_percent == UNSET, DEFAULT_LATENCY_PERCENT, configured_percent)
    return latency, share
