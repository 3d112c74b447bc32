# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.metrics.counter_rates import CounterRates
from tests.models.agent_metrics import Counters

INTERVAL = 2.0
KEYS = st.lists(st.sampled_from("abcde"), unique=True, max_size=5)
READING = st.one_of(st.none(), st.integers(0, 2**62))
STEPS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0, 39.0, 40.0, 41.0]), KEYS, st.lists(READING)),
    max_size=12,
)


@given(STEPS)
def test_differences_are_those_of_a_plain_loop(
    steps: list[tuple[float, list[str], list[int | None]]],
) -> None:
    rates, model, at = CounterRates(INTERVAL), Counters(20 * INTERVAL), 0.0
    for passed, names, readings in steps:
        at += passed
        keys = tuple((name,) for name in names)
        values = [readings[row] if row < len(readings) else row for row in range(len(keys))]
        good = np.array([value is not None for value in values], np.bool_)
        columns = np.array([value or 0 for value in values], np.int64)
        found = rates.advance(keys, columns, good, at).per_second()
        expected = model.advance(dict(zip(keys, values, strict=True)), at)
        told = [float("nan") if v is None else v for v in expected.values()]
        np.testing.assert_allclose(found, told, rtol=1e-12)


def reading(rates: CounterRates, value: int, at: float, good: bool = True) -> float:
    keys = (("x",),)
    column, read = np.array([value], np.int64), np.array([good])
    return float(rates.advance(keys, column, read, at).per_second()[0])


def test_the_first_reading_tells_nothing() -> None:
    assert np.isnan(reading(CounterRates(1.0), 5, 0.0))


def test_a_counter_that_stands_still_is_zero_and_one_that_went_back_starts_anew() -> None:
    rates = CounterRates(1.0)
    reading(rates, 5, 0.0)
    assert reading(rates, 5, 1.0) == 0.0
    assert np.isnan(reading(rates, 3, 2.0))
    assert reading(rates, 7, 3.0) == 4.0


@pytest.mark.parametrize(("at", "told"), [(20.0, True), (20.5, False)])
def test_a_point_counts_for_twenty_intervals(at: float, told: bool) -> None:
    rates = CounterRates(1.0)
    reading(rates, 0, 0.0)
    assert np.isfinite(reading(rates, 40, at)) == told


def test_a_reading_that_failed_does_not_break_the_row() -> None:
    rates = CounterRates(1.0)
    reading(rates, 0, 0.0)
    assert np.isnan(reading(rates, 999, 1.0, good=False))
    assert reading(rates, 6, 2.0) == 3.0
