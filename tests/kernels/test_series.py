# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.series import Appended, CounterReadings, Series, SeriesStore
from tests.models import series as model

times = st.integers(-5, 5).map(lambda step: step * 20_000) | st.integers(0, 200_000)
values = st.integers(-9, 9).map(float) | st.floats(-1e9, 1e9)
shares = st.integers(1, 1000).map(lambda thousandths: thousandths / 1000)
ALWAYS = (-(2**62), 2**62)


@given(
    st.integers(1, 8), st.lists(st.tuples(times, values), max_size=12), times, times,
    st.lists(shares, max_size=4),
)  # fmt: skip
def test_a_series_agrees_with_the_model(
    capacity: int,
    samples: list[tuple[int, float]],
    start_ms: int,
    end_ms: int,
    percentiles: list[float],
) -> None:
    ours, plain = Series(capacity), model.Series(capacity)
    for time_ms, value in samples:
        assert (ours.append(time_ms, value) is Appended.TAKEN) == plain.append(time_ms, value)
    assert len(ours) == len(plain.samples)
    window = plain.window(start_ms, end_ms)
    summary = ours.summarize(start_ms, end_ms, percentiles)
    assert summary.count == len(window)
    if not window:
        assert math.isnan(summary.avg)
        assert math.isnan(summary.last)
        assert all(math.isnan(value) for value in summary.percentiles)
        return
    found = [value for _, value in window]
    assert (summary.oldest_ms, summary.newest_ms) == (window[0][0], window[-1][0])
    assert (summary.avg, summary.last) == (model.average(found), model.last(window))
    assert summary.percentiles == [model.percentile(found, share) for share in percentiles]


ROWS = 3
rows = st.lists(values | st.sampled_from([math.nan, math.inf]), min_size=ROWS, max_size=ROWS)
append = st.tuples(st.just("append"), times, rows)
renew = st.tuples(st.just("renew"), st.integers(0, ROWS - 1))
resize = st.tuples(st.just("resize"), st.integers(1, 6))


@given(
    st.integers(1, 6), st.lists(append | append | append | renew | resize, max_size=12), times,
    times, st.lists(shares, max_size=3),
)  # fmt: skip
def test_a_store_agrees_with_the_model(
    capacity: int,
    steps: list[tuple[str, int] | tuple[str, int, list[float]]],
    start_ms: int,
    end_ms: int,
    percentiles: list[float],
) -> None:
    store, plain = SeriesStore(capacity), model.Store(capacity)
    ids = np.array([store.add() for _ in range(ROWS)])
    for step in steps:
        if len(step) == 3:
            _, time_ms, row = step
            finite = {at: value for at, value in enumerate(row) if math.isfinite(value)}
            assert store.append(time_ms, ids, np.array(row)) == plain.append(time_ms, finite)
        elif step[0] == "renew":
            store.remove(ids[step[1]])
            assert len(store) == ROWS - 1
            ids[step[1]] = store.add()
            plain.forget(step[1])
        else:
            store.resize(step[1])
            plain.keep(step[1])
    found = store.summarize(ids[::-1], start_ms, end_ms, percentiles)
    for at, row_of in enumerate(reversed(range(ROWS))):
        window = plain.window(row_of, start_ms, end_ms)
        assert found.count[at] == len(window)
        if not window:
            assert np.isnan([found.avg[at], found.last[at], *found.percentiles[at]]).all()
            continue
        sampled = [value for _, value in window]
        assert (found.oldest_ms[at], found.newest_ms[at]) == (window[0][0], window[-1][0])
        assert (found.avg[at], found.last[at]) == (model.average(sampled), model.last(window))
        wanted = [model.percentile(sampled, share) for share in percentiles]
        assert found.percentiles[at].tolist() == wanted


def test_rounds_of_a_store_are_counted_not_samples() -> None:
    store = SeriesStore(3)
    ids = [store.add(), store.add()]
    for time_ms in range(1, 6):
        assert store.append(time_ms, ids[:1], [1.0]) == 1
        assert store.append(time_ms, ids[1:], [2.0 if time_ms == 3 else math.nan]) == (time_ms == 3)
        assert store.append(time_ms + 10, ids, [math.nan, math.inf]) == 0
    every = store.summarize(ids, *ALWAYS)
    assert every.count.tolist() == [3, 1]
    assert every.oldest_ms.tolist() == [3, 3]
    store.append(6, ids[:1], [1.0])
    assert store.summarize(ids, *ALWAYS).count.tolist() == [3, 0]


def test_late_is_by_the_newest_round_of_all() -> None:
    store = SeriesStore(8)
    ids = [store.add(), store.add()]
    store.append(100_000, ids, [1.0, math.nan])
    assert store.append(40_000, ids[1:], [2.0]) == 1
    assert store.append(39_999, ids[1:], [3.0]) == 0
    store.append(100_001, ids[:1], [4.0])
    assert store.append(40_000, ids[:1], [5.0]) == 0
    every = store.summarize(ids, *ALWAYS)
    assert every.newest_ms.tolist() == [100_001, 40_000]
    assert every.last.tolist() == [4.0, 2.0]


