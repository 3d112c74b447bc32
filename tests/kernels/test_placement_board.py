# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

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
    Ranks,
    RoomCheck,
    Rooms,
    RoomScore,
    RowClasses,
    changed_rows,
    spread_scores,
)
from tests.models import placement_board as model

KINDS = [NONE, DEFAULT, REVERSED, MIN_MAX, SPREAD]


def opened(rows: int, *scores: tuple[int, int]) -> Board:
    board = Board(rows, list(scores))
    board.refuse(CLOSED, slice(None), np.ones(rows, np.bool_))
    return board


def test_the_highest_total_wins_and_the_lowest_rank_among_equals() -> None:
    board = opened(3, (1, NONE))
    assert board.best() == 0
    board.rate(0, slice(None), np.array([5, 7, 7]))
    assert board.best() == 1
    board.set_ranks(np.array([0, 2, 1]))
    assert board.best() == 2
    board.refuse(4, np.array([2]), np.array([False]))
    assert board.best() == 1
    board.clear(4)
    assert board.best() == 2
    board.skip(0)
    assert board.best() == 0


def test_of_equal_ranks_the_first_row_wins() -> None:
    board = opened(130, (1, NONE))
    board.set_ranks(np.zeros(130, np.int64))
    board.rate(0, np.array([3, 70, 71, 129]), np.array([1, 2, 2, 2]))
    assert board.best() == board.best_of(np.ones(130, np.bool_)) == 70


def test_the_best_of_many_rows_is_known_by_groups_of_them() -> None:
    random = np.random.default_rng(7)
    rows = 20_000
    board = opened(rows, *((1, kind) for kind in KINDS))
    everything = np.ones(rows, np.bool_)
    for step in range(60):
        if step % 20 == 10:
            board.set_ranks(random.permutation(rows) // 3)
        some = random.integers(0, rows, 1 + 300 * (step % 3 == 0))
        some = np.unique(np.append(some, max(board.best(), 0)))
        if step % 5 == 4:
            board.refuse(step % 3, some, random.random(len(some)) < 0.5)
        else:
            board.rate(step % len(KINDS), some, random.integers(0, 4, len(some)))
        assert board.best() == board.best_of(everything)
    board.refuse(4, slice(100, rows), np.zeros(rows - 100, np.bool_))
    assert board.best() == board.best_of(everything) < 100
    board.skip(1)
    board.reset([(1, DEFAULT)])
    assert board.best() == -1


def test_a_new_board_has_no_open_row() -> None:
    board = Board(100, [(1, NONE)])
    assert board.best() == -1
    assert board.feasible == 0
    assert Board(0, []).best() == -1


def test_scores_are_normalised_among_feasible_rows() -> None:
    board = opened(3, (1, DEFAULT), (1, NONE))
    board.rate(0, slice(None), np.array([100, 50, 49]))
    board.rate(1, slice(None), np.array([0, 0, 2]))
    assert board.best() == 0
    # Without the first row, 50 counts as 100 and 49 as 98: the other score decides.
    board.refuse(0, np.array([0]), np.array([False]))
    assert board.best() == 1
    assert board.best_of(np.array([True, False, True])) == 2


def test_flips_count_rows_that_turned() -> None:
    board = opened(3, (1, NONE))
    before = board.flips
    board.refuse(0, np.array([0, 1]), np.array([False, True]))
    board.refuse(1, np.array([0]), np.array([False]))
    assert (board.flips - before, board.feasible) == (1, 2)
    assert board.refused.tolist() == [3, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        board.refused[0] = 0


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.refuse(0, np.array([3]), np.array([True])),
        lambda b: b.rate(0, np.array([-1]), np.array([1])),
        lambda b: b.rate(1, np.array([0]), np.array([1])),
        lambda b: b.raw(7),
    ],
)
def test_what_does_not_exist_is_named(call: object) -> None:
    with pytest.raises(KeyError, match="got"):
        call(opened(3, (1, NONE)))  # type: ignore[operator]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Board(3, [(-1, NONE)]),
        lambda: Board(3, [(1, 9)]),
        lambda: Board(3, [(1, NONE)]).reset([(-1, NONE)]),
        lambda: opened(3, (1, NONE)).refuse(64, slice(None), np.ones(3, np.bool_)),
        lambda: opened(3, (1, NONE)).clear(CLOSED),
        lambda: opened(3, (1, NONE)).rate(0, slice(None), np.ones(2, np.int64)),
        lambda: RoomScore(RATIO, [], []),
        lambda: RoomScore(RATIO, [], [(5, 1), (5, 2)]),
    ],
)
def test_what_makes_no_sense_is_refused(call: object) -> None:
    with pytest.raises(ValueError, match="got"):
        call()  # type: ignore[operator]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["refuse", "close", "clear", "rate", "skip", "rank", "best", "best_of", "reset"]
        ),
        st.integers(0, 4),
        st.integers(0, 1 << 30),
    ),
    max_size=30,
)


