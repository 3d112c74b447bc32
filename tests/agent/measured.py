# SPDX-License-Identifier: Apache-2.0
"""A metric reader for tests: samples put in one by one, windows computed the plain way."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.reader import SeriesRows, Window
from koord.kernels.series import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.metrics.metric_kinds import MetricKind


class Measured:
    """Series by kind and labels."""

    def __init__(self) -> None:
        self._series: dict[tuple[MetricKind, tuple[str, ...]], Series] = defaultdict(
            lambda: Series(5000)
        )

    def put(self, kind: MetricKind, time_ms: int, value: float, *labels: str) -> None:
        """One sample."""
        self._series[kind, labels].append(time_ms, value)

    def read(
        self,
        kind: MetricKind,
        window: Window,
        percentiles: Sequence[float] = (),
        match: Sequence[str | None] = (),
    ) -> SeriesRows:
        """See :class:`koord.agent.metrics.reader.MetricReader`."""
        labels, found = [], []
        for (of, names), series in sorted(self._series.items()):
            wanted = all(w in (None, n) for w, n in zip(match, names, strict=False))
            summary = series.summarize(window.start_ms, window.end_ms, percentiles)
            if of == kind and wanted and summary.count:
                labels.append(names)
                found.append(summary)
        return SeriesRows(
            labels,
            np.array([each.avg for each in found]),
            np.array([each.last for each in found]),
            np.array([each.count for each in found], np.int64),
            np.array([each.oldest_ms for each in found], np.int64),
            np.array([each.newest_ms for each in found], np.int64),
            np.array([each.percentiles for each in found]).reshape(len(found), len(percentiles)),
        )

    def last_window(self, now_ms: int) -> Window:
        """Two seconds."""
        return Window(now_ms - 2000, now_ms)
