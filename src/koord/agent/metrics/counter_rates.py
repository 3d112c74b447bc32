# SPDX-License-Identifier: Apache-2.0
"""Counters into differences: a row a series, the previous reading of each kept for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.kernels.series import CounterReadings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.agent.metrics.samples import Keys, Labels

KEPT_INTERVALS = 20


class CounterDifference(NamedTuple):
    """What happened since the reading before.

    Attributes:
        amount: int64 a row; 0 where there is no difference to tell.
        seconds: float64 a row, above 0; NaN where there is none: the first reading, one that failed
            now or before, a counter that went back, a reading before that is too old.
    """

    amount: NDArray[np.int64]
    seconds: NDArray[np.float64]

    def per_second(self) -> NDArray[np.float64]:
        """Amount over time; NaN where there is none."""
        return self.amount / self.seconds


class CounterRates:
    """Previous readings of one counter for many rows.

    Args:
        interval_seconds: between readings; one older than 20 of them does not count any more.
    """

    def __init__(self, interval_seconds: float) -> None:
        self._kept_seconds = KEPT_INTERVALS * interval_seconds
        self._keys: Keys = ()
        self._readings = CounterReadings(np.empty(0, np.int64), np.empty(0))

    def advance(
        self, keys: Keys, values: NDArray[np.int64], good: NDArray[np.bool_], at_seconds: float
    ) -> CounterDifference:
        """Takes a reading in and tells what changed.

        Args:
            keys: a label tuple a row; the same object again means the same rows.
            values: the counters.
            good: rows that were read; the others keep the reading that they had.
            at_seconds: monotonic time of the reading.
        """
        self._align(keys)
        found = self._readings.advance(values, good, at_seconds, self._kept_seconds)
        return CounterDifference(*found)

    def _align(self, keys: Keys) -> None:
        if keys is self._keys:
            return
        before = self._readings
        row_of: dict[Labels, int] = {key: row for row, key in enumerate(self._keys)}
        rows = np.array([row_of.get(key, -1) for key in keys], np.int64)
        known = rows >= 0
        values, at = np.zeros(len(keys), np.int64), np.full(len(keys), -np.inf)
        values[known], at[known] = before.values[rows[known]], before.at_seconds[rows[known]]
        self._keys, self._readings = keys, CounterReadings(values, at)