@given(st.integers(1, 150), st.lists(st.integers(0, 5), min_size=5, max_size=5), STEPS)
def test_the_board_always_agrees_with_a_look_at_all_rows(
    rows: int, weights: list[int], steps: list[tuple[str, int, int]]
) -> None:
    rules = list(zip(weights, KINDS, strict=True))
    board, twin = opened(rows, *rules), model.Board(rows, rules)
    twin.refuse(63, list(range(rows)), [True] * rows)
    for step, which, seed in steps:
        random = np.random.default_rng(seed)
        some = np.unique(random.integers(0, rows, 1 + seed % 7))
        index: Any = some
        if seed % 3 == 0:
            first, last = sorted(random.integers(0, rows + 1, 2).tolist())
            some, index = np.arange(first, last), slice(first, last)
        chance = random.random(len(some)) < 0.6
        if step in ("refuse", "close"):
            number = which if step == "refuse" else CLOSED
            board.refuse(number, index, chance)
            twin.refuse(number, some.tolist(), chance.tolist())
        elif step == "clear":
            board.clear(which)
            twin.clear(which)
        elif step == "rate":
            wide = 1 << 50 if seed % 11 == 0 and KINDS[which] != NONE else 9
            least = -1 if KINDS[which] in (MIN_MAX, SPREAD) else 0
            raw = random.integers(least, wide, len(some))
            board.rate(which, index, raw)
            twin.rate(which, some.tolist(), raw.tolist())
        elif step == "skip":
            board.skip(which)
            twin.raw.pop(which, None)
        elif step == "rank":
            twin.ranks = random.permutation(rows).tolist()
            order = np.array(twin.ranks)
            board.set_ranks(Ranks(rows, order) if seed % 2 else order)
        elif step == "best":
            assert board.best() == twin.best()
        elif step == "reset":
            flips, ranks = board.flips, twin.ranks
            rules = [(weight, kind) for weight, (_, kind) in zip(weights, rules, strict=True)]
            weights = weights[::-1]
            opened_rows = [CLOSED not in refused for refused in twin.refused]
            twin = model.Board(rows, rules)
            twin.ranks = ranks
            board.reset(rules, keep_closed=seed % 2 == 0)
            assert board.flips > flips
            if seed % 2:
                assert board.best() == -1
                opened_rows = [True] * rows
                board.refuse(CLOSED, slice(None), np.ones(rows, np.bool_))
            twin.refuse(CLOSED, list(range(rows)), opened_rows)
            assert board.best() == twin.best()
        else:
            mask = random.random(rows) < 0.5
            assert board.best_of(mask) == twin.best(mask.tolist())
    assert board.best() == twin.best()
    assert board.feasible == sum(not refused for refused in twin.refused)
    refused = [sum(1 << number for number in numbers) for numbers in twin.refused]
    assert board.refused.tolist() == refused


