# SPDX-License-Identifier: Apache-2.0
"""The best row for a pod with reservations, found by bounds, against a plain look at every row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from koord.kernels.placement_board import (
    DEFAULT,
    LEAST,
    ReservedBounds,
    RoomCheck,
    Rooms,
    RoomScore,
    RowBounds,
)
from tests.models.placement_board import normalised

ROWS, RESOURCES, UNLIMITED = 200, 3, 1 << 60
Ints = NDArray[np.int64]
Amount = tuple[int, int, int, bool, bool, bool]


@dataclass
class Drawn:
    """Nodes, and reservations on some of them; a slot more than there are rows is nobody's."""

    random: np.random.Generator
    has: Ints = field(init=False)
    used: Ints = field(init=False)
    reserved: list[Ints] = field(init=False)
    slots: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.has = self.random.integers(2, 10, (RESOURCES, ROWS)) * 100
        self.used = np.zeros((RESOURCES, ROWS), np.int64)
        self.reserved = [np.zeros((RESOURCES, ROWS + 1), np.int64) for _ in range(4)]
        self.slots = np.full(ROWS, -1)
        self.change(np.arange(ROWS))

    def change(self, rows: NDArray[np.intp]) -> None:
        """Has other pods on rows, and other reservations: full, empty, or none."""
        random = self.random
        self.used[:, rows] = random.integers(0, 300, (RESOURCES, len(rows)))
        there = random.random(len(rows)) < random.choice([0.1, 0.9])
        self.slots[rows] = np.where(there, ROWS - rows, -1)
        slots, size = ROWS - rows, (RESOURCES, len(rows))
        held = random.integers(0, 3, size) * 200 if random.random() < 0.5 else np.full(size, 200)
        taken = np.minimum(held, random.integers(0, 3, size) * 99)
        self.reserved[0][:, slots], self.reserved[1][:, slots] = held, taken
        self.reserved[2][:, slots] = np.maximum(held - taken - random.integers(0, 2) * 50, 0)
        limited = random.random(size) < 0.3
        self.reserved[3][:, slots] = np.where(limited, held - taken, UNLIMITED)

    def amounts(self) -> list[Amount]:
        """What a pod asks for: a place for it, held by reservations or not, and resources."""
        random, asked = self.random, []
        for resource in range(RESOURCES):
            place = resource if random.random() < 0.9 else -1
            checked, is_given, shared = (bool(random.random() < 0.8) for _ in range(3))
            amount = int(random.integers(0, 250))
            asked.append((resource, place, amount, checked, is_given, shared))
        return asked


def answer(
    drawn: Drawn, row: int, amounts: list[Amount], required: bool, skips: bool
) -> tuple[bool, int]:
    """Whether a pod fits a row, and how full it makes the reservation there: the rule, plainly."""
    slot = int(drawn.slots[row])
    if slot < 0:
        return True, 0
    held, used, remaining, limit = (column[:, slot].tolist() for column in drawn.reserved)
    alone = beside = within = True
    shares, asked = False, [0] * RESOURCES
    for resource, place, amount, checked, is_given, shared in amounts:
        free = int(drawn.has[resource, row] - drawn.used[resource, row])
        if place >= 0 and shared:
            shares |= held[place] > 0
            asked[place] += amount
        if checked:
            alone &= free >= amount
            beside &= free + (remaining[place] if place >= 0 and is_given else 0) >= amount
            within &= place < 0 or limit[place] >= amount
    whole = [place for place in range(RESOURCES) if held[place] > 0]
    parts = [100 * (used[p] + asked[p]) // held[p] for p in whole if used[p] + asked[p] <= held[p]]
    full = sum(parts) // len(whole) if whole else 0
    if required:
        return within and (beside or skips), full
    serves = within and shares
    return alone or (serves and (beside or skips)), full if serves and beside else 0


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 30), required=st.booleans(), skips=st.booleans())
def test_the_best_row_beside_reservations_is_that_of_a_look_at_all_rows(
    seed: int, required: bool, skips: bool
) -> None:
    random = np.random.default_rng(seed)
    drawn, bounds, reserved = Drawn(random), RowBounds(keeps_order=True), ReservedBounds()
    ranks = random.permutation(ROWS)
    opened = random.random(ROWS) < 0.9
    due: slice | NDArray[np.intp] = slice(0, ROWS)
    for _ in range(4):
        # As pods see it for which something is held, which is less than what nodes have taken.
        seen = drawn.used - random.integers(0, 50, drawn.used.shape)
        bounds.update(drawn.has, seen, seen[:2], slice(0, ROWS), opened, ranks)
        reserved.update(drawn.reserved, drawn.slots, due)
        amounts, weight = drawn.amounts(), int(random.integers(0, 4))
        asked = [(resource, amount) for resource, _, amount, *_ in amounts]
        scores = [(0, RoomScore(LEAST, [(r, a, 1, False) for r, a in asked], []))]
        rooms = Rooms([(0, RoomCheck(asked))], scores)
        masks = [random.random(ROWS) < 0.7] if random.random() < 0.5 else []
        ratings = [(2, DEFAULT, random.integers(0, 30, ROWS))] if random.random() < 0.3 else []
        question = (reserved, weight, drawn.has, drawn.used, drawn.reserved, drawn.slots, amounts,
                    required, skips)  # fmt: skip
        columns = drawn.has, seen, seen[:2]
        found = bounds.best(rooms, [1], masks, ratings, question)

        each = [answer(drawn, row, amounts, required, skips) for row in range(ROWS)]
        fits = opened & RoomCheck(asked).check(*columns, slice(0, ROWS))
        for mask in (np.array([passes for passes, _ in each]), *masks):
            fits &= mask
        rows = np.flatnonzero(fits)
        totals = scores[0][1].score(*columns, slice(0, ROWS))[rows].copy()
        raw = np.array([full for _, full in each])
        for by, kind, its in ((weight, DEFAULT, raw), *ratings):
            totals += by * np.array(normalised(kind, its[rows].tolist()), np.int64)
        best = min(zip(-totals, ranks[rows], rows.tolist(), strict=True), default=(0, 0, -1))
        assert found == best[2]
        due = np.unique(random.integers(0, ROWS, 20))
        drawn.change(due)


