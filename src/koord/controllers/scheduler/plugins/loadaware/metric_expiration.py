# SPDX-License-Identifier: Apache-2.0
"""Which rows' NodeMetrics expired since an answer was given: no event comes of that."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT = 4096


class MetricExpirations:
    """Moments at which rows expire, and a log of those that did."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int]] = []
        self._log: list[int] = []
        self._start = 0

    def put(self, row: int, seconds: float) -> None:
        """A row expires at a moment, unless another is put later on."""
        if seconds != -np.inf:
            heapq.heappush(self._due, (seconds, row))

    def passed(self, now: float, expires_at: NDArray[np.float64]) -> int:
        """How many rows have expired by now, in all.

        Args:
            now: wall seconds.
            expires_at: by row, the moment that holds: rows have been put several times.
        """
        due = self._due
        while due and due[0][0] <= now:
            seconds, row = heapq.heappop(due)
            if expires_at[row] == seconds:
                self._log.append(row)
        if len(self._log) > _KEPT:
            half = len(self._log) // 2
            del self._log[:half]
            self._start += half
        return self._start + len(self._log)

    def since(self, count: int) -> NDArray[np.intp] | None:
        """The rows that expired after :meth:`passed` gave a count; None if that is too long ago."""
        if count < self._start:
            return None
        return np.array(sorted(set(self._log[count - self._start :])), np.intp)
