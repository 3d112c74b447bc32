# SPDX-License-Identifier: Apache-2.0
"""Score over the columns of the cache: the weighted share of each resource that stays unused.

Rule: docs/reference/load.md#score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.scheduler.plugins.loadaware.cache import LoadCache
    from koord.controllers.scheduler.plugins.loadaware.node_metric import AmountVector
    from koord.kernels.placement_board import LoadRating


class ScoreWeights(NamedTuple):
    """How much each resource counts in a score, and how much the one that is shortest."""

    by_resource: Sequence[int]
    dominant: int

    def __bool__(self) -> bool:
        """Whether anything counts."""
        return any(self.by_resource) or self.dominant > 0


def load_rating(
    cache: LoadCache, view: int, estimate: AmountVector, weights: ScoreWeights, now: float
) -> LoadRating:
    """How a pod rates rows, 0 to 100, as :data:`koord.kernels.placement_board.load_scores` takes
    it after a key: 0 where the NodeMetric is missing or has expired.

    Args:
        cache: the load.
        view: of the score.
        estimate: of the pod.
        weights: of resources.
        now: wall seconds.
    """
    columns = cache.used[view], cache.capacity
    return cache.keys[view], *columns, estimate, *weights, cache.scored_until, now
