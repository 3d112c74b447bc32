# SPDX-License-Identifier: Apache-2.0
"""How offers moved over the last hour: so many steps a row at most, whatever happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from koord.controllers.manager.overcommit.column_groups import joined
from koord.controllers.manager.overcommit.explain.breakdown_lines import camel
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache

KEPT_SECONDS = 3600.0
MOST_STEPS = 64
"""More than one a minute, which is how often agents report."""


class OfferChange(msgspec.Struct, frozen=True, rename="camel"):
    """What was offered from a moment on, until the next step.

    Args:
        seconds: wall time.
        reason: why nothing was offered, by name; empty where something was.
    """

    seconds: float
    reason: str
    batch_cpu_milli: int
    batch_memory_bytes: int
    mid_cpu_milli: int
    mid_memory_bytes: int


class OfferChanges(msgspec.Struct, frozen=True, rename="camel"):
    """The last hour of a row.

    Args:
        since_seconds: wall time from which it is complete; None if nothing is known.
        steps: what was in force then, and each change since, the oldest first.
    """

    since_seconds: float | None
    steps: list[OfferChange]


class _Columns(NamedTuple):
    """Rings, ``[..., steps, rows]``, and what is known of them, ``[rows]``."""

    seconds: NDArray[np.float64]
    amounts: NDArray[np.int64]
    degraded: NDArray[np.uint8]
    added: NDArray[np.int64]


class OfferHistory:
    """The steps of every row."""

    def __init__(self) -> None:
        self._columns = _empty_columns(0)
        self._names: list[str] = []

    def add(self, ledger: OvercommitCache, rows: NDArray[np.intp], now: float) -> None:
        """Takes down what some rows offer now, as the ledger's recompute has returned them."""
        self._reach(len(ledger))
        columns = self._columns
        for row in rows.tolist():
            name = ledger.name(row)
            if name != self._names[row]:
                self._names[row] = name
                columns.added[row] = 0
        at = columns.added[rows] % MOST_STEPS
        columns.seconds[at, rows] = now
        columns.amounts[:2, at, rows] = ledger.batch.amounts[:, rows]
        columns.amounts[2:, at, rows] = ledger.mid.amounts[:, rows]
        columns.degraded[at, rows] = ledger.batch.degraded[rows]
        columns.added[rows] += 1

    def of(self, row: int, now: float) -> OfferChanges:
        """The last hour of a row, as seen at a moment."""
        if row >= len(self._names) or not self._columns.added[row]:
            return OfferChanges(None, [])
        added = int(self._columns.added[row])
        kept = range(max(0, added - MOST_STEPS), added)
        steps = [self._step(at % MOST_STEPS, row) for at in kept]
        begin = now - KEPT_SECONDS
        first = max((at for at, step in enumerate(steps) if step.seconds <= begin), default=0)
        return OfferChanges(max(begin, steps[first].seconds), steps[first:])

    def _step(self, at: int, row: int) -> OfferChange:
        columns = self._columns
        degraded = DegradeReason(int(columns.degraded[at, row]))
        return OfferChange(
            float(columns.seconds[at, row]),
            "" if degraded is DegradeReason.NO else camel(degraded),
            *(int(amount) for amount in columns.amounts[:, at, row]),
        )

    def _reach(self, rows: int) -> None:
        have = len(self._columns.added)
        if rows > have:
            self._columns = joined(self._columns, _empty_columns(max(rows, 2 * have) - have))
        self._names += [""] * (rows - len(self._names))


def _empty_columns(rows: int) -> _Columns:
    return _Columns(
        np.zeros((MOST_STEPS, rows)),
        np.zeros((4, MOST_STEPS, rows), np.int64),
        np.zeros((MOST_STEPS, rows), np.uint8),
        np.zeros(rows, np.int64),
    )
