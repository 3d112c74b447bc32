# SPDX-License-Identifier: Apache-2.0
"""Filter over the columns of the cache: whether a row stays within its thresholds with the pod.

Rule: docs/reference/load.md#filter.

Mostly one row is asked about, the one that the last pod went to: for that plain integers are
several times as fast as arrays of one element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.rejection import Rejection

if TYPE_CHECKING:
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
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        return np.array((_passes(cache, view, estimate, int(rows[0]), deadline, lenient),))
    within = np.ones(len(cache.reported[rows]), np.bool_)
    for resource, amount in enumerate(estimate):
        used = cache.used[view, resource, rows]
        within &= used + amount <= cache.limit[view, resource, rows]
    if deadline is not None:
        within[(cache.expires_at[rows] <= deadline) & cache.enforced[view, rows]] = lenient
    return within


def _passes(
    cache: LoadCache,
    view: int,
    estimate: AmountVector,
    row: int,
    deadline: float | None,
    lenient: bool,
) -> bool:
    if deadline is not None and cache.expires_at[row] <= deadline and cache.enforced[view, row]:
        return lenient
    used, limits = cache.used[view, :, row].tolist(), cache.limit[view, :, row].tolist()
    return all(used[index] + amount <= limits[index] for index, amount in enumerate(estimate))


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
