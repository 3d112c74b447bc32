# SPDX-License-Identifier: Apache-2.0
"""Whether best-effort pods get too little CPU, and how much of their requests is to go.

Columns in, columns out, one row a node, milli-cores.
Rule: docs/reference/evictions.md#be-satisfaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

USAGE_THRESHOLD_PERCENT = 90
"""Of their limit, below which BE pods do not want more; where nothing else is configured."""
_ONE_CORE_MILLI = 1000


@dataclass(frozen=True, slots=True, eq=False)
class BestEffortColumns:
    """What BE pods use, ask for and may use; averages of a window, or last values."""

    usage_milli: Floats
    request_milli: Floats
    limit_milli: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SatisfactionThresholds:
    """The configured percentages."""

    lower_percent: Ints
    upper_percent: Ints
    usage_threshold_percent: Ints


def covered(samples: Ints, interval_seconds: float, window_seconds: Ints) -> Bools:
    """Whether the samples of a window make up a third of it."""
    return samples * interval_seconds >= window_seconds // 3


def releases(
    average: BestEffortColumns, last: BestEffortColumns, config: SatisfactionThresholds
) -> Ints:
    """What of the requests is to go; 0 where BE pods are satisfied or idle.

    Both the average and the last values must say so, and the lesser amount counts.
    """
    by_average, by_last = _release(average, config), _release(last, config)
    same = (last.request_milli == average.request_milli) & (last.limit_milli == average.limit_milli)
    amount = np.where(same, by_average, np.minimum(by_average, by_last))
    busy = _busy(average, config) & _busy(last, config)
    return np.where(busy, np.maximum(amount, 0), 0)


def _busy(tier: BestEffortColumns, config: SatisfactionThresholds) -> Bools:
    some = tier.limit_milli > 0
    ratio = tier.usage_milli / np.where(some, tier.limit_milli, 1.0)
    enough = ratio >= config.usage_threshold_percent / 100
    return some & (enough | (tier.limit_milli < _ONE_CORE_MILLI))


def _release(tier: BestEffortColumns, config: SatisfactionThresholds) -> Ints:
    some = tier.request_milli > 0
    satisfied = tier.limit_milli / np.where(some, tier.request_milli, 1.0)
    gap = config.upper_percent / 100 - satisfied
    due = some & (satisfied <= config.lower_percent / 100) & (gap > 0)
    return np.where(due, np.trunc(tier.request_milli * gap), 0.0).astype(np.int64)
