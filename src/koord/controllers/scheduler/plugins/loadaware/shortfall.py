# SPDX-License-Identifier: Apache-2.0
"""By how much the load of a node that rejects a pod is above its thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.plugins.loadaware.filtering import EXPIRED

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.loadaware.cache import LoadCache
    from koord.controllers.scheduler.plugins.loadaware.node_metric import AmountVector


def load_shortfalls(
    cache: LoadCache, view: int, estimate: AmountVector, row: int, deadline: float | None
) -> list[str]:
    """What a rejected row has too much of: the load with the pod and the threshold, in percent.

    Args:
        cache: the load.
        view: of the filter.
        estimate: of the pod.
        row: that was rejected.
        deadline: a NodeMetric that expires until then has expired; None if that does not matter.
    """
    if deadline is not None and cache.expires_at[row] <= deadline and cache.enforced[view, row]:
        late = deadline - float(cache.expires_at[row])
        return [f"NodeMetric expired {late:.0f}s ago" if np.isfinite(late) else EXPIRED]
    lines = []
    for place, percent in enumerate(cache.percents(view, row)):
        used, capacity = int(cache.used[view, place, row]), int(cache.capacity[place, row])
        if used + estimate[place] > cache.limit[view, place, row]:
            now = 100 * used / capacity
            then = 100 * (used + estimate[place]) / capacity
            lines.append(
                f"{cache.names[place]} load {now:.1f}%, {then:.1f}% with the pod, "
                f"at most {percent}%"
            )
    return lines