def test_reservations_are_asked_about_where_the_best_may_be() -> None:
    rows, bounds, reserved = 3200, RowBounds(keeps_order=True), ReservedBounds()
    has, used = np.full((1, rows), 1000), np.zeros((1, rows), np.int64)
    columns = has, used, np.zeros((2, rows), np.int64)
    ranks, opened, slots = np.arange(rows), np.ones(rows, np.bool_), np.arange(rows)
    held, taken = np.full((1, rows), 100), np.zeros((1, rows), np.int64)
    limit = np.full((1, rows), UNLIMITED)
    taken[0, 2000], taken[0, 99] = 50, 95  # 99 cannot take what is asked for
    stand = [held, taken, held - taken, limit]
    bounds.update(*columns, slice(0, rows), opened, ranks)
    reserved.update(stand, slots, slice(0, rows))
    amounts = [(0, 0, 10, True, True, True)]
    question = reserved, 1, has, used, stand, slots, amounts, False, False
    assert bounds.best(Rooms([], []), [], reserved=question) == 2000
    assert bounds.looked_at <= 64
    taken[0, 2000] = 95
    reserved.update(stand, slots, np.array([2000]))
    assert bounds.best(Rooms([], []), [], reserved=question) == 0


def test_reservations_that_cannot_be_asked_are_named() -> None:
    rows, bounds, reserved = 4, RowBounds(keeps_order=True), ReservedBounds()
    has, used = np.full((1, rows), 10), np.zeros((1, rows), np.int64)
    columns = has, used, np.zeros((2, rows), np.int64)
    ranks, opened, slots = np.arange(rows), np.ones(rows, np.bool_), np.arange(rows)
    stand = [np.ones((1, rows), np.int64)] * 4
    bounds.update(*columns, slice(0, rows), opened, ranks)
    with pytest.raises(ValueError, match="rows"):
        reserved.update(stand, slots, np.array([1]))
    with pytest.raises(KeyError, match="slot"):
        ReservedBounds().update(stand, slots + 1, slice(0, rows))

    def best(weight: int = 1, slots: Ints = slots, place: int = 0, resource: int = 0) -> int:
        amounts = [(resource, place, 1, True, True, True)]
        question = reserved, weight, has, used, stand, slots, amounts, False, False
        return bounds.best(Rooms([], []), [], reserved=question)

    with pytest.raises(ValueError, match="reservations"):
        best()
    reserved.update(stand, slots, slice(0, rows))
    assert best() == 0
    with pytest.raises(ValueError, match="weight"):
        best(weight=-1)
    with pytest.raises(ValueError, match="slots"):
        best(slots=slots[:3])
    with pytest.raises(KeyError, match="slot"):
        best(slots=slots + 1)
    for place, resource in ((1, 0), (0, 1)):
        with pytest.raises(KeyError, match="resource"):
            best(place=place, resource=resource)
