# SPDX-License-Identifier: Apache-2.0
"""CPU of machines and of their best-effort tiers over the last minutes, a sample a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.cpuevict import decision
from koord.kernels.series import SeriesStore
from koord.simulator.nodes.strategies.slo_rows import LONGEST_WINDOW_SECONDS

if TYPE_CHECKING:
    from koord.simulator.nodes.strategies.column_table import Bools, Floats, Ints

ROUND_SECONDS = 1.0
_NODE, _USAGE, _REQUEST, _LIMIT = range(4)


class UsageWindows:
    """Rings of four figures of each machine.

    Args:
        rows: machines.
    """

    def __init__(self, rows: int) -> None:
        # Rounds may come a little early.
        self._store = SeriesStore(int(LONGEST_WINDOW_SECONDS / ROUND_SECONDS) + 10)
        ids = [self._store.add() for _ in range(4 * rows)]
        self._ids = np.array(ids, np.int64).reshape(4, rows)
        self._last = np.zeros((4, rows))
        self._now_ms = 0

    def append(
        self, now: float, node_cores: Floats, usage: Floats, request: Ints, limit: Floats
    ) -> None:
        """Adds a sample: cores of machines, milli-cores of their tiers.

        Args:
            now: wall time in seconds.
            node_cores: in use.
            usage, request, limit: of the best-effort tier.
        """
        self._now_ms = int(now * 1000)
        self._last = np.stack([node_cores, usage, request.astype(np.float64), limit])
        self._store.append(self._now_ms, self._ids.ravel(), self._last.ravel())

    def node_average(self, seconds: Ints) -> Floats:
        """Cores of each machine, over a window of each."""
        return self._average(_NODE, seconds)[0]

    def tiers(
        self, seconds: Ints, limit: Floats, allocatable: Floats
    ) -> tuple[decision.BestEffortColumns, decision.BestEffortColumns, Bools]:
        """Averages, last values, and whether there are enough samples for them.

        Args:
            seconds: the window of each machine.
            limit: what a tier may use now.
            allocatable: taken for the limit where it is a number.
        """
        (usage, count), (request, _) = (
            self._average(_USAGE, seconds),
            self._average(_REQUEST, seconds),
        )
        own = np.isnan(allocatable)
        average = decision.BestEffortColumns(
            usage, request, np.where(own, self._average(_LIMIT, seconds)[0], allocatable)
        )
        last = decision.BestEffortColumns(
            self._last[_USAGE], self._last[_REQUEST], np.where(own, limit, allocatable)
        )
        return average, last, decision.covered(count, ROUND_SECONDS, seconds)

    def _average(self, which: int, seconds: Ints) -> tuple[Floats, Ints]:
        """Average and number of samples, by the windows that there are: few, or one."""
        average, count = self._last[which].copy(), np.zeros(len(seconds), np.int64)
        for window in np.unique(seconds).tolist():
            rows = np.flatnonzero(seconds == window)
            start = self._now_ms - window * 1000
            found = self._store.summarize(self._ids[which, rows], start, self._now_ms, ())
            average[rows], count[rows] = found.avg, found.count
        return average, count