def test_room_by_worked_examples() -> None:
    has, used = np.array([[4000], [8 << 30]]), np.array([[3000], [2 << 30]])
    check = RoomCheck([(0, 1000), (1, 6 << 30)])
    assert check.check(has, used, used, slice(0, 1)).tolist() == [True]
    assert RoomCheck([(0, 1001)]).check(has, used, used, slice(0, 1)).tolist() == [False]
    assert RoomCheck([(0, 0)]).check(has, has + 1, used, slice(0, 1)).tolist() == [True]
    both = [(0, 500, 1, False), (1, 2 << 30, 1, False)]
    # 12.5 and 50 percent are left: truncated each, then their mean.
    assert RoomScore(LEAST, both, []).score(has, used, used, slice(0, 1)).tolist() == [31]
    assert RoomScore(MOST, both, []).score(has, used, used, slice(0, 1)).tolist() == [68]
    assert RoomScore(BALANCED, both, []).score(has, used, used, slice(0, 1)).tolist() == [81]
    line = [(0, 0), (100, 100)]
    assert RoomScore(RATIO, both, line).score(has, used, used, slice(0, 1)).tolist() == [69]


AMOUNTS = st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 50))


@given(st.lists(st.tuples(AMOUNTS, st.integers(0, 1 << 40), st.integers(1, 5)), max_size=4))
def test_room_scores_agree_with_the_formulas(
    resources: list[tuple[tuple[int, int], int, int]],
) -> None:
    count = max(1, len(resources))
    has = np.zeros((count, 1), np.int64)
    used = np.zeros((count, 1), np.int64)
    for index, ((capacity, taken), _, _) in enumerate(resources):
        has[index], used[index] = capacity, taken
    nonzero = np.zeros((2, 1), np.int64)
    for strategy, name in ((LEAST, "least"), (MOST, "most"), (BALANCED, "balanced")):
        counted = [(i, request, weight, False) for i, (_, request, weight) in enumerate(resources)]
        got = RoomScore(strategy, counted, []).score(has, used, nonzero, slice(0, 1))
        plain = [(c, t + request, weight) for (c, t), request, weight in resources]
        assert got.tolist() == [model.room_score(name, plain)]


def edges(random: np.random.Generator, rows: int, bits: int) -> tuple[Any, Any]:
    """What rows have and use: whole percents of it, one more and one less; nothing; too much."""
    has = random.integers(0, 1 << bits, rows) * (random.random(rows) < 0.9)
    used = has * random.integers(0, 101, rows) // 100 + random.integers(-1, 2, rows)
    taken = np.where(random.random(rows) < 0.1, random.integers(0, 1 << (bits + 1), rows), used)
    return has, np.maximum(taken, 0)


@given(st.integers(0, 1 << 30), st.sampled_from((4, 17, 38, 44, 45, 46, 50)), st.integers(1, 3))
def test_many_rows_are_rated_as_each_by_itself(seed: int, bits: int, resources: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 40))
    pairs = [edges(random, rows, bits) for _ in range(resources)]
    has, used = (np.array(column) for column in zip(*pairs, strict=True))
    nonzero = np.zeros((2, rows), np.int64)
    weights, requests = random.integers(1, 6, resources), random.integers(0, 4, resources)
    counted = [(n, int(requests[n]), int(weights[n]), False) for n in range(resources)]
    asked = [(n, int(requests[n])) for n in range(resources)]
    for strategy, name in ((LEAST, "least"), (MOST, "most"), (BALANCED, "balanced")):
        got = RoomScore(strategy, counted, []).score(has, used, nonzero, slice(0, rows))
        index = random.integers(0, rows, rows)
        by_index = RoomScore(strategy, counted, []).score(has, used, nonzero, index)
        assert by_index.tolist() == got[index].tolist()
        for row, score in enumerate(got.tolist()):
            plain = [(int(has[n, row]), int(used[n, row]) + r, w) for n, r, w, _ in counted]
            assert score == model.room_score(name, plain)
        others = [(n, 0, weight, False) for n, _, weight, _ in counted]
        again = RoomScore(strategy, others, []).requesting(requests.tolist())
        assert (again.score(has, used, nonzero, slice(0, rows)) == got).all()
    passes = RoomCheck(asked).check(has, used, nonzero, slice(0, rows))
    again_check = RoomCheck([(n, 9) for n, _ in asked]).asking([each for _, each in asked])
    assert (again_check.check(has, used, nonzero, slice(0, rows)) == passes).all()
    short = [any(a > 0 and a > has[n, r] - used[n, r] for n, a in asked) for r in range(rows)]
    assert passes.tolist() == [not each for each in short]


