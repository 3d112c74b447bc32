# SPDX-License-Identifier: Apache-2.0
"""The metric cache: rings in fixed memory, read as windows.

Rule: docs/reference/measuring.md#metric-cache.

What is kept is what is asked for: a ring begins as long as the windows that koord's own readers ask
a kind for, and grows, with what it holds, when somebody asks for a longer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.metric_kinds import LABELS, MetricKind
from koord.agent.metrics.options import OWNED, MetricsOptions
from koord.agent.metrics.reader import SeriesRows, Window
from koord.agent.metrics.storage.series_rings import SAMPLE_BYTES, SERIES_BYTES, SeriesRings
from koord.base import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.metrics.samples import Samples

GRACE_SECONDS = 120.0
"""How long the series of a pod stay after its last sample."""
_LOG = log.get("agent.metrics")


class MetricCache:
    """What was measured of late; a :class:`koord.agent.metrics.reader.MetricReader`.

    Args:
        settings: intervals, and the bounds on length and memory.
        grace_seconds: how long a series of a pod, a container or a host application outlives its
            last sample; others stay as long as the longest window of their kind.
    """

    def __init__(
        self, settings: MetricsOptions | None = None, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self._settings = settings or MetricsOptions()
        self._grace_seconds = grace_seconds
        self._rings: dict[MetricKind, SeriesRings] = {}
        self._windows: dict[MetricKind, float] = {}
        self._warned: set[str] = set()

    @property
    def series(self) -> int:
        """How many there are."""
        return sum(map(len, self._rings.values()))

    @property
    def bytes(self) -> int:
        """Memory of all rings and their tables."""
        return sum(shelf.bytes for shelf in self._rings.values())

    def append(self, samples: Samples) -> int:
        """Takes a round in; gives how many samples were taken.

        Raises:
            ValueError: a row does not have exactly its kind's labels, or values are not a row each.
        """
        taken = 0
        for kind, labels, values in samples.columns:
            if len(values) != len(labels) or len(labels[0]) != len(LABELS[kind]):
                raise ValueError(f"{kind}: got {len(values)} values for {labels[:1]} and its like")
            taken += self._rings_of(kind).append(samples.time_ms, labels, values)
        return taken

    def read(
        self,
        kind: MetricKind,
        window: Window,
        percentiles: Sequence[float] = (),
        match: Sequence[str | None] = (),
    ) -> SeriesRows:
        """One pass over the window of each series; ``match`` gives label values, None for any.

        Raises:
            ValueError: a percentile is not a multiple of 0.001 in (0, 1], or more label values are
                given than the kind has labels.
        """
        if len(match) > len(LABELS[kind]):
            raise ValueError(f"match: got {match!r}, expected at most {LABELS[kind]}")
        if kind not in self._rings:
            return _empty(len(percentiles))
        self._widen(kind, (window.end_ms - window.start_ms) / 1000)
        return self._rings[kind].rows(window, percentiles, match)

    def last_window(self, now_ms: int) -> Window:
        """The window of "last" reads: twice the interval in which usage is collected."""
        return Window(now_ms - round(2000 * self._settings.used), now_ms)

    def expire(self, now_ms: int) -> int:
        """Removes the series of what is gone; gives how many.

        Counted from the newest round of each kind, so that a collector that fails for a while does
        not lose what a window still reaches.
        """
        dropped = 0
        for kind, shelf in self._rings.items():
            grace = self._grace_seconds + self._settings.interval_seconds(kind)
            if not kind.startswith(OWNED):
                grace = max(grace, self._windows[kind])
            # A kind of which nothing comes any more at all ages by the clock.
            newest = max(shelf.newest_ms, now_ms - round(1000 * self._windows[kind]))
            dropped += shelf.drop_silent(newest - round(1000 * grace))
        return dropped

    def _rings_of(self, kind: MetricKind) -> SeriesRings:
        if kind not in self._rings:
            self._windows[kind] = self._settings.window_seconds(kind)
            capacity = self._settings.capacity(kind, self._windows[kind])
            self._rings[kind] = SeriesRings(capacity, self._allow)
        return self._rings[kind]

    def _allow(self, more_bytes: int) -> bool:
        if self.bytes + more_bytes <= self._settings.max_bytes:
            return True
        self._warn_once(
            "full", f"metric cache is full: {self.bytes} bytes, new series are left out"
        )
        return False

    def _widen(self, kind: MetricKind, window_seconds: float) -> None:
        wanted = min(window_seconds, self._settings.retention)
        if wanted <= self._windows[kind]:
            return
        shelf = self._rings[kind]
        capacity = self._settings.capacity(kind, wanted)
        grown = len(shelf) * (capacity * SAMPLE_BYTES + SERIES_BYTES) - shelf.bytes
        if self.bytes + grown > self._settings.max_bytes:
            self._warn_once(kind, f"no room for {kind} over {wanted:.0f} s: {grown} bytes more")
            return
        shelf.resize(capacity)
        self._windows[kind] = wanted

    def _warn_once(self, subject: str, line: str) -> None:
        if subject not in self._warned:
            self._warned.add(subject)
            _LOG.warning(line)


def _empty(percentiles: int) -> SeriesRows:
    none, counts = np.empty(0), np.empty(0, np.int64)
    return SeriesRows([], none, none, counts, counts, counts, np.empty((0, percentiles)))
