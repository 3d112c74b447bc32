# SPDX-License-Identifier: Apache-2.0
"""Filter and score over the ledger's columns (scheduler spec, sections 4.4 and 4.5).

Mostly one row is asked about, the one that the last pod went to: for that plain integers are
several times as fast as arrays of one element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.scheduler.framework.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.loadaware.ledger import Ledger
    from koord.controllers.scheduler.plugins.loadaware.measured import Amounts

EXPIRED = "node(s) nodeMetric expired"


class Weights(NamedTuple):
    """How much each resource counts in a score, and how much the one that is shortest."""

    by_resource: Sequence[int]
    dominant: int

    @property
    def total(self) -> int:
        """What the sum is divided by."""
        return sum(self.by_resource) + self.dominant


def within(ledger: Ledger, view: int, estimate: Amounts, rows: Rows) -> NDArray[np.bool_]:
    """By row, whether its use and an estimate are within its bounds together."""
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        row = rows[0]
        used, bound = ledger.used[view, :, row].tolist(), ledger.bound[view, :, row].tolist()
        fits = all(u + e <= b for u, e, b in zip(used, estimate, bound, strict=True))
        return np.array((fits,))
    found = np.ones(len(ledger.reported[rows]), np.bool_)
    for resource, amount in enumerate(estimate):
        used = ledger.used[view, resource, rows]
        found &= used + amount <= ledger.bound[view, resource, rows]
    return found


def refusal(
    plugin: str, ledger: Ledger, view: int, estimate: Amounts, row: int, deadline: float | None
) -> Rejection:
    """Why a row is refused.

    Args:
        plugin: who refuses.
        ledger: the load.
        view: of the filter.
        estimate: of the pod.
        row: that was refused.
        deadline: a NodeMetric that expires until then has expired; None if that does not matter.
    """
    expired = deadline is not None and ledger.fresh_until[row] <= deadline
    if expired and ledger.enforced[view, row]:
        return Rejection(plugin, (EXPIRED,))
    over = ledger.used[view, :, row] + estimate > ledger.bound[view, :, row]
    kind = "aggregated usage" if ledger.is_aggregated(view, row) else "usage"
    return Rejection(plugin, (f"node(s) {ledger.names[over.argmax()]} {kind} exceed threshold",))


def score(
    ledger: Ledger, view: int, estimate: Amounts, weights: Weights, rows: Rows, now: float
) -> NDArray[np.int64]:
    """By row, 0 to 100."""
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        return np.array((_score_one(ledger, view, estimate, weights, rows[0], now),), np.int64)
    valid = ledger.reported[rows] & (ledger.fresh_until[rows] > now)
    total = np.zeros(len(valid), np.int64)
    least = np.full(len(valid), 100, np.int64)
    for resource, (amount, weight) in enumerate(zip(estimate, weights.by_resource, strict=True)):
        if not weight and not weights.dominant:
            continue
        capacity = ledger.capacity[resource, rows]
        left = capacity - (ledger.used[view, resource, rows] + amount)
        part = np.where(left < 0, 0, left) * 100 // np.maximum(capacity, 1)
        total += part * weight
        np.minimum(least, part, out=least)
    total = (total + least * weights.dominant) // max(weights.total, 1)
    return np.where(valid, total, 0)


def _score_one(
    ledger: Ledger, view: int, estimate: Amounts, weights: Weights, row: np.intp, now: float
) -> int:
    if not ledger.reported[row] or ledger.fresh_until[row] <= now:
        return 0
    total, least = 0, 100
    columns = ledger.used[view, :, row].tolist(), ledger.capacity[:, row].tolist()
    for used, capacity, amount, weight in zip(*columns, estimate, weights.by_resource, strict=True):
        left = capacity - used - amount
        part = left * 100 // capacity if left > 0 else 0
        total += part * weight
        least = min(least, part)
    return (total + least * weights.dominant) // max(weights.total, 1)
