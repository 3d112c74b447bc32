# SPDX-License-Identifier: Apache-2.0
"""Adds up scores and picks the best node; among equals the first by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.framework.verdicts import normalized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.verdicts import Verdict


def totals(
    cycle: Cycle, verdict: Verdict, scores: Sequence[tuple[Any, int]], feasible: NDArray[np.intp]
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """By feasible row, the weighted sum of normalised scores, and each plugin's part of it."""
    total = np.zeros(len(feasible), np.int64)
    parts: dict[str, NDArray[np.int64]] = {}
    for (plugin, weight), raw in zip(scores, verdict.raw, strict=True):
        if raw is None:
            continue
        if plugin.normalization is Normalization.CUSTOM:
            part = plugin.normalize(cycle, raw[feasible], feasible)
        else:
            part = normalized(plugin.normalization, raw[feasible])
        parts[plugin.name] = part * weight
        total += parts[plugin.name]
    return total, parts


def best(
    cycle: Cycle, verdict: Verdict, scores: Sequence[tuple[Any, int]], feasible: NDArray[np.intp]
) -> int:
    """The row with the highest total, the first by name among equals.

    Args:
        feasible: rows that all filters let pass, ascending; at least one.
    """
    if len(feasible) == 1:
        return int(feasible[0])
    total, _ = totals(cycle, verdict, scores, feasible)
    rank = cycle.table.rank
    return int(feasible[np.argmax(total * cycle.table.size - rank[feasible])])