def test_worked_examples() -> None:
    series = Series(16)
    for time_ms, value in ((1000, 0.5), (2000, 1.5)):
        series.append(time_ms, value)
    assert series.aggregate("avg", 0, 5000) == 1.0
    assert series.aggregate("no such aggregate", 0, 5000) == 1.0
    assert series.aggregate("last", 0, 1500) == 0.5
    assert series.aggregate("count", 5000, 6000) == 0
    ten = Series(10)
    for i in range(1, 11):
        ten.append(i, float(i))
    assert ten.aggregate("p90", 0, 10) == 9.0
    assert ten.aggregate("p50", 1, 1) == 1.0


@pytest.mark.parametrize("count", [1, 7, 10, 100, 300, 1000])
@pytest.mark.parametrize("share", [0.29, 0.5, 0.57, 0.9, 0.95, 0.99, 1.0])
def test_the_percentile_index_is_single_precision(count: int, share: float) -> None:
    series = Series(count)
    for i in range(count):
        series.append(i, float(i))
    want = max(0, int(np.float32(count) * np.float32(share)) - 1)
    assert series.summarize(0, count, [share]).percentiles == [want]


def test_a_late_sample_takes_its_place_and_a_later_one_does_not() -> None:
    series = Series(4)
    assert series.append(100_000, 1.0) is Appended.TAKEN
    assert series.append(40_000, 2.0) is Appended.TAKEN
    assert series.append(39_999, 3.0) is Appended.TOO_OLD
    assert series.append(40_000, 3.0) is Appended.DUPLICATE
    assert series.aggregate("last", *ALWAYS) == 1.0
    assert repr(series) == "<Series of 2 of at most 4 samples>"


def test_the_epoch_has_no_last_value() -> None:
    series = Series(4)
    series.append(0, 7.0)
    assert series.aggregate("last", *ALWAYS) == 0.0
    assert series.aggregate("avg", *ALWAYS) == 7.0


def test_bad_input_is_a_value_error() -> None:
    series = Series(4)
    with pytest.raises(ValueError, match=r"window: got \[0, 9\], expected one with samples"):
        series.aggregate("avg", 0, 9)
    with pytest.raises(ValueError, match="value: got 'nan', expected a finite number"):
        series.append(1, math.nan)
    for share in (0.0, -0.1, 1.001, 0.0005, math.nan):
        with pytest.raises(ValueError, match="percentile: got"):
            series.summarize(0, 1, [share])
    for capacity in (0, 2**24 + 1):
        with pytest.raises(ValueError, match="capacity"):
            Series(capacity)
        with pytest.raises(ValueError, match="capacity"):
            SeriesStore(capacity)
        with pytest.raises(ValueError, match="capacity"):
            SeriesStore(4).resize(capacity)


def test_a_store_knows_its_ids() -> None:
    store = SeriesStore(4)
    first, second = store.add(), store.add()
    store.append(1, [first, second], [1.0, 2.0])
    store.remove(first)
    assert len(store) == 1
    for ids in ([first], [second, 99], [-1]):
        with pytest.raises(KeyError, match="series id"):
            store.append(2, ids, [3.0] * len(ids))
        with pytest.raises(KeyError, match="series id"):
            store.summarize(ids, 0, 9)
    with pytest.raises(ValueError, match="values: got '1', expected as many values as ids, 2"):
        store.append(2, [second, second], [1.0])
    assert store.add() == first
    assert store.summarize([first, second], *ALWAYS).count.tolist() == [0, 1]


KEPT_SECONDS = 10.0
counters = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
                    min_size=ROWS, max_size=ROWS)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 5.0, 10.0, 10.5]), counters), max_size=8))
def test_what_counters_did_is_what_a_plain_loop_tells(
    readings: list[tuple[float, list[int | None]]],
) -> None:
    ours = CounterReadings(np.zeros(ROWS, np.int64), np.full(ROWS, -np.inf))
    plain, at = model.Counters(ROWS, KEPT_SECONDS), 0.0
    for passed, read in readings:
        at += passed
        good = np.array([value is not None for value in read], np.bool_)
        # As a table has it: a column among others.
        table = np.array([[0, value or 0] for value in read], np.int64)
        amount, seconds = ours.advance(table[:, 1], good, at, KEPT_SECONDS)
        told = plain.advance(read, at)
        assert amount.tolist() == [more for more, _ in told]
        np.testing.assert_array_equal(seconds, [math.nan if s is None else s for _, s in told])


def test_readings_have_their_rows() -> None:
    ours = CounterReadings(np.array([5, 7], np.int64), np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="rows: got '2', expected as many as there are values, 1"):
        ours.advance(np.array([9], np.int64), np.array([True]), 2.0, KEPT_SECONDS)
    assert ours.values.tolist() == [5, 7]


def test_what_counters_did_written_out() -> None:
    """A row that runs, one that started anew, one not read, one never read before, one too old."""
    before, at = np.array([100, 500, 7, 0, 40]), np.array([10.0, 10.0, 10.0, -math.inf, 1.0])
    ours = CounterReadings(before, at)
    now = np.array([160, 20, 999, 30, 50]), np.array([True, True, False, True, True])
    amount, seconds = ours.advance(*now, 12.0, KEPT_SECONDS)
    assert amount.tolist() == [60, 0, 0, 0, 0]
    assert str(seconds.tolist()) == "[2.0, nan, nan, nan, nan]"
    assert ours.values.tolist() == [160, 20, 7, 30, 50]
    assert ours.at_seconds.tolist() == [12.0, 12.0, 10.0, 12.0, 12.0]
