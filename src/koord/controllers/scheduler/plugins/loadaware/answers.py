# SPDX-License-Identifier: Apache-2.0
"""Filter and score over the ledger's columns.

Rule: docs/reference/load.md#filter.

Mostly one row is asked about, the one that the last pod went to: for that plain integers are
several times as fast as arrays of one element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from koord.controllers.scheduler.framework.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.loadaware.ledger import Ledger, Standing
    from koord.controllers.scheduler.plugins.loadaware.measured import Amounts

EXPIRED = "node(s) nodeMetric expired"


class Weights(NamedTuple):
    """How much each resource counts in a score, and how much the one that is shortest."""

    by_resource: Sequence[int]
    dominant: int
    total: int

    @classmethod
    def of(cls, by_resource: Sequence[int], dominant: int) -> Self:
        """Weights with what the sum is divided by."""
        return cls(by_resource, dominant, sum(by_resource) + dominant)


def passes(
    ledger: Ledger, view: int, estimate: Amounts, rows: Rows, deadline: float | None, lenient: bool
) -> NDArray[np.bool_]:
    """By row, whether a pod may go there.

    Args:
        ledger: the load.
        view: of the filter.
        estimate: of the pod.
        rows: of the table.
        deadline: a NodeMetric that expires until then has expired; None if that does not matter.
        lenient: whether a row passes whose NodeMetric has expired.
    """
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        return np.array((_passes(ledger, view, estimate, int(rows[0]), deadline, lenient),))
    found = np.ones(len(ledger.reported[rows]), np.bool_)
    for resource, amount in enumerate(estimate):
        used = ledger.used[view, resource, rows]
        found &= used + amount <= ledger.bound[view, resource, rows]
    if deadline is not None:
        found[(ledger.fresh_until[rows] <= deadline) & ledger.enforced[view, rows]] = lenient
    return found


def _passes(
    ledger: Ledger, view: int, estimate: Amounts, row: int, deadline: float | None, lenient: bool
) -> bool:
    if deadline is not None and ledger.fresh_until[row] <= deadline and ledger.enforced[view, row]:
        return lenient
    used, bound = ledger.used[view, :, row].tolist(), ledger.bound[view, :, row].tolist()
    return all(used[index] + amount <= bound[index] for index, amount in enumerate(estimate))


def passes_as(
    standing: Standing, view: int, estimate: Amounts, deadline: float | None, lenient: bool
) -> bool:
    """What :func:`passes` says of one row as it stands, or once stood."""
    if deadline is not None and standing.fresh_until <= deadline and standing.enforced[view]:
        return lenient
    parts = zip(standing.used[view], estimate, standing.bound[view], strict=True)
    return all(used + amount <= bound for used, amount, bound in parts)


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


def lacks(
    ledger: Ledger, view: int, estimate: Amounts, row: int, deadline: float | None
) -> list[str]:
    """What a refused row has too much of: the load with the pod and the threshold, in percent.

    Args:
        ledger: the load.
        view: of the filter.
        estimate: of the pod.
        row: that was refused.
        deadline: as of :func:`refusal`.
    """
    if deadline is not None and ledger.fresh_until[row] <= deadline and ledger.enforced[view, row]:
        late = deadline - float(ledger.fresh_until[row])
        return [f"NodeMetric expired {late:.0f}s ago" if np.isfinite(late) else EXPIRED]
    found = []
    for place, percent in enumerate(ledger.percents(view, row)):
        used, capacity = int(ledger.used[view, place, row]), int(ledger.capacity[place, row])
        if used + estimate[place] > ledger.bound[view, place, row]:
            now, then = (100 * each / capacity for each in (used, used + estimate[place]))
            found.append(
                f"{ledger.names[place]} load {now:.1f}%, {then:.1f}% with the pod, "
                f"at most {percent}%"
            )
    return found


def score(
    ledger: Ledger, view: int, estimate: Amounts, weights: Weights, rows: Rows, now: float
) -> NDArray[np.int64]:
    """By row, 0 to 100."""
    if isinstance(rows, np.ndarray) and len(rows) == 1:
        return np.array((_score_one(ledger, view, estimate, weights, int(rows[0]), now),), np.int64)
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
    ledger: Ledger, view: int, estimate: Amounts, weights: Weights, row: int, now: float
) -> int:
    if not ledger.reported[row] or ledger.fresh_until[row] <= now:
        return 0
    total, least, by_resource = 0, 100, weights.by_resource
    used, capacity = ledger.used[view, :, row].tolist(), ledger.capacity[:, row].tolist()
    for index, amount in enumerate(estimate):
        left = capacity[index] - used[index] - amount
        part = left * 100 // capacity[index] if left > 0 else 0
        total += part * by_resource[index]
        if part < least:
            least = part
    return (total + least * weights.dominant) // max(weights.total, 1)
