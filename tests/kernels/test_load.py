# SPDX-License-Identifier: Apache-2.0
"""Rows by their load, against whole numbers one row at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from koord.kernels.placement_board import load_scores, load_within

# Small, as nodes have them, at the end of what doubles hold, and at the end of what counts.
_AMOUNTS = st.one_of(
    st.integers(0, 200), st.integers(0, 2**41), st.integers(2**45 - 3, 2**46 + 3),
    st.integers(2**53 - 3, 2**53),
)  # fmt: skip
_TIMES = st.sampled_from([-math.inf, 0.0, 99.5, 100.0, 100.5, math.inf])


class Rows(NamedTuple):
    """Columns, a pod's amounts and weights, and the rows that are asked about."""

    used: NDArray[np.int64]
    bound: NDArray[np.int64]
    until: NDArray[np.float64]
    amounts: list[int]
    weights: list[int]
    dominant: int
    asked: slice | NDArray[np.intp]

    def numbers(self) -> list[int]:
        return np.arange(len(self.until))[self.asked].tolist()

    def share(self, resource: int, row: int) -> int:
        has = int(self.bound[resource, row])
        left = has - int(self.used[resource, row]) - self.amounts[resource]
        return max(left, 0) * 100 // max(has, 1)

    def score(self, row: int) -> int:
        shares = [self.share(resource, row) for resource in range(len(self.amounts))]
        total = sum(s * w for s, w in zip(shares, self.weights, strict=True))
        weights = max(sum(self.weights) + self.dominant, 1)
        return (total + self.dominant * min(shares, default=100)) // weights

    def fits(self, row: int) -> bool:
        return all(
            int(self.used[resource, row]) + amount <= int(self.bound[resource, row])
            for resource, amount in enumerate(self.amounts)
        )


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    resources, count = draw(st.integers(0, 3)), draw(st.integers(0, 12))

    def column() -> NDArray[np.int64]:
        cells = draw(st.lists(_AMOUNTS, min_size=resources * count, max_size=resources * count))
        return np.array(cells, np.int64).reshape(resources, count)

    first = draw(st.integers(0, count))
    index = st.lists(st.integers(0, max(count - 1, 0)), max_size=4 if count else 0)
    asked: slice | NDArray[np.intp] = slice(first, draw(st.integers(first, count)))
    if draw(st.booleans()):
        asked = np.array(draw(index), np.intp)
    return Rows(
        column(), column(),
        np.array(draw(st.lists(_TIMES, min_size=count, max_size=count)), np.float64),
        draw(st.lists(_AMOUNTS, min_size=resources, max_size=resources)),
        draw(st.lists(st.integers(0, 100), min_size=resources, max_size=resources)),
        draw(st.integers(0, 3)), asked,
    )  # fmt: skip


@given(rows())
def test_scores_are_those_of_whole_numbers(given_rows: Rows) -> None:
    each = given_rows
    found = load_scores(*each[:2], each.amounts, each.weights, each.dominant, each.until, 100.0,
                        each.asked)  # fmt: skip
    fresh = [each.score(row) if each.until[row] > 100.0 else 0 for row in each.numbers()]
    assert found.tolist() == fresh


@given(rows(), st.booleans())
def test_what_is_within_is_so_in_whole_numbers(given_rows: Rows, expired: bool) -> None:
    each = given_rows
    found = load_within(*each[:2], each.amounts, each.until, 100.0, expired, each.asked)
    fresh = [each.fits(row) if each.until[row] > 100.0 else expired for row in each.numbers()]
    assert found.tolist() == fresh


def test_an_example_written_out() -> None:
    """8 CPUs and 16 GiB, of which 3 and 4 are used; a pod of 1 and 2: half, and 62 %."""
    used, has = np.array([[3000], [4 << 30]]), np.array([[8000], [16 << 30]])
    pod, until = [1000, 2 << 30], np.array([60.0])
    assert load_scores(used, has, pod, [1, 1], 0, until, 59.0, slice(None)).tolist() == [56]
    assert load_scores(used, has, pod, [1, 1], 2, until, 59.0, slice(None)).tolist() == [53]
    assert load_scores(used, has, pod, [1, 1], 0, until, 60.0, slice(None)).tolist() == [0]
    limit = np.array([[4000], [6 << 30]])
    assert load_within(used, limit, pod, until, 59.0, False, slice(None)).tolist() == [True]
    assert load_within(used, limit, [1001, 0], until, 59.0, True, slice(None)).tolist() == [False]


def test_more_rows_than_are_rated_at_a_time() -> None:
    used, has = np.arange(3000, dtype=np.int64).reshape(1, -1), np.full((1, 3000), 3000)
    until = np.full(3000, math.inf)
    found = load_scores(used, has, [0], [1], 0, until, 0.0, slice(1, 2999))
    assert found.tolist() == [(3000 - row) * 100 // 3000 for row in range(1, 2999)]
    within = load_within(used, has - 1000, [0], until, 0.0, False, slice(1, 2999))
    assert within.tolist() == [row <= 2000 for row in range(1, 2999)]


def test_what_does_not_fit_together_is_told() -> None:
    column, until = np.zeros((1, 4), np.int64), np.zeros(4)
    with pytest.raises(ValueError, match="amounts: got '2', expected one a resource"):
        load_within(column, column, [1, 1], until, 0.0, False, slice(None))
    with pytest.raises(ValueError, match="weights: got '0', expected one a resource"):
        load_scores(column, column, [1], [], 0, until, 0.0, slice(None))
    with pytest.raises(ValueError, match="weight: got '-1', expected 0 or more"):
        load_scores(column, column, [1], [-1], 0, until, 0.0, slice(None))
    with pytest.raises(ValueError, match="weight: got '-2', expected 0 or more"):
        load_scores(column, column, [1], [1], -2, until, 0.0, slice(None))
    with pytest.raises(ValueError, match="columns: got 'other shapes'"):
        load_scores(column, np.zeros((2, 4), np.int64), [1], [1], 0, until, 0.0, slice(None))
    for asked in (np.array([4]), np.array([-1])):
        with pytest.raises(KeyError, match="row: got"):
            load_scores(column, column, [1], [1], 0, until, 0.0, asked)
    with pytest.raises(KeyError, match="row: got '3', expected a row of the columns"):
        load_within(column, column, [1], until[:3], 0.0, False, slice(None))
