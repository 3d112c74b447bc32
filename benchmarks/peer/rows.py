# SPDX-License-Identifier: Apache-2.0
"""Which scenarios of which sizes are measured, in which order and for how long."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.peer.scenarios import SCENARIOS, Scenario


class Row(NamedTuple):
    """A scenario of a size.

    Attributes:
        name: of the scenario.
        nodes: of the cluster.
        pods: that are measured in each run.
    """

    name: str
    nodes: int
    pods: int

    @property
    def scenario(self) -> Scenario:
        """What its pods are."""
        return SCENARIOS[self.name]

    def __str__(self) -> str:
        return f"{self.name}, {self.nodes:,} nodes, {self.pods:,} pods"


# What counts most comes first: time may run out.
SIZES = (
    Row("different", 5000, 5000),
    Row("selectors", 5000, 2000),
    Row("basic", 1000, 3000),
    Row("rich", 1000, 3000),
    Row("basic", 5000, 5000),
    Row("different", 1000, 3000),
    Row("selectors", 1000, 3000),
    Row("quota", 1000, 3000),
    Row("cpu-binding", 1000, 3000),
    Row("gangs", 1000, 3000),
)
"""Pods equal, different and with selectors of their own, on a small and on a large cluster; and
those that only Koordinator's schedulers know.
"""


class Timetable:
    """One pair of each row, then a second of each and so on, while time is left.

    Args:
        rows: in order of importance.
        pairs: of each row, at most.
        seconds: for all; None for as long as it takes.
    """

    def __init__(self, rows: Sequence[Row], pairs: int, seconds: float | None) -> None:
        self._rows, self._pairs = rows, pairs
        self._began = time.monotonic()
        self._end = None if seconds is None else self._began + seconds
        self._taken: dict[Row, float] = {}

    @property
    def left(self) -> float | None:
        """Seconds until the end; None without one."""
        return None if self._end is None else self._end - time.monotonic()

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        """Numbers of pairs from 0 on, and their rows; those that would not end in time left out."""
        for number in range(self._pairs):
            for row in self._rows:
                if self.left is not None and self.left < self._expected(row):
                    continue
                began = time.monotonic()
                yield number, row
                self._taken[row] = time.monotonic() - began

    def _expected(self, row: Row) -> float:
        """What its last pair took; for a row not measured yet, the shortest pair so far."""
        return self._taken.get(row, min(self._taken.values(), default=0.0))
