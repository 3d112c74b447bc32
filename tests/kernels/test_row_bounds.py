# SPDX-License-Identifier: Apache-2.0
"""Bounds of rows: the best row without a look at all, against boards of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.placement_board import (
    BALANCED,
    CLOSED,
    DEFAULT,
    LEAST,
    MIN_MAX,
    MOST,
    NONE,
    RATIO,
    REVERSED,
    SPREAD,
    Board,
    RoomCheck,
    Rooms,
    RoomScore,
    RowBounds,
    load_scores,
    load_within,
    row_bits,
)

KINDS = [NONE, DEFAULT, REVERSED, MIN_MAX, SPREAD]


@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([2, 40, 4000]))
def test_bounds_of_rows_have_the_best_of_a_board(seed: int, spread: int) -> None:
    random = np.random.default_rng(seed)
    rows, bounds = 200, RowBounds()
    ranks = random.permutation(rows)
    columns = [random.integers(0, 4, (3, rows)) * 1000, random.integers(0, spread, (3, rows))]
    columns.append(columns[1][:2].copy())
    open_rows = random.random(rows) < random.choice([0.1, 0.9])
    # Once 32 of so few rows have changed they are ordered anew, and at first in another way.
    asked = [slice(0, rows), *(random.integers(0, rows, 1 + 9 * step) for step in range(5))]
    for some in asked:
        open_rows[some] = random.random(len(open_rows[some])) < 0.8
        # Beside what plugins count some hold what nobody has, and less than nothing.
        columns[1][:, some] = random.integers(-1, spread, columns[1][:, some].shape)
        columns[2][:, some] = columns[1][:2, some] + random.integers(0, 2)
        bounds.update(*columns, some, open_rows, ranks)
        checks, scores = _drawn_rooms(random)
        board = Board(rows, [(weight, NONE) for weight, _ in scores])
        board.refuse(CLOSED, slice(None), open_rows)
        board.set_ranks(ranks)
        rooms = Rooms(list(enumerate(checks)), [(i, each) for i, (_, each) in enumerate(scores)])
        for number, check in enumerate(checks):
            board.refuse(number, slice(None), check.check(*columns, slice(None)))
        for number, (_, score) in enumerate(scores):
            board.rate(number, slice(None), score.score(*columns, slice(None)))
        weights = [weight for weight, _ in scores]
        assert bounds.best(rooms, weights) == board.best()
        # The same with what others say by row, normalised among rows that are left.
        mask = random.random(rows) < random.choice([0.05, 0.7])
        kinds = [kind for kind in KINDS if random.random() < 0.4]
        rules = [(2 * weight, kind) for weight, kind in enumerate(kinds, 1)]
        raws = [random.integers(-2 if kind == SPREAD else 0, 50, rows) for kind in kinds]
        whole = Board(rows, [(weight, NONE) for weight in weights] + rules)
        whole.set_ranks(ranks)
        whole.refuse(CLOSED, slice(None), open_rows & mask & (board.refused == 0))
        for number in range(len(scores)):
            whole.rate(number, slice(None), board.raw(number))
        for number, raw in enumerate(raws, len(scores)):
            whole.rate(number, slice(None), raw)
        ratings = [(*rule, raw) for rule, raw in zip(rules, raws, strict=True)]
        found = bounds.best(rooms, weights, [mask], ratings)
        assert found == whole.best()
        # Preferences as bits, with a mask as bits beside, alone and with raw scores.
        conditions = [
            (int(random.integers(0, 100)), random.random(rows) < random.choice([0.02, 0.5]))
            for _ in range(random.integers(0, 4))
        ]
        preferences = [(3, [(weight, row_bits(holds)) for weight, holds in conditions])]
        last = len(scores) + len(rules)
        for some_ratings in (ratings, []):
            joined = Board(rows, [(weight, NONE) for weight in weights] + [*rules, (3, DEFAULT)])
            joined.set_ranks(ranks)
            joined.refuse(CLOSED, slice(None), whole.refused == 0)
            for number in range(last if some_ratings else len(scores)):
                joined.rate(number, slice(None), whole.raw(number))
            sums = sum((weight * holds for weight, holds in conditions), np.zeros(rows, np.int64))
            joined.rate(last, slice(None), sums)
            for number in range(len(scores), last if not some_ratings else 0):
                joined.skip(number)
            more = [], some_ratings, None, [row_bits(mask)], preferences
            assert bounds.best(rooms, weights, *more) == joined.best()


@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([2, 40, 4000]))
def test_load_is_rated_of_the_rows_that_are_looked_at_as_of_all(seed: int, spread: int) -> None:
    random = np.random.default_rng(seed)
    rows, bounds = 200, RowBounds()
    ranks = random.permutation(rows)
    columns = [np.full((3, rows), 4000), random.integers(0, spread, (3, rows))]
    columns.append(columns[1][:2].copy())
    open_rows = np.ones(rows, np.bool_)
    used = random.integers(0, 2000, (2, 2, rows))
    capacity, limit = random.integers(0, 3, (2, rows)) * 1000, random.integers(0, 2000, (2, rows))
    until = random.choice([-np.inf, 10.0, 20.0, np.inf], rows)
    asked = [slice(0, rows), *(random.integers(0, rows, 1 + 9 * step) for step in range(5))]
    for some in asked:
        columns[1][:, some] = random.integers(0, spread, columns[1][:, some].shape)
        columns[2][:, some] = columns[1][:2, some]
        used[:, :, some] = random.integers(0, 2000, used[:, :, some].shape)
        until[some] = random.choice([-np.inf, 10.0, 20.0, np.inf], len(until[some]))
        open_rows[some] = random.random(len(open_rows[some])) < 0.8
        bounds.update(*columns, some, open_rows, ranks)
        for _ in range(3):
            checks, scores = _drawn_rooms(random)
            scores = [(i, each) for i, (_, each) in enumerate(scores)]
            rooms, weights = Rooms(list(enumerate(checks)), scores), [1] * len(scores)
            now, view = float(random.choice([5.0, 15.0])), int(random.integers(0, 2))
            amounts = random.integers(0, 300, 2).tolist()
            counted = [[1, 2], [3, 1]][int(random.random() < 0.1)], int(random.integers(0, 2))
            # Weights change at times, which a key of old bounds must not hide.
            rated = used[view], capacity, amounts, *counted, until, now
            checked = used[view], limit, amounts, until, now, bool(random.random() < 0.5)
            within = load_within(*checked, slice(0, rows))
            ratings = [(2, NONE, load_scores(*rated, slice(0, rows)))]
            raw = [(3, int(random.choice(KINDS)), random.integers(0, 50, rows))]
            raw *= int(random.random() < 0.5)
            loads = [(2, view, *rated)]
            expected = bounds.best(rooms, weights, [within], ratings + raw)
            assert bounds.best(rooms, weights, [], raw, load_checks=[checked], loads=loads) == (
                expected
            )
            alone = bounds.best(rooms, weights, [], ratings)
            assert bounds.best(rooms, weights, loads=loads) == alone


def test_load_spares_rows_that_cannot_be_the_best() -> None:
    rows, bounds = 3200, RowBounds()
    has, nothing = np.full((2, rows), 64_000), np.zeros((2, rows), np.int64)
    bounds.update(has, nothing, nothing, slice(0, rows), np.ones(rows, np.bool_), np.arange(rows))
    used, until = np.full((2, rows), 32_000), np.full(rows, np.inf)
    used[:, 2000] = 100
    loads = [(1, 1, used, has, [640, 640], [1, 1], 0, until, 0.0)]
    assert bounds.best(Rooms([], []), [], loads=loads) == 2000
    assert bounds.looked_at == 32
    used[:, 3000] = 0
    bounds.update(has, nothing, nothing, np.array([3000]), np.ones(rows, np.bool_), np.arange(rows))
    assert bounds.best(Rooms([], []), [], loads=loads) == 3000
    assert bounds.looked_at <= 64
    for wrong in ((1, 1, used[:, :9], has[:, :9]), (-1, 1, used, has)):
        with pytest.raises(ValueError, match=r"load|weight"):
            bounds.best(Rooms([], []), [], loads=[(*wrong, [1, 1], [1, 1], 0, until, 0.0)])


def _drawn_rooms(
    random: np.random.Generator,
) -> tuple[list[RoomCheck], list[tuple[int, RoomScore]]]:
    amounts = random.integers(0, 900, 3).tolist()
    checks = [RoomCheck(list(enumerate(amounts)))] * int(random.integers(0, 2))
    scores = []
    for strategy in random.permutation([LEAST, MOST, RATIO, BALANCED])[: random.integers(0, 4)]:
        some = random.permutation(3)[: random.integers(1, 4)].tolist()
        counted = [(i, amounts[i], int(random.integers(1, 4)), bool(i < 2 and i % 2)) for i in some]
        corners = [(0, 20), (50, 100), (100, 0)] if strategy == RATIO else []
        scores.append((int(random.integers(0, 4)), RoomScore(int(strategy), counted, corners)))
    return checks, scores


@given(st.lists(st.booleans(), max_size=200))
def test_bits_of_rows_are_words_from_the_lowest_bit_on(mask: list[bool]) -> None:
    words = row_bits(np.array(mask, np.bool_)).tolist()
    assert len(words) == -(-len(mask) // 64)
    assert sum(word << 64 * place for place, word in enumerate(words)) == sum(
        holds << row for row, holds in enumerate(mask)
    )


def test_preferences_and_masks_as_bits_are_checked() -> None:
    columns = [np.ones((2, 70), np.int64)] * 3
    bounds, rooms = RowBounds(), Rooms([], [])
    bounds.update(*columns, slice(0, 70), np.ones(70, np.bool_), np.arange(70))
    last = row_bits(np.arange(70) == 69)
    assert bounds.best(rooms, [], bit_masks=[last]) == 69
    assert bounds.best(rooms, [], preferences=[(1, [(5, last)])]) == 69
    with pytest.raises(ValueError, match="bits"):
        bounds.best(rooms, [], bit_masks=[last[:1]])
    with pytest.raises(ValueError, match="bits"):
        bounds.best(rooms, [], preferences=[(1, [(5, last[:1])])])
    for weight, its in ((-1, 1), (1, -1), (1, 1_000_001)):
        with pytest.raises(ValueError, match="weight"):
            bounds.best(rooms, [], preferences=[(weight, [(its, last)])])


def test_bounds_spare_rows_that_cannot_be_the_best() -> None:
    rows, bounds = 3200, RowBounds()
    has = np.full((2, rows), 64_000)
    used = np.zeros((2, rows), np.int64)
    used[:, 100:] = 3_000
    used[:, 2000] = 1
    ranks, open_rows = np.arange(rows)[::-1].copy(), np.ones(rows, np.bool_)
    bounds.update(has, used, used, slice(0, rows), open_rows, ranks)
    counted = [(0, 100, 1, False), (1, 100, 1, False)]
    scores = [(0, RoomScore(LEAST, counted, [])), (1, RoomScore(BALANCED, counted, []))]
    rooms = Rooms([(0, RoomCheck([(0, 100), (1, 100)]))], scores)
    assert bounds.best(rooms, [1, 1]) == 2000
    assert bounds.looked_at == 32
    # Equal ones elsewhere go after the first by rank.
    used[:, 3000] = 1
    bounds.update(has, used, used, np.array([3000]), open_rows, ranks)
    assert bounds.best(rooms, [1, 1]) == 3000
    assert bounds.looked_at == 32
    none = Rooms([(0, RoomCheck([(0, 65_000)]))], [])
    assert bounds.best(none, []) == -1
    assert bounds.looked_at == 0


def test_rows_that_differ_from_their_neighbours_are_put_beside_their_equals() -> None:
    rows, bounds = 3200, RowBounds()
    random = np.random.default_rng(7)
    has = np.full((2, rows), 64_000)
    used = random.integers(0, 64, (2, rows)) * 900
    ranks, open_rows = random.permutation(rows), np.ones(rows, np.bool_)
    counted = [(0, 100, 1, False), (1, 100, 1, False)]
    scores = [(0, RoomScore(LEAST, counted, [])), (1, RoomScore(BALANCED, counted, []))]
    rooms = Rooms([(0, RoomCheck([(0, 100), (1, 100)]))], scores)
    bounds.update(has, used, used, slice(0, rows), open_rows, ranks)
    total = sum(score.score(has, used, used, slice(None)) for _, score in scores)
    best, second = np.lexsort((ranks, -total))[:2]
    assert bounds.best(rooms, [1, 1]) == best
    assert bounds.looked_at > rows // 4
    bounds.update(has, used, used, np.arange(rows // 32), open_rows, ranks)
    assert bounds.best(rooms, [1, 1]) == best
    assert bounds.looked_at <= rows // 10
    # What others say is by row, as before.
    mask = np.arange(rows) != best
    assert bounds.best(rooms, [1, 1], [mask]) == second
    raw = (np.arange(rows) == 77).astype(np.int64)
    assert bounds.best(rooms, [1, 1], [], [(1_000, DEFAULT, raw)]) == 77


def test_what_has_no_bounds_is_named() -> None:
    columns = [np.ones((2, 4), np.int64)] * 3
    ranks, open_rows = np.arange(4), np.ones(4, np.bool_)
    bounds, rooms = RowBounds(), Rooms([], [])
    with pytest.raises(ValueError, match="rows"):
        bounds.update(*columns, np.array([1]), open_rows, ranks)
    assert bounds.best(rooms, []) == -1
    with pytest.raises(ValueError, match="ranks"):
        bounds.update(*columns, slice(0, 4), open_rows[:3], ranks)
    bounds.update(*columns, slice(0, 4), open_rows, ranks)
    assert bounds.best(rooms, []) == 0
    with pytest.raises(KeyError, match="4"):
        bounds.update(*columns, np.array([4]), open_rows, ranks)
    with pytest.raises(ValueError, match="weights"):
        bounds.best(rooms, [1])
    counted = RoomScore(LEAST, [(0, 1, 1, False)], [])
    with pytest.raises(ValueError, match="weight"):
        bounds.best(Rooms([], [(0, counted)]), [-1])
