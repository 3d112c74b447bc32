# SPDX-License-Identifier: Apache-2.0
"""Filter over the columns of the cache: whether a row stays within its thresholds with the pod.

Rule: docs/reference/load.md#filter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.rejection import Rejection

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.loadaware.cache import LoadCache, NodeLoad
    from koord.controllers.scheduler.plugins.loadaware.node_metric import AmountVector
    from koord.kernels.placement_board import LoadCheck

EXPIRED = "node(s) nodeMetric expired"


def load_check(
    cache: LoadCache, view: int, estimate: AmountVector, deadline: float | None, lenient: bool
) -> LoadCheck:
    """Whether a pod may go to a row, as :data:`koord.kernels.placement_board.load_within` takes it.

    Args:
        cache: the load.
        view: of the filter.
        estimate: of the pod.
        deadline: a NodeMetric that expires until then has expired; None if that does not matter.
        lenient: whether a row passes whose NodeMetric has expired.
    """
    now = -math.inf if deadline is None else deadline
    until = cache.checked_until[view]
    return cache.used[view], cache.limit[view], estimate, until, now, lenient


def passes_at(
    node_load: NodeLoad, view: int, estimate: AmountVector, deadline: float | None, lenient: bool
) -> bool:
    """What :func:`load_check` comes to for one row, with its load now or at an earlier moment."""
    if deadline is not None and node_load.expires_at <= deadline and node_load.enforced[view]:
        return lenient
    parts = zip(node_load.used[view], estimate, node_load.limit[view], strict=True)
    return all(used + amount <= limit for used, amount, limit in parts)


def rejection(
    plugin: str,
    cache: LoadCache,
    view: int,
    estimate: AmountVector,
    row: int,
    deadline: float | None,
) -> Rejection:
    """Why a row is rejected.

    Args:
        plugin: the name in the rejection.
        cache: the load.
        view: of the filter.
        estimate: of the pod.
        row: that was rejected.
        deadline: a NodeMetric that expires until then has expired; None if that does not matter.
    """
    expired = deadline is not None and cache.expires_at[row] <= deadline
    if expired and cache.enforced[view, row]:
        return Rejection(plugin, (EXPIRED,))
    over = cache.used[view, :, row] + estimate > cache.limit[view, :, row]
    kind = "aggregated usage" if cache.is_aggregated(view, row) else "usage"
    return Rejection(plugin, (f"node(s) {cache.names[over.argmax()]} {kind} exceed threshold",))
