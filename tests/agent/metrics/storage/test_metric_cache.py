# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.metrics.metric_kinds import LABELS, MetricKind
from koord.agent.metrics.options import OWNED, MetricsOptions
from koord.agent.metrics.reader import SeriesRows, Window
from koord.agent.metrics.samples import Keys, Samples
from koord.agent.metrics.storage.metric_cache import MetricCache
from koord.agent.metrics.storage.series_rings import SeriesRings
from tests.models import agent_metrics as model
from tests.models import series as series_model

POD = MetricKind.POD_CPU_USAGE
NOW = 1_700_000_000_000
VALUE = st.one_of(st.none(), st.floats(-1e9, 1e9))
ROUND = st.tuples(
    st.sampled_from([-70_000, -2_000, 0, 500, 1_000, 1_000, 1_000]),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUE, max_size=3),
)


def put(
    cache: MetricCache, time_ms: int, values: dict[str, float | None], kind: MetricKind = POD
) -> int:
    samples = Samples(time_ms)
    keys = tuple((name,) for name in values)
    samples.add(kind, keys, [np.nan if v is None else v for v in values.values()])
    return cache.append(samples)


def read(cache: MetricCache, start: int, end: int, *percentiles: float) -> SeriesRows:
    return cache.read(POD, Window(start, end), percentiles)


@given(st.lists(ROUND, max_size=25), st.integers(1, 8), st.integers(1, 8))
def test_a_shelf_reads_as_sorted_lists_do(
    rounds: list[tuple[int, dict[str, float | None]]], capacity: int, resized: int
) -> None:
    shelf, plain, now = SeriesRings(capacity, lambda _: True), model.Cache(capacity), NOW
    for step, (passed, values) in enumerate(rounds):
        now += passed
        keys = tuple((name,) for name in values)
        column = np.array([np.nan if v is None else v for v in values.values()], np.float64)
        shelf.append(now, keys, column)
        plain.append(now, dict(zip(keys, values.values(), strict=True)))
        if step == 12:
            shelf.resize(resized)
            plain.store.keep(resized)
    expected = plain.window(now - 5_000, now)
    found = shelf.rows(Window(now - 5_000, now), [0.9], ())
    assert found.labels == list(expected)
    for row, samples in enumerate(expected.values()):
        values = [value for _, value in samples]
        assert found.count[row] == len(values)
        assert found.avg[row] == pytest.approx(series_model.average(values))
        assert found.last[row] == series_model.last(samples)
        assert found.percentiles[row, 0] == series_model.percentile(values, 0.9)
        assert (found.oldest_ms[row], found.newest_ms[row]) == (samples[0][0], samples[-1][0])


@given(st.lists(st.one_of(ROUND, st.sampled_from(["drop", "clear", "resize"])), max_size=25))
def test_labels_that_were_read_once_stay_as_they_were(
    steps: list[tuple[int, dict[str, float | None]] | str],
) -> None:
    """Strategies look rows up anew when the list is another object, and only then."""
    shelf, now = SeriesRings(8, lambda _: True), NOW
    earlier: list[tuple[list[tuple[str, ...]], list[tuple[str, ...]]]] = []
    for step in steps:
        if step == "drop":
            shelf.drop_silent(now - 1_000)
        elif step == "clear":
            shelf.clear()
        elif step == "resize":
            shelf.resize(5)
        elif not isinstance(step, str):
            now += step[0]
            keys = tuple((name,) for name in step[1])
            column = np.array([np.nan if v is None else v for v in step[1].values()], np.float64)
            shelf.append(now, keys, column)
        labels = shelf.rows(Window(0, now), (), ()).labels
        earlier.append((labels, list(labels)))
        assert all(read == then for read, then in earlier)


def test_the_same_series_are_the_same_list() -> None:
    """Then nobody looks rows up anew."""
    cache = MetricCache()
    put(cache, NOW, {"a": 1.0, "b": 2.0})
    first = read(cache, NOW, NOW).labels
    put(cache, NOW + 1000, {"b": 4.0, "a": 3.0})
    assert read(cache, NOW, NOW + 1000).labels is first
    put(cache, NOW + 2000, {"c": 5.0})
    assert read(cache, NOW, NOW + 2000).labels is not first


def test_worked_examples_of_the_report() -> None:
    cache = MetricCache()
    put(cache, NOW, {"a": 0.5})
    put(cache, NOW + 1000, {"a": 1.5})
    assert read(cache, NOW, NOW + 1000).avg.tolist() == [1.0]
    for second in range(10):
        put(cache, NOW + 1000 * second, {"ten": second + 1.0})
    rows = cache.read(POD, Window(NOW, NOW + 9000), [0.9], match=["ten"])
    assert rows.percentiles.tolist() == [[9.0]]
    assert rows.by_label(rows.last) == {"ten": 10.0}


def test_labels_are_the_schema_and_a_query_gives_some_of_them() -> None:
    cache, samples = MetricCache(), Samples(NOW)
    keys = (("p", "1", "g1"), ("q", "0", "g0"), ("p", "0", "g0"))
    samples.add(MetricKind.POD_GPU_CORE_USAGE, keys, [1.0, 2.0, 3.0])
    assert cache.append(samples) == 3
    window = Window(NOW, NOW)
    every = cache.read(MetricKind.POD_GPU_CORE_USAGE, window)
    assert every.labels == sorted(keys)
    some = cache.read(MetricKind.POD_GPU_CORE_USAGE, window, match=["p"])
    assert some.labels == [("p", "0", "g0"), ("p", "1", "g1")]
    one = cache.read(MetricKind.POD_GPU_CORE_USAGE, window, match=[None, "0", None])
    assert one.by_label(one.last) == {"p": 3.0, "q": 2.0}
    exact = cache.read(MetricKind.POD_GPU_CORE_USAGE, window, match=["q", "0", "g0"])
    assert exact.last.tolist() == [2.0]
    assert not cache.read(MetricKind.POD_GPU_CORE_USAGE, window, match=["q", "0", "g1"]).labels


