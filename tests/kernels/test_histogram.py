# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.histogram import CPU, MEMORY, Buckets, Histogram
from tests.models import histogram as model

HALF_LIFE_MS = 12 * 3_600_000
NOW_MS = model.ZERO_TIME_MS + 1_477_000 * HALF_LIFE_MS
SMALL = Buckets(first=0.5, maximum=20.0, ratio=1.5)
STARTS = SMALL.starts.tolist()

values = st.integers(0, 30).map(float) | st.floats(0, 1e6)
whole_steps = st.integers(-3, 260)
operations = st.lists(
    st.tuples(st.sampled_from(["add", "add", "subtract"]), values, whole_steps, st.integers(0, 9)),
    max_size=6,
)
percentiles = st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.95, 1.0])


def both(steps: list[tuple[str, float, int, int]]) -> tuple[Histogram, model.Histogram]:
    """Times are whole half-lives apart: weights are exact, and sums that tie do so in both."""
    ours, plain = Histogram(SMALL, HALF_LIFE_MS), model.Histogram(STARTS, HALF_LIFE_MS)
    for name, value, step, weight in steps:
        for histogram in (ours, plain):
            getattr(histogram, name)(value, NOW_MS + step * HALF_LIFE_MS, weight)
    return ours, plain


def assert_equal(ours: Histogram, plain: model.Histogram, p: float) -> None:
    assert ours.weights.tolist() == plain.weights
    assert ours.total_weight == plain.total
    assert ours.reference_ms == plain.reference_ms
    assert ours.percentile(p) == plain.percentile(p)
    assert ours.is_empty == (max(plain.weights) < model.EPSILON)


@given(operations, percentiles)
def test_samples_agree_with_the_model(steps: list[tuple[str, float, int, int]], p: float) -> None:
    ours, plain = both(steps)
    assert_equal(ours, plain, p)
    assert ours.save()["bucketWeights"] == plain.save()


@given(operations, operations, percentiles)
def test_merge_agrees_with_the_model(
    left: list[tuple[str, float, int, int]], right: list[tuple[str, float, int, int]], p: float
) -> None:
    ours, plain = both(left)
    other, plain_other = both(right)
    ours.merge(other)
    plain.merge(plain_other)
    assert_equal(ours, plain, p)


@given(st.lists(st.tuples(values, st.integers(0, 90 * HALF_LIFE_MS)), min_size=1, max_size=5))
def test_weights_between_half_lives_agree_with_the_model(samples: list[tuple[float, int]]) -> None:
    ours, plain = Histogram(SMALL, HALF_LIFE_MS), model.Histogram(STARTS, HALF_LIFE_MS)
    for value, late_ms in samples:
        ours.add(value, NOW_MS + late_ms)
        plain.add(value, NOW_MS + late_ms, 1.0)
    assert ours.weights.tolist() == pytest.approx(plain.weights, rel=1e-12)
    assert ours.total_weight == pytest.approx(plain.total, rel=1e-12)


@given(operations, percentiles)
def test_a_checkpoint_loads_as_it_was_saved(
    steps: list[tuple[str, float, int, int]], p: float
) -> None:
    ours, _ = both(steps)
    saved = json.loads(json.dumps(ours.save()))
    again = Histogram(SMALL, HALF_LIFE_MS)
    again.load(saved)
    ratio = ours.total_weight / max(1, sum(saved["bucketWeights"].values()))
    want = [ratio * saved["bucketWeights"].get(str(n), 0) for n in range(len(SMALL))]
    assert again.weights.tolist() == want
    assert again.reference_ms == ours.reference_ms


@given(st.floats(0, 2000) | st.integers(0, 5000).map(lambda milli: milli / 1000))
def test_buckets_agree_with_the_logarithm_away_from_their_starts(value: float) -> None:
    found = CPU.find(value)
    near = min(abs(value - begin) for begin in CPU.starts[max(0, found - 1) : found + 2])
    if near > 1e-9 * value:
        assert found == model.bucket(value, 0.025, 1.05, len(CPU))


@pytest.mark.parametrize(
    ("buckets", "first", "maximum", "number"),
    [(CPU, 0.025, 1024.0, 158), (MEMORY, 5.0 * 2**20, 2.0**41, 205)],
)
def test_the_buckets_of_cpu_and_memory(
    buckets: Buckets, first: float, maximum: float, number: int
) -> None:
    assert len(buckets) == model.count(first, maximum, 1.05) == number
    want = [model.start(first, 1.05, n) for n in range(number)]
    assert buckets.starts.tolist() == pytest.approx(want, rel=1e-12)
    assert [buckets.find(begin) for begin in buckets.starts] == list(range(number))
    assert buckets.find(-1.0) == 0
    assert buckets.find(math.inf) == number - 1


