# SPDX-License-Identifier: Apache-2.0
"""The best row of a table without a look at all rows: beside a board of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.conftest import Gate
from koord.kernels.placement_board import (
    BALANCED,
    CLOSED,
    DEFAULT,
    LEAST,
    NONE,
    Board,
    RoomCheck,
    Rooms,
    RoomScore,
    RowBounds,
    row_bits,
)

ROWS = 5000
CPU_MILLI, MEMORY_BYTES = 64_000, 256 << 30


class Search:
    """Rows as a scheduler has them, and a pod that asks for CPU and memory.

    Args:
        used: ``[resource, row]``.
    """

    def __init__(self, used: NDArray[np.int64]) -> None:
        has = np.repeat(np.array([[CPU_MILLI], [MEMORY_BYTES]]), ROWS, axis=1)
        self.columns = has, used, used
        self.open, self.ranks = np.ones(ROWS, np.bool_), np.arange(ROWS)
        counted = [(0, 150, 1, True), (1, 200 << 20, 1, True)]
        exact = [(0, 150, 1, False), (1, 200 << 20, 1, False)]
        scores = [(0, RoomScore(LEAST, counted, [])), (1, RoomScore(BALANCED, exact, []))]
        self.rooms = Rooms([(0, RoomCheck([(0, 150), (1, 200 << 20)]))], scores)
        self.board = Board(ROWS, [(1, NONE), (1, NONE)])
        self.board.refuse(CLOSED, slice(None), self.open)
        self.bounds = RowBounds()
        self.bounds.update(*self.columns, slice(0, ROWS), self.open, self.ranks)
        assert self.by_bounds() == self.by_board()

    def by_bounds(self) -> int:
        return self.bounds.best(self.rooms, [1, 1])

    def by_board(self) -> int:
        self.rooms.put(self.board, *self.columns, slice(0, ROWS))
        return self.board.best()


def test_rows_that_are_alike(gate: Gate) -> None:
    used = np.zeros((2, ROWS), np.int64)
    # Each pod of 3,000 asked for something else.
    used[0, :3000], used[1, :3000] = 100 + np.arange(3000) % 400, 128 << 20
    search = Search(used)
    gate("placement: best of 5,000 rows by bounds", search.by_bounds, search.by_board, 2.5)


def test_preferences_as_bits(gate: Gate) -> None:
    used = np.zeros((2, ROWS), np.int64)
    used[0, :3000], used[1, :3000] = 100 + np.arange(3000) % 400, 128 << 20
    search = Search(used)
    mask, zones = np.arange(ROWS) % 2 == 1, [np.arange(ROWS) % 3 == zone for zone in range(2)]
    bits, as_bits = [row_bits(mask)], [row_bits(zone) for zone in zones]

    def by_bits() -> int:
        preferences = [(2, [(50, as_bits[0]), (10, as_bits[1])])]
        return search.bounds.best(search.rooms, [1, 1], [], [], None, bits, preferences)

    def by_raw_scores() -> int:
        # Weights are a pod's own: raw scores are made of them for each.
        raw = np.multiply(zones[0], 50, dtype=np.int64) + np.multiply(zones[1], 10, dtype=np.int64)
        return search.bounds.best(search.rooms, [1, 1], [mask], [(2, DEFAULT, raw)])

    assert by_bits() == by_raw_scores()
    gate("placement: preferences of 5,000 rows as bits", by_bits, by_raw_scores, 1.2)


def test_bits_of_rows_that_are_ordered_by_use(gate: Gate) -> None:
    random = np.random.default_rng(7)
    used = np.stack([random.integers(0, 6_000, ROWS), random.integers(0, 20 << 30, ROWS)])
    search = Search(used)
    # The search before looked at most rows, so that with the next rows all are ordered.
    search.bounds.update(*search.columns, slice(0, ROWS // 32), search.open, search.ranks)
    mask, zone = np.arange(ROWS) % 2 == 1, np.arange(ROWS) % 3 == 1
    bits, preferences = [row_bits(mask)], [(2, [(50, row_bits(zone))])]

    def by_bits() -> int:
        return search.bounds.best(search.rooms, [1, 1], [], [], None, bits, preferences)

    def by_raw_scores() -> int:
        raw = np.multiply(zone, 50, dtype=np.int64)
        return search.bounds.best(search.rooms, [1, 1], [mask], [(2, DEFAULT, raw)])

    assert by_bits() == by_raw_scores()
    assert search.bounds.looked_at < ROWS // 4
    gate("placement: bits of 5,000 rows by use", by_bits, by_raw_scores, 2.0)


def test_rows_that_all_differ_cost_no_more_than_a_board(gate: Gate) -> None:
    random = np.random.default_rng(7)
    used = np.stack([random.integers(0, 60_000, ROWS), random.integers(0, 200 << 30, ROWS)])
    search = Search(used)
    gate("placement: best of 5,000 that differ by bounds", search.by_bounds, search.by_board, 0.6)
