# SPDX-License-Identifier: Apache-2.0
"""The published experiment's tables: one value a percent of arrived load, 0 to 130."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koord.kernels.placement import GPU_MILLI, ReplayRows

BINS = 131

Table = dict[int, float | None]
"""By bin; None where nothing arrived near it."""


def allocation(rows: ReplayRows, gpus: int) -> Table:
    """Allocated GPU milli in percent of all, by arrived percent; two decimals."""
    used = np.round(rows.used_milli / (gpus * GPU_MILLI / 100), 2)
    return _table(_bins(rows, gpus), used, decimals=2)


def fragmentation(rows: ReplayRows, gpus: int) -> Table:
    """Fragmentation amount in percent of all GPU milli, by arrived percent; two decimals."""
    amount = np.round(rows.fragment_milli, 2) * (100 / GPU_MILLI / gpus)
    return _table(_bins(rows, gpus), amount, decimals=2)


def fragmentation_ratio(rows: ReplayRows, gpus: int) -> Table:
    """Fragmentation amount in percent of what is free, by arrived percent."""
    return _table(_bins(rows, gpus), np.round(rows.fragment_percent, 2), decimals=None)


def curves(tables: Sequence[Table]) -> NDArray[np.float64]:
    """Tables as an array of shape (tables, bins), NaN for an empty bin."""
    rows = [[np.nan if value is None else value for value in table.values()] for table in tables]
    return np.array(rows, np.float64)


def _bins(rows: ReplayRows, gpus: int) -> NDArray[np.int64]:
    # rint rounds halves to even, as the published tables do.
    return np.rint(rows.arrived_milli / (gpus * GPU_MILLI / 100)).astype(np.int64)


def _table(bins: NDArray[np.int64], values: NDArray[np.float64], decimals: int | None) -> Table:
    table: Table = {}
    for cell in range(BINS):
        # Arrivals only grow, so the rows of a bin lie together.
        inside = values[np.searchsorted(bins, cell) : np.searchsorted(bins, cell, "right")]
        if not inside.size:
            first, last = np.searchsorted(bins, cell - 1), np.searchsorted(bins, cell + 1, "right")
            inside = values[first:last]
        table[cell] = _mean(inside, decimals) if inside.size else None
    return table


def _mean(values: NDArray[np.float64], decimals: int | None) -> float:
    mean = values.mean()
    # NumPy's rounding, which scales before it rounds, is the one that the published tables went
    # through: it takes 91.035 to 91.04, Python's own takes it to 91.03.
    return float(mean if decimals is None else np.round(mean, decimals))
