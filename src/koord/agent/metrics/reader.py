# SPDX-License-Identifier: Apache-2.0
"""How strategies and reports read what was measured: windows over series, a row a series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.agent.metrics.metric_kinds import MetricKind


class Window(NamedTuple):
    """A span of wall time in milliseconds, both ends included."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class SeriesRows:
    """A window of every series of a kind that matched; only series with samples in it.

    Attributes:
        labels: label values in the kind's order, a tuple a row; rows by labels ascending.
        avg, last: float64, a value a row.
        count, oldest_ms, newest_ms: int64, a value a row.
        percentiles: float64 of shape (rows, percentiles asked for).
    """

    labels: list[tuple[str, ...]]
    avg: NDArray[np.float64]
    last: NDArray[np.float64]
    count: NDArray[np.int64]
    oldest_ms: NDArray[np.int64]
    newest_ms: NDArray[np.int64]
    percentiles: NDArray[np.float64]

    def by_label(self, values: NDArray[np.float64], at: int = 0) -> dict[str, float]:
        """A column by the label at a position, say usage by pod UID."""
        return {
            labels[at]: value for labels, value in zip(self.labels, values.tolist(), strict=True)
        }


class MetricReader(Protocol):
    """The metric cache as its readers see it."""

    def read(
        self,
        kind: MetricKind,
        window: Window,
        percentiles: Sequence[float] = (),
        match: Sequence[str | None] = (),
    ) -> SeriesRows:
        """One pass over the window of each series; ``match`` gives label values, None for any."""
        ...

    def last_window(self, now_ms: int) -> Window:
        """The window of "last" reads: twice the interval in which usage is collected."""
        ...
