# SPDX-License-Identifier: Apache-2.0
"""Filter over the columns of the cache: whether a row stays within its thresholds with the pod.

Rule: docs/reference/load.md#filter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.kernels.placement_board import load_within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.loadaware.cache import LoadCache, NodeLoad
    from koord.controllers.scheduler.plugins.loadaware.node_metric import AmountVector

EXPIRED = "node(s) nodeMetric expired"


def passes(
    cache: LoadCache,
    view: int,
    estimate: AmountVector,
    rows: Rows,
    deadline: float | None,
    lenient: bool,
) -> NDArray[np.bool_]:
    """By row, whether a pod may go there.

    Args:
        cache: the load.
        view: of the filter.
        estimate: of the pod.
        rows: of the table.
        deadline: a NodeMetric that expires until then has expired; None if that does not matter.
        lenient: whether a row passes whose NodeMetric has expired.
    """
    columns = cache.used[view], cache.limit[view]
    now = -math.inf if deadline is None else deadline
    return load_within(*columns, estimate, cache.checked_until[view], now, lenient, rows)


def passes_at(
    node_load: NodeLoad, view: int, estimate: AmountVector, deadline: float | None, lenient: bool
) -> bool:
    """What :func:`passes` answers for one row, with its load now or at an earlier moment."""
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
