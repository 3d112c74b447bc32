# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

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


def test_histograms_take_their_buckets() -> None:
    pytest.importorskip("prometheus_client")
    registry = metrics.registry()
    registry.histogram("koord_wait_seconds", "wait", buckets=(0.1, 1.0)).observe(0.5)
    registry.gauge("koord_depth", "depth").set(7)
    text = registry.expose()
    assert b'koord_wait_seconds_bucket{le="1.0"} 1.0' in text
    assert b"koord_depth 7.0" in text


def test_without_the_package_metrics_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    registry = metrics.registry()
    registry.counter("c", "doc", ["a"]).labels("x").inc()
    registry.gauge("g", "doc").set(1)
    registry.histogram("h", "doc").observe(0.1)
    assert registry.expose() == b""
