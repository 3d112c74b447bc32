# SPDX-License-Identifier: Apache-2.0
"""Time series in rings of fixed size, and the aggregates of a window, all from one pass; what
counters of many rows did between two readings.

Times are milliseconds since the Unix epoch. A sample up to a minute older than the newest is put in
its place; an older one, and a second one of the same time, is left out. A full ring drops its
oldest sample; a full store the oldest round, with the samples of all series. A percentile is the
value at index ``max(0, trunc(float32(n) * float32(p)) - 1)`` of the window's ascending values, as
Koordinator's metric cache picks it: no interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from koord._native.core import series as _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "PERCENTILES",
    "Appended",
    "CounterReadings",
    "Series",
    "SeriesStore",
    "Summaries",
    "Summary",
]

PERCENTILES = (0.5, 0.9, 0.95, 0.99)
"""The shares that node metrics report."""

_SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class Appended(IntEnum):
    """What became of a sample."""

    TAKEN = 0
    TOO_OLD = 1
    DUPLICATE = 2


@dataclass(frozen=True, slots=True)
class Summary:
    """A window of one series; averages, last and percentiles are NaN when it holds no sample."""

    count: int
    avg: float
    last: float
    oldest_ms: int
    newest_ms: int
    percentiles: list[float]


@dataclass(frozen=True, slots=True, eq=False)
class Summaries:
    """A window of n series: columns of n, percentiles of shape (n, shares)."""

    count: NDArray[np.int64]
    avg: NDArray[np.float64]
    last: NDArray[np.float64]
    oldest_ms: NDArray[np.int64]
    newest_ms: NDArray[np.int64]
    percentiles: NDArray[np.float64]


class Series:
    """One series of at most ``capacity`` samples.

    Raises:
        ValueError: capacity is not in 1 to 2^24.
    """

    def __init__(self, capacity: int) -> None:
        self._native = _native.Series(capacity)

    def append(self, time_ms: int, value: float) -> Appended:
        """Adds a sample. ValueError when the value is not finite."""
        return Appended(self._native.append(time_ms, value))

    def summarize(
        self, start_ms: int, end_ms: int, percentiles: Sequence[float] = PERCENTILES
    ) -> Summary:
        """All aggregates of the samples from start to end, both included.

        Raises:
            ValueError: a percentile is not a multiple of 0.001 in (0, 1].
        """
        return Summary(*self._native.summarize(start_ms, end_ms, percentiles))

    def aggregate(self, name: str, start_ms: int, end_ms: int) -> float:
        """One aggregate by name: avg, last, count, p50, p90, p95 or p99; any other is avg.

        Raises:
            ValueError: the window holds no sample, unless the name is count.
        """
        shares = [_SHARES[name]] if name in _SHARES else []
        summary = self.summarize(start_ms, end_ms, shares)
        if name == "count":
            return summary.count
        if summary.count == 0:
            raise ValueError(f"window: got [{start_ms}, {end_ms}], expected one with samples")
        if shares:
            return summary.percentiles[0]
        return summary.last if name == "last" else summary.avg

    def __len__(self) -> int:
        return self._native.size()

    def __repr__(self) -> str:
        return f"<Series of {len(self)} of at most {self._native.capacity()} samples>"


class SeriesStore:
    """Many series that are sampled together, appended to and summarised in one call each.

    The store keeps when its newest ``capacity`` rounds were, and a value of 8 bytes a series and
    round. Calls of one time are one round. What is late is so by the newest round of all series.

    Raises:
        ValueError: capacity is not in 1 to 2^24.
    """

    def __init__(self, capacity: int) -> None:
        self._native = _native.Store(capacity)

    def add(self) -> int:
        """A new, empty series; gives its id. Ids of removed series are given out again."""
        return self._native.add()

    def remove(self, series_id: int) -> None:
        """Forgets a series and frees its ring. KeyError when there is none of that id."""
        self._native.remove(series_id)

    def resize(self, capacity: int) -> None:
        """Keeps as many rounds from now on, and of those that there are the newest.

        Raises:
            ValueError: capacity is not in 1 to 2^24.
        """
        self._native.resize(capacity)

    def append(self, time_ms: int, ids: ArrayLike, values: ArrayLike) -> int:
        """One round: ``values[i]`` goes to ``ids[i]``; NaN and infinities are left out.

        Returns:
            How many samples were taken.

        Raises:
            KeyError: an id is unknown; nothing was appended.
            ValueError: the lengths differ.
        """
        return self._native.append(time_ms, ids, values)

    def summarize(
        self,
        ids: ArrayLike,
        start_ms: int,
        end_ms: int,
        percentiles: Sequence[float] = PERCENTILES,
    ) -> Summaries:
        """The aggregates of a window, both ends included, of each series in ``ids``.

        Raises:
            KeyError: an id is unknown.
            ValueError: a percentile is not a multiple of 0.001 in (0, 1].
        """
        return Summaries(*self._native.summarize(ids, start_ms, end_ms, percentiles))

    def __len__(self) -> int:
        return self._native.size()

    def __repr__(self) -> str:
        return f"<SeriesStore of {len(self)} series>"


class CounterReadings:
    """Counters of many rows as they were read last.

    Args:
        values: int64, a counter a row.
        at_seconds: float64, when each was read; minus infinity for never. Both are taken over, not
            copied, and brought up to date in place.

    Attributes:
        values, at_seconds: as they are now.
    """

    __slots__ = ("at_seconds", "values")

    def __init__(self, values: NDArray[np.int64], at_seconds: NDArray[np.float64]) -> None:
        self.values, self.at_seconds = values, at_seconds

    def advance(
        self,
        values: NDArray[np.int64],
        good: NDArray[np.bool_],
        at_seconds: float,
        kept_seconds: float,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Takes a reading in, and tells what happened since the one before.

        Args:
            values: the counters.
            good: rows that were read; the others keep the reading that they had.
            at_seconds: when, by a clock that does not go back.
            kept_seconds: a reading before that is older does not count.

        Returns:
            Amounts and seconds, a row each: 0 and NaN where there is no telling. That is the first
            reading, one that failed now or before, a counter that went back, a reading before that
            is too old, or none before this one.

        Raises:
            ValueError: not as many rows as there are; nothing was taken in.
        """
        return _native.advance_counters(
            self.values, self.at_seconds, values, good, at_seconds, kept_seconds
        )
