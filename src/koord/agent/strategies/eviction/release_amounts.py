# SPDX-License-Identifier: Apache-2.0
"""How much is to be released where a node uses, or has promised, too much: columns, a row a node.

Rules: docs/reference/evictions.md#node-cpu-usage,
docs/reference/evictions.md#cpu-requests-above-allocatable,
docs/reference/evictions.md#node-memory-usage. Imports nothing of the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def by_usage(used: Ints, capacity: Ints, threshold_percent: Ints, lower_percent: Ints) -> Ints:
    """What is to go so that usage falls to the lower percentage; 0 below the threshold.

    Args:
        used: milli-cores or bytes.
        capacity: in the same unit; 0 or less releases nothing.
        threshold_percent: where eviction begins.
        lower_percent: where it ends, below the threshold.
    """
    some = capacity > 0
    percent = used * 100 // np.where(some, capacity, 1)
    release = capacity * (percent - lower_percent) // 100
    return np.where(some & (percent >= threshold_percent), release, 0)


def by_requests(
    requested: Ints,
    allocatable: Ints,
    threshold_percent: Ints,
    lower_percent: Ints,
    *,
    as_ratio: bool = False,
) -> Ints:
    """What of the requests is to go so that they fall to the lower percentage of allocatable.

    Everything where nothing is allocatable. Rows are (node, resource) pairs.

    Args:
        requested: milli-cores or bytes, 0 or more.
        allocatable: in the same unit, 0 for not offered.
        threshold_percent: of allocatable, above which eviction begins.
        lower_percent: of allocatable, where it ends.
        as_ratio: whether the difference is one of ratios, as memory is counted, or of amounts, as
            CPU is; the two may differ in the last unit.
    """
    some = allocatable > 0
    ratio = requested / np.where(some, allocatable, 1)
    lower = lower_percent / 100
    over = (ratio - lower) * allocatable if as_ratio else requested - lower * allocatable
    due = np.where(ratio > threshold_percent / 100, np.trunc(over), 0.0).astype(np.int64)
    return np.where(some, due, requested)