def test_wrong_labels_are_refused() -> None:
    cache, samples = MetricCache(), Samples(NOW)
    samples.add(POD, (("a", "b"),), [1.0])
    with pytest.raises(ValueError, match="pod_cpu_usage"):
        cache.append(samples)
    with pytest.raises(ValueError, match="match"):
        cache.read(POD, Window(0, 1), match=["a", "b"])


def test_nothing_measured_is_no_rows() -> None:
    rows = MetricCache().read(MetricKind.NODE_BE, Window(0, 1), [0.5, 0.9])
    assert not rows.labels
    assert rows.percentiles.shape == (0, 2)


def test_the_last_window_is_twice_the_interval() -> None:
    assert MetricCache(MetricsOptions(used=5.0)).last_window(NOW) == Window(NOW - 10_000, NOW)


def test_what_is_gone_is_forgotten_after_its_grace_and_what_lives_is_not() -> None:
    cache = MetricCache(grace_seconds=120.0)
    put(cache, NOW, {"gone": 1.0, "here": 1.0})
    for second in range(1, 125):
        now = NOW + 1000 * second
        put(cache, now, {"here": 1.0})
        dropped = cache.expire(now)
        assert (dropped == 1) == (second == 122)
    assert cache.series == 1


def test_a_collector_that_fails_for_a_while_forgets_nothing_in_reach() -> None:
    cache = MetricCache()
    put(cache, NOW, {"a": 1.0})
    assert cache.expire(NOW + 300_000) == 0
    assert cache.expire(NOW + 3_600_000) == 1


def test_a_longer_window_makes_the_rings_longer_and_loses_nothing() -> None:
    cache = MetricCache()
    for second in range(400):
        put(cache, NOW + 1000 * second, {"a": float(second)})
    before = cache.bytes
    end = NOW + 399_000
    assert read(cache, NOW, end).count[0] < 400
    kept = read(cache, NOW, end)
    assert cache.bytes > before
    for second in range(400, 500):
        put(cache, NOW + 1000 * second, {"a": float(second)})
    rows = read(cache, NOW, NOW + 499_000)
    assert rows.count[0] == kept.count[0] + 100
    assert rows.oldest_ms[0] == kept.oldest_ms[0]


def test_memory_is_bounded_and_said_so_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = MetricsOptions(max_bytes=100_000)
    cache = MetricCache(settings)
    with caplog.at_level(logging.WARNING):
        for second in range(3):
            put(cache, NOW + 1000 * second, {f"pod-{n}": 1.0 for n in range(100)})
            read(cache, 0, NOW)
    assert cache.bytes <= settings.max_bytes
    assert 0 < cache.series < 100
    said = [record.message.split(":")[0] for record in caplog.records]
    assert said == ["metric cache is full", "no room for pod_cpu_usage over 43200 s"]


def test_calls_of_one_time_are_one_round() -> None:
    """A kind that comes in parts reaches back as far as one that comes at once."""
    parts, whole = MetricCache(), MetricCache()
    for second in range(400):
        now = NOW + 1000 * second
        values = {f"pod-{n}": float(second) for n in range(4)}
        put(whole, now, values)
        for name, value in values.items():
            put(parts, now, {name: value})
    for column in ("labels", "count", "oldest_ms", "avg"):
        one, other = (getattr(read(cache, NOW, NOW + 400_000), column) for cache in (parts, whole))
        np.testing.assert_array_equal(one, other)


def test_a_clock_set_back_starts_anew() -> None:
    cache = MetricCache()
    put(cache, NOW, {"a": 1.0})
    assert put(cache, NOW - 3_600_000, {"a": 2.0}) == 1
    assert read(cache, NOW - 3_600_000, NOW).last.tolist() == [2.0]


def test_a_crowd_gives_its_memory_back() -> None:
    cache = MetricCache(grace_seconds=1.0)
    put(cache, NOW, {f"pod-{n}": 1.0 for n in range(300)})
    crowded = cache.bytes
    for second in range(1, 10):
        put(cache, NOW + 1000 * second, {"pod-0": 1.0})
    assert cache.expire(NOW + 9000) == 299
    assert cache.bytes < crowded / 100
    assert read(cache, NOW, NOW + 9000).count.tolist() == [10]


def test_the_same_keys_again_are_not_looked_up_anew() -> None:
    shelf = SeriesRings(4, lambda _: True)
    keys: Keys = tuple((str(n),) for n in range(3))
    shelf.append(NOW, keys, np.array([1.0, np.nan, 3.0]))
    assert len(shelf) == 2
    shelf.append(NOW + 1, keys, np.array([1.0, 2.0, 3.0]))
    assert len(shelf) == 3
    assert shelf.rows(Window(NOW + 1, NOW + 1), (), ()).last.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", MetricKind)
def test_every_kind_has_an_interval_a_window_and_labels(kind: MetricKind) -> None:
    settings = MetricsOptions()
    window = settings.window_seconds(kind)
    assert settings.interval_seconds(kind) * 10 <= window
    assert settings.capacity(kind, window) * settings.interval_seconds(kind) > window
    assert len(LABELS[kind]) > 0 or not kind.startswith(OWNED)