def test_a_hundred_thousand_rows_at_once_are_rated_as_one_by_one() -> None:
    random, rows = np.random.default_rng(3), 100_000
    pairs = [edges(random, rows, bits) for bits in (17, 38)]
    has, used = (np.array(column) for column in zip(*pairs, strict=True))
    counted = [(0, 100, 1, False), (1, 128 << 20, 2, False)]
    for strategy in (LEAST, MOST, BALANCED):
        score = RoomScore(strategy, counted, [])
        together = score.score(has, used, used, slice(0, rows))
        assert (together == score.score(has, used, used, np.arange(rows))).all()


def test_of_fewer_amounts_the_others_stay() -> None:
    has, used = np.array([[8], [8]]), np.array([[4], [4]])
    check = RoomCheck([(0, 9), (1, 5)]).asking([4])
    assert check.check(has, used, used, slice(0, 1)).tolist() == [False]
    fits = RoomCheck([(0, 9), (1, 4)]).asking([4])
    assert fits.check(has, used, used, slice(0, 1)).tolist() == [True]
    score = RoomScore(LEAST, [(0, 9, 1, False), (1, 4, 1, False)], [])
    assert score.requesting([4]).score(has, used, used, slice(0, 1)).tolist() == [0]
    assert score.requesting([0]).score(has, used, used, slice(0, 1)).tolist() == [25]
    with pytest.raises(ValueError, match="amounts: got '3', expected at most 2"):
        check.asking([1, 2, 3])
    with pytest.raises(ValueError, match="amounts: got '3', expected at most 2"):
        score.requesting([1, 2, 3])


def test_boards_share_the_order_of_their_rows() -> None:
    ranks = Ranks(3, np.array([2, 1]))  # the third row goes after them
    boards = [Board(3, [(1, NONE)], ranks) for _ in range(2)]
    for board in boards:
        board.refuse(CLOSED, slice(None), np.ones(3, np.bool_))
    assert [board.best() for board in boards] == [1, 1]
    boards[0].set_ranks(Ranks(3, np.array([0, 1, 2])))
    assert [board.best() for board in boards] == [0, 1]
    with pytest.raises(ValueError, match="ranks: got '4 rows', expected 3"):
        boards[0].set_ranks(Ranks(4, np.arange(4)))
    with pytest.raises(TypeError):
        boards[0].set_ranks(None)  # type: ignore[arg-type]


def test_a_board_tells_its_memory() -> None:
    board, rows = opened(10_000, (1, NONE), (1, REVERSED)), 10_000
    empty = board.bytes
    assert 8 * rows <= empty < 10 * rows
    board.rate(0, slice(None), np.zeros(rows, np.int64))
    assert empty + 8 * rows <= board.bytes < empty + 9 * rows
    board.rate(1, slice(None), np.zeros(rows, np.int64))
    assert empty + 20 * rows <= board.bytes < empty + 22 * rows
    # What was asked for once stays, so that a board that is emptied need not ask again.
    before = board.bytes
    board.reset([(1, NONE), (1, NONE)])
    assert board.bytes == before


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 255)), max_size=30), st.integers(0, 40))
def test_changed_rows_are_those_of_a_plain_table(
    touches: list[tuple[int, int]], start: int
) -> None:
    plain: dict[int, int] = {}
    for row, aspects in touches[start:]:
        plain[row] = plain.get(row, 0) | aspects
    found, of_each, any_of, all_of = changed_rows([r << 8 | a for r, a in touches], start)
    assert dict(zip(found.tolist(), of_each.tolist(), strict=True)) == plain
    assert found.tolist() == sorted(plain)
    assert any_of == sum(1 << bit for bit in range(8) if any(a >> bit & 1 for a in plain.values()))
    assert all_of == sum(1 << bit for bit in range(8) if all(a >> bit & 1 for a in plain.values()))


def test_checks_and_scores_come_onto_the_board_together() -> None:
    has, used = np.full((1, 3), 8), np.array([[0, 3, 7]])
    columns = has, used, np.zeros((2, 3), np.int64)
    check, score = RoomCheck([(0, 4)]), RoomScore(LEAST, [(0, 4, 1, False)], [])
    board = opened(3, (1, NONE), (1, NONE))
    rooms = Rooms([(2, check)], [(1, score)])
    rooms.put(board, *columns, slice(0, 2))
    assert board.refused.tolist() == [0, 0, 0]
    rooms.put(board, *columns, np.array([2]))
    assert board.refused.tolist() == [0, 0, 1 << 2]
    assert board.raw(1).tolist() == score.score(*columns, slice(None)).tolist() == [50, 12, 0]
    assert not len(board.raw(0))


