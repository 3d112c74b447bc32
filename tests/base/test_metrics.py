# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import tracemalloc

import pytest

from koord.base import metrics


def test_components_in_one_process_do_not_share_metrics() -> None:
    pytest.importorskip("prometheus_client")
    first, second = metrics.registry(), metrics.registry()
    for registry, pods in ((first, 2), (second, 5)):
        bound = registry.counter("koord_scheduler_bound_total", "pods bound", ["profile"])
        bound.labels("default").inc(pods)
    assert b'koord_scheduler_bound_total{profile="default"} 2.0' in first.expose()
    assert b'koord_scheduler_bound_total{profile="default"} 5.0' in second.expose()


def _counted(registry: metrics.MetricRegistry) -> set[str]:
    lines = registry.expose().decode().splitlines()
    # When a series began is told by the package's own counters only.
    return {line for line in lines if "_created" not in line}


def test_counters_show_what_the_package_shows() -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    ours, theirs = metrics.registry(), prometheus_client.CollectorRegistry()
    for name, labels in (("koord_calls_total", ("code", "verb")), ("koord_turns", ())):
        mine = ours.counter(name, "what is counted", labels)
        other = prometheus_client.Counter(name, "what is counted", labels, registry=theirs)
        for counter in (mine, other):
            for values in (("200", "GET"), ("500", 'a "b"')) if labels else ((),):
                child = counter.labels(*values) if values else counter
                child.inc()
                child.inc(2.5)
                with pytest.raises(ValueError, match="only"):
                    child.inc(-1)
            with pytest.raises(ValueError, match="label"):
                counter.labels("one too few" if labels else "one too many")
            if labels:
                with pytest.raises(ValueError, match="label"):
                    counter.inc()
                counter.labels("200", "GET").inc(4)
                counter.remove("500", 'a "b"')
    text = prometheus_client.generate_latest(theirs).decode().splitlines()
    assert _counted(ours) == {line for line in text if "_created" not in line}


def test_gauges_show_what_the_package_shows() -> None:
    """Several in a registry, each written by itself, are the text of all of them in one go."""
    prometheus_client = pytest.importorskip("prometheus_client")
    ours, theirs = metrics.registry(), prometheus_client.CollectorRegistry()
    children = {"depth": [(), ()], "usage": [("web-0", 'a "b"'), ("web\n1", "c\\d"), ("", "é")]}
    for name, values in children.items():
        labels = ("pod", "container")[: len(values[0])]
        mine = ours.gauge(name, "what is measured", labels)
        other = prometheus_client.Gauge(name, "what is measured", labels, registry=theirs)
        for number, each in enumerate(values):
            (mine.labels(*each) if each else mine).set(number / 3)
            (other.labels(*each) if each else other).set(number / 3)
    assert ours.expose() == prometheus_client.generate_latest(theirs)


def test_a_counter_begins_anew() -> None:
    pytest.importorskip("prometheus_client")
    registry = metrics.registry()
    plain, labelled = registry.counter("a_total", "a"), registry.counter("b_total", "b", ["l"])
    plain.inc()
    labelled.labels("x").inc()
    plain.clear()
    labelled.clear()
    assert b"a_total 0.0" in registry.expose()
    assert b"b_total{" not in registry.expose()
    for wrong in (plain.set, plain.observe):
        with pytest.raises(TypeError, match="counter only grows"):
            wrong(1.0)


def test_histograms_take_their_buckets() -> None:
    pytest.importorskip("prometheus_client")
    registry = metrics.registry()
    registry.histogram("koord_wait_seconds", "wait", buckets=(0.1, 1.0)).observe(0.5)
    registry.gauge("koord_depth", "depth").set(7)
    text = registry.expose()
    assert b'koord_wait_seconds_bucket{le="1.0"} 1.0' in text
    assert b"koord_depth 7.0" in text


def test_exposing_takes_little_more_than_the_text() -> None:
    pytest.importorskip("prometheus_client")
    registry = metrics.registry()
    for name in ("a", "b", "c"):
        gauge = registry.gauge(name, "of many pods", ("pod", "container", "kind"))
        for row in range(1000):
            gauge.labels(f"pod-{row}", f"containerd://{row}", "some").set(row)
    text = registry.expose()
    tracemalloc.start()
    try:
        assert registry.expose() == text
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * len(text)


def test_samples_of_a_gauge_are_a_sequence() -> None:
    core = pytest.importorskip("prometheus_client.core")
    from koord.base.metric_types.gauge import Gauge

    gauge = Gauge("depth", "doc", ("queue",))
    for row in range(3):
        gauge.labels(str(row)).set(row)
    (family,) = gauge.collect()
    samples = [core.Sample("depth", {"queue": str(row)}, float(row)) for row in range(3)]
    assert list(family.samples) == samples
    assert family.samples[1:] == samples[1:]
    assert [family.samples[at] for at in (0, -1)] == [samples[0], samples[-1]]
    assert len(family.samples) == 3
    with pytest.raises(IndexError):
        family.samples[3]


def test_without_the_package_metrics_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    registry = metrics.registry()
    registry.counter("c", "doc", ["a"]).labels("x").inc()
    registry.gauge("g", "doc").set(1)
    registry.histogram("h", "doc").observe(0.1)
    assert registry.expose() == b""