def test_one_cpu_sample_reads_as_the_end_of_its_bucket() -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    assert histogram.is_empty
    assert histogram.percentile(0.95) == 0.0
    histogram.add(0.1, NOW_MS)
    assert histogram.percentile(0.95) == pytest.approx(0.107753125, rel=1e-12)
    assert repr(histogram) == "<Histogram of weight 1>"


def test_a_checkpoint_is_koordinators_json() -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    assert histogram.save() == {
        "referenceTimestamp": "0001-01-01T00:00:00Z",
        "bucketWeights": {},
        "totalWeight": 0.0,
    }
    histogram.load(
        {
            "referenceTimestamp": "2025-10-09T12:00:00.000000000Z",
            "bucketWeights": {"3": 10000, "20": 5000},
            "totalWeight": 3.0,
        }
    )
    assert (histogram.weights[3], histogram.weights[20]) == (2.0, 1.0)
    assert histogram.save()["referenceTimestamp"] == "2025-10-09T12:00:00Z"


def test_keys_of_a_checkpoint_are_read_in_any_case() -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    histogram.load(
        {"ReferenceTimestamp": "2025-10-09T12:00:00Z", "BUCKETWEIGHTS": {"3": 1}, "TotalWeight": 2}
    )
    assert histogram.weights[3] == 2.0


def test_loading_adds_to_what_is_there() -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    histogram.add(1.0, NOW_MS)
    histogram.load(histogram.save())
    assert histogram.total_weight == pytest.approx(2.0)


GOOD = {"referenceTimestamp": "2025-10-09T12:00:00Z", "bucketWeights": {"1": 1}, "totalWeight": 1}


@pytest.mark.parametrize(
    "checkpoint",
    [
        None,
        [],
        {},
        GOOD | {"totalWeight": -1},
        GOOD | {"totalWeight": "1"},
        GOOD | {"totalWeight": 10**400},
        GOOD | {"totalWeight": math.inf},
        GOOD | {"bucketWeights": {"158": 1}},
        GOOD | {"bucketWeights": {"-1": 1}},
        GOOD | {"bucketWeights": {"x": 1}},
        GOOD | {"bucketWeights": {"1": -1}},
        GOOD | {"bucketWeights": {"1": 2**32}},
        GOOD | {"bucketWeights": {"1": 0.5}},
        GOOD | {"bucketWeights": [1]},
        GOOD | {"referenceTimestamp": "yesterday"},
        GOOD | {"referenceTimestamp": "2025-10-09T12:00:00"},
        GOOD | {"referenceTimestamp": 5},
    ],
)
def test_a_bad_checkpoint_is_refused_whole(checkpoint: dict[str, object] | None) -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    with pytest.raises(ValueError, match=r"^[^\n]*: got [^\n]*, expected [^\n]*$"):
        histogram.load(checkpoint)
    assert histogram.is_empty


json_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
json_values = json_scalars | st.dictionaries(st.text("019-x", max_size=3), json_scalars, max_size=2)


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), json_values))
def test_any_json_is_a_checkpoint_or_a_value_error(fields: dict[str, object]) -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    try:
        histogram.load(GOOD | fields)
    except ValueError as error:
        problem = str(error)
        assert histogram.is_empty
    else:
        problem = ""
    assert "\n" not in problem


def test_bad_samples_and_options() -> None:
    histogram = Histogram(CPU, HALF_LIFE_MS)
    for value, time_ms, weight in (
        (math.nan, NOW_MS, 1), (1.0, NOW_MS, -1), (1.0, NOW_MS, math.inf), (1.0, 2**62, 1),
    ):  # fmt: skip
        for change in (histogram.add, histogram.subtract):
            with pytest.raises(ValueError, match="expected"):
                change(value, time_ms, weight)
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="percentile"):
            histogram.percentile(p)
    with pytest.raises(ValueError, match="half_life_ms"):
        Histogram(CPU, 0)
    with pytest.raises(ValueError, match="the same buckets"):
        histogram.merge(Histogram(MEMORY, HALF_LIFE_MS))
    with pytest.raises(ValueError, match="the half-life"):
        histogram.merge(Histogram(CPU, 1))
    for first, maximum, ratio in (
        (0, 1, 1.05),
        (1, 0.5, 1.05),
        (1, 9, 1.0),
        (1e-300, 1e300, 1.001),
    ):
        with pytest.raises(ValueError, match="expected"):
            Buckets(first, maximum, ratio)


def test_weights_are_a_read_only_view() -> None:
    histogram = Histogram(SMALL, HALF_LIFE_MS)
    weights = histogram.weights
    histogram.add(1.0, NOW_MS)
    assert weights.sum() == 1.0
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        SMALL.starts[0] = 1.0