def test_crowds_are_weighed_and_rounded() -> None:
    label = np.array([0, 1, -1, 0], np.int32)
    counts = np.array([2, 0, 0], np.int64)
    beside = np.array([0, 0, 5, 1], np.int64)
    every = np.array([0, 0, 0, 0], np.int32)
    parts = [(label, label, counts, 1.25, 4), (every, None, beside, 2.0, 2)]
    rated = np.array([True, True, True, False])
    # 2.5 + 4 + 2 is 8.5, rounded up; without the label only what is beside counts.
    assert spread_scores(parts, rated, slice(None)).tolist() == [9, 6, 12, -1]
    with pytest.raises(KeyError):
        spread_scores(parts, rated, np.array([4]))


def _alone(rooms: tuple[RoomCheck, RoomScore, RoomScore], columns: Any, open_rows: Any) -> Board:
    check, least, balanced = rooms
    board = Board(columns[0].shape[1], [(3, NONE), (2, NONE)])
    board.refuse(CLOSED, slice(None), open_rows)
    board.refuse(0, slice(None), check.check(*columns, slice(None)))
    board.rate(0, slice(None), least.score(*columns, slice(None)))
    board.rate(1, slice(None), balanced.score(*columns, slice(None)))
    return board


@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 40))
def test_rows_in_classes_have_the_best_of_a_board(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    rows, classes, seen = 70, RowClasses(most), 0
    ranks = random.permutation(rows)
    # Amounts of a few values, so that rows are alike.
    columns = [random.integers(1, 3, (2, rows)) * 1000, random.integers(0, 3, (2, rows)) * 500]
    columns.append(columns[1].copy())
    open_rows = random.random(rows) < 0.8
    asked = [slice(0, rows)] + [random.integers(0, rows, 1 + step % 3) for step in range(30)]
    for some in asked:
        open_rows[some] = random.random(len(open_rows[some])) < 0.8
        columns[1][:, some] = random.integers(0, 3, columns[1][:, some].shape) * 500
        columns[2][:, some] = columns[1][:, some]
        live = np.flatnonzero(open_rows)
        alike = len(np.unique(np.concatenate(columns)[:, live], axis=1).T) if len(live) else 0
        went = classes.update(*columns, some if seen else slice(0, rows), open_rows, ranks)
        assert went or len(classes) == 0
        seen = went
        if not went:
            continue
        assert len(classes) == alike <= most
        amount = int(random.integers(0, 1500))
        counted = [(0, amount, 1, True), (1, 10, 1, False)]
        rooms = (
            RoomCheck([(0, amount)]), RoomScore(LEAST, counted, []),
            RoomScore(BALANCED, counted, []),
        )  # fmt: skip
        board = _alone(rooms, columns, open_rows)
        board.set_ranks(ranks)
        assert classes.best(Rooms([(0, rooms[0])], [(0, rooms[1]), (1, rooms[2])]), [3, 2]) == (
            board.best()
        )


def test_what_classes_cannot_be_made_of_is_named() -> None:
    columns = [np.ones((2, 4), np.int64)] * 3
    ranks, open_rows = np.arange(4), np.ones(4, np.bool_)
    classes = RowClasses(2)
    with pytest.raises(KeyError, match="4"):
        classes.update(*columns, np.array([4]), open_rows, ranks)
    with pytest.raises(ValueError, match="rank"):
        classes.update(*columns, slice(0, 4), open_rows, ranks - 1)
    three = np.ones((3, 4), np.int64)
    with pytest.raises(ValueError, match="resources"):
        classes.update(three, three, columns[2], slice(0, 4), open_rows, ranks)
    with pytest.raises(ValueError, match="weights"):
        classes.best(Rooms([], []), [1])
    with pytest.raises(ValueError, match="most"):
        RowClasses(0)
