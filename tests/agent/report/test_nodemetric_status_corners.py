# SPDX-License-Identifier: Apache-2.0
"""Corners of the NodeMetric: cards in aggregates, windows as written, whom predictions see."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.prediction.usage_models import UsageModels
from koord.agent.report.reporters import MetricReporter
from koord.agent.states.snapshot import Snapshot, Timestamped
from koord.api.codec import to_document
from koord.api.duration import Duration
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeAggregatePolicy, NodeMetricSpec
from koord.api.objects import decode_as
from koord.base.clock import VirtualClock
from tests.agent.measured import Measured
from tests.agent.report.test_nodemetric_status import GIB, NOW_MS, SPEC, document, node, pod

RAW = "node.koordinator.sh/raw-allocatable"


def over(*durations: str) -> NodeMetricSpec:
    assert SPEC.metric_collect_policy is not None
    aggregate = NodeAggregatePolicy(durations=[Duration.parse(text) for text in durations])
    return NodeMetricSpec(
        msgspec.structs.replace(SPEC.metric_collect_policy, node_aggregate_policy=aggregate)
    )


def test_aggregates_tell_of_the_cards_too() -> None:
    metrics = Measured()
    for at, percent in enumerate((10.0, 20.0, 90.0)):
        time_ms = NOW_MS - (2 - at) * 20_000
        node(metrics, 1.0, GIB, time_ms)
        metrics.put(MetricKind.NODE_GPU_CORE_USAGE, time_ms, percent, "0", "GPU-a")
        metrics.put(MetricKind.NODE_GPU_MEMORY_USAGE, time_ms, (at + 1.0) * GIB, "0", "GPU-a")
        metrics.put(MetricKind.NODE_GPU_MEMORY_TOTAL, time_ms, 16.0 * GIB, "0", "GPU-a")
    (one,) = document(metrics, spec=over("1m"))["nodeMetric"]["aggregatedNodeUsages"]
    told = {name: each["devices"] for name, each in one["usage"].items()}
    # Of three the first is the median and the second the 90th to 99th percentile, as of any series.
    assert told["avg"] == [{
        "type": "gpu", "id": "GPU-a", "minor": 0, "health": False, "resources": {
            "koordinator.sh/gpu-core": "40", "koordinator.sh/gpu-memory": "2Gi",
            "koordinator.sh/gpu-memory-ratio": "12",
        },
    }]  # fmt: skip
    cores = {name: each[0]["resources"]["koordinator.sh/gpu-core"] for name, each in told.items()}
    assert cores == {"avg": "40", "p50": "10", "p90": "20", "p95": "20", "p99": "20"}


def test_windows_are_written_in_their_shortest_form() -> None:
    metrics = Measured()
    node(metrics, 1.0, GIB)
    told = document(metrics, spec=over("90s", "30m", "1h"))["nodeMetric"]
    assert [each["duration"] for each in told["aggregatedNodeUsages"]] == [
        "1m30s", "30m0s", "1h0m0s",
    ]  # fmt: skip


def predicted(metrics: Measured, annotations: dict[str, str], *names: str) -> dict[str, Any]:
    """What is predicted for prod pods of a core each, of which nothing was learned."""
    models = UsageModels()
    for name in ("__node-sys__", "__node-koord-prod__", "__node-__"):
        models.add(name, 0.0, 0.0, NOW_MS - 60_000)
    pods = tuple(pod(name, "LS", requests={"cpu": "1", "memory": "1Gi"}) for name in names)
    told = {"metadata": {"name": "n", "annotations": annotations},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi"}}}  # fmt: skip
    snapshot = Snapshot(
        node=Timestamped(decode_as(told, Node)),
        pods=Timestamped(pods),
        metric_spec=Timestamped(SPEC),
    )

    class States:
        def snapshot(self) -> Snapshot:
            return snapshot

        def subscribe(self, *about: Any) -> None:
            raise NotImplementedError

    cluster: Any = None
    reporter = MetricReporter(
        cluster, States(), metrics, models, cluster, VirtualClock(NOW_MS / 1000)
    )
    found = reporter.status()
    assert found is not None
    document: dict[str, Any] = to_document(found)
    return document


def test_pods_that_are_not_reported_are_not_predicted() -> None:
    metrics = Measured()
    node(metrics, 1.0, GIB)
    metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, 0.5, "a-uid")
    metrics.put(MetricKind.POD_MEMORY_USAGE, NOW_MS, 1000.0, "a-uid")
    # Of b the memory was not measured.
    metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, 0.5, "b-uid")
    told = predicted(metrics, {}, "a", "b")
    assert [each["name"] for each in told["podsMetric"]] == ["a"]
    assert told["prodPeakMetric"]["resource"]["resources"] == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_malformed_raw_allocatable_is_none(text: str) -> None:
    metrics = Measured()
    node(metrics, 1.0, GIB)
    told = predicted(metrics, {RAW: text})
    assert told["prodReclaimableMetric"]["resource"]["resources"] == {"cpu": "0", "memory": "0"}
    assert "prodPeakMetric" in told
