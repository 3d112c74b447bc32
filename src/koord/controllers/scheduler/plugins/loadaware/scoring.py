# SPDX-License-Identifier: Apache-2.0
"""Score over the columns of the cache: the weighted share of each resource that stays unused.

Rule: docs/reference/load.md#score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.loadaware.cache import LoadCache
    from koord.controllers.scheduler.plugins.loadaware.node_metric import AmountVector


class ScoreWeights(NamedTuple):
    """How much each resource counts in a score, and how much the one that is shortest."""

    by_resource: Sequence[int]
    dominant: int
    total: int

    @classmethod
    def of(cls, by_resource: Sequence[int], dominant: int) -> Self:
        """Weights with what the sum is divided by."""
        return cls(by_resource, dominant, sum(by_resource) + dominant)


def score(
    cache: LoadCache,
    view: int,
    estimate: AmountVector,
    weights: ScoreWeights,
    rows: Rows,
    now: float,
) -> NDArray[np.int64]:
    """By row, 0 to 100; 0 where the NodeMetric is missing or has expired.

    Args:
        cache: the load.
        view: of the score.
        estimate: of the pod.
        weights: of resources.
        rows: of the table.
        now: wall seconds.
    """
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        return np.array((_score_one(cache, view, estimate, weights, int(rows[0]), now),), np.int64)
    valid = cache.reported[rows] & (cache.expires_at[rows] > now)
    total = np.zeros(len(valid), np.int64)
    least = np.full(len(valid), 100, np.int64)
    for resource, (amount, weight) in enumerate(zip(estimate, weights.by_resource, strict=True)):
        if not weight and not weights.dominant:
            continue
        capacity = cache.capacity[resource, rows]
        left = capacity - (cache.used[view, resource, rows] + amount)
        part = np.where(left < 0, 0, left) * 100 // np.maximum(capacity, 1)
        total += part * weight
        np.minimum(least, part, out=least)
    total = (total + least * weights.dominant) // max(weights.total, 1)
    return np.where(valid, total, 0)


def _score_one(
    cache: LoadCache,
    view: int,
    estimate: AmountVector,
    weights: ScoreWeights,
    row: int,
    now: float,
) -> int:
    if not cache.reported[row] or cache.expires_at[row] <= now:
        return 0
    total, least, by_resource = 0, 100, weights.by_resource
    used, capacity = cache.used[view, :, row].tolist(), cache.capacity[:, row].tolist()
    for index, amount in enumerate(estimate):
        left = capacity[index] - used[index] - amount
        part = left * 100 // capacity[index] if left > 0 else 0
        total += part * by_resource[index]
        if part < least:
            least = part
    return (total + least * weights.dominant) // max(weights.total, 1)
