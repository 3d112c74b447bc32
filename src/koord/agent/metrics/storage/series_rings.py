# SPDX-License-Identifier: Apache-2.0
"""The series of one kind: a ring each, found by labels, over the same rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.reader import SeriesRows
from koord.kernels.series import SeriesStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from koord.agent.metrics.reader import Window
    from koord.agent.metrics.samples import Keys, Labels

SAMPLE_BYTES = 8
# A series with its labels and its places in tables costs about this much beside its ring.
SERIES_BYTES = 500
_LATE_MS = 60_000
_NEVER_MS = -(2**62)
_NO_IDS = np.empty(0, np.int64)


class SeriesRings:
    """Rings of one kind.

    A kind is one collector's, so that all its series are sampled at the same times.

    Args:
        capacity: rounds that are kept, and so values a ring.
        allow: asked for the bytes of a new ring; it may refuse.
    """

    def __init__(self, capacity: int, allow: Callable[[int], bool]) -> None:
        self.capacity = capacity
        self._allow = allow
        self._store = SeriesStore(capacity)
        self._ids: dict[Labels, int] = {}
        self._newest_ms = _NEVER_MS
        # Rows that were asked for last, their ids, and whether every one has a ring.
        self._last: tuple[Keys, NDArray[np.int64], bool] = ((), _NO_IDS, True)
        # Made anew when series change, never changed in place: whoever has read the list takes the
        # same object for the same rows.
        self._sorted: tuple[list[Labels], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def bytes(self) -> int:
        """Memory that the rings and their tables take."""
        return len(self._ids) * self._ring_bytes

    @property
    def _ring_bytes(self) -> int:
        return self.capacity * SAMPLE_BYTES + SERIES_BYTES

    @property
    def newest_ms(self) -> int:
        """Time of the newest round; 0 before the first."""
        return max(self._newest_ms, 0)

    def append(self, time_ms: int, labels: Keys, values: NDArray[np.float64]) -> int:
        """One round; gives how many samples were taken.

        A clock that was set back by more than a minute starts all series anew: what they hold lies
        in the future and would keep every new sample out.
        """
        if time_ms < self._newest_ms - _LATE_MS:
            self.clear()
        ids, whole = self._ids_of(labels, values)
        self._newest_ms = max(self._newest_ms, time_ms)
        if not whole:
            known = ids >= 0
            ids, values = ids[known], values[known]
        return self._store.append(time_ms, ids, values)

    def _ids_of(self, labels: Keys, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], bool]:
        """The ring of each row, -1 for none, and whether every row has one."""
        last, ids, whole = self._last
        # A row that had no value so far has no ring yet.
        if labels is last and (whole or not (np.isfinite(values) & (ids < 0)).any()):
            return ids, whole
        finite = np.isfinite(values).tolist()
        found = [self._ids.get(key, -1) for key in labels]
        for row, (at, wanted) in enumerate(zip(found, finite, strict=True)):
            if at < 0 and wanted:
                found[row] = self._add(labels[row])
        ids, whole = np.array(found, np.int64), min(found, default=0) >= 0
        self._last = (labels, ids, whole)
        return ids, whole

    def _add(self, key: Labels) -> int:
        if key in self._ids:  # a row given twice
            return self._ids[key]
        if not self._allow(self._ring_bytes):
            return -1
        self._ids[key] = self._store.add()
        self._sorted = None
        return self._ids[key]

    def rows(
        self, window: Window, percentiles: Sequence[float], match: Sequence[str | None]
    ) -> SeriesRows:
        """A window of the series that match, by labels ascending."""
        labels, ids = self._matching(match)
        found = self._store.summarize(ids, window.start_ms, window.end_ms, percentiles)
        some = found.count > 0
        if some.all():
            return SeriesRows(
                labels, found.avg, found.last, found.count, found.oldest_ms, found.newest_ms,
                found.percentiles,
            )  # fmt: skip
        kept = np.flatnonzero(some)
        return SeriesRows(
            [labels[row] for row in kept], found.avg[kept], found.last[kept], found.count[kept],
            found.oldest_ms[kept], found.newest_ms[kept], found.percentiles[kept],
        )  # fmt: skip

    def _matching(self, match: Sequence[str | None]) -> tuple[list[Labels], NDArray[np.int64]]:
        wanted = {place: value for place, value in enumerate(match) if value is not None}
        labels, ids = self._by_labels()
        if not wanted:
            return labels, ids
        whole = tuple(value for value in match if value is not None)
        if labels and len(whole) == len(labels[0]):
            at = self._ids.get(whole)
            return ([], _NO_IDS) if at is None else ([whole], np.array([at], np.int64))
        rows = [
            row
            for row, key in enumerate(labels)
            if all(key[place] == value for place, value in wanted.items())
        ]
        return [labels[row] for row in rows], ids[rows]

    def _by_labels(self) -> tuple[list[Labels], NDArray[np.int64]]:
        if self._sorted is None:
            pairs = sorted(self._ids.items())
            ids = np.array([at for _, at in pairs], np.int64)
            self._sorted = ([key for key, _ in pairs], ids)
        return self._sorted

    def drop_silent(self, since_ms: int) -> int:
        """Removes series without a sample from then on; gives how many."""
        labels, ids = self._by_labels()
        silent = self._store.summarize(ids, since_ms, np.iinfo(np.int64).max, ()).count == 0
        for row in np.flatnonzero(silent):
            self._store.remove(self._ids.pop(labels[row]))
        dropped = int(silent.sum())
        if dropped:
            self._sorted, self._last = None, ((), _NO_IDS, True)
        return dropped

    def resize(self, capacity: int) -> None:
        """Keeps as many rounds from now on, and of those that there are the newest."""
        self._store.resize(capacity)
        self.capacity = capacity

    def clear(self) -> None:
        """Forgets everything."""
        self._store = SeriesStore(self.capacity)
        self._ids = {}
        self._newest_ms = _NEVER_MS
        self._sorted, self._last = None, ((), _NO_IDS, True)
