# SPDX-License-Identifier: Apache-2.0
"""LowNodeLoad by the reference's examples: order of pods, reasons, rounds until a node counts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from koord.api import codec
from koord.api.kinds.nodemetric import NodeMetric
from koord.base.errors import KoordError
from koord.controllers.descheduler.plugins.loadaware.anomaly import AnomalyDetectors
from koord.controllers.descheduler.plugins.loadaware.balance_phase import relief_score
from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import (
    AnomalyCondition,
    LowNodeLoadArgs,
)
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.controllers.descheduler.world import (
    NOW,
    RecordedEvictions,
    cluster,
    make,
    node,
    pod,
)

GI = 1024**3
AT_ONCE = {"consecutiveAbnormalities": 1}
# A pod of 45 CPUs would make the other node high as well.
NO_FIT = {"nodeFit": False}


def _metric(name: str, pods: dict[str, tuple[str, str]], system: str = "0") -> NodeMetric:
    document = {
        "metadata": {"name": name},
        "status": {
            "nodeMetric": {"systemUsage": {"resources": {"cpu": system}}},
            "podsMetric": [
                {"namespace": "default", "name": key,
                 "podUsage": {"resources": {"cpu": cpu, "memory": memory}}}
                for key, (cpu, memory) in pods.items()
            ],
        },
    }  # fmt: skip
    metric = codec.convert(document, NodeMetric, name, "")
    metric.status.update_time = datetime.fromtimestamp(NOW - 10, UTC)
    return metric


def _view(names: list[str], usage: dict[str, str], system: str = "0", **spec: Any) -> Any:
    """Node n1 with pods that use so many CPUs, n2 without any; both of 96 CPUs."""
    nodes = [node(name, cpu="96", memory="512Gi", pods="100") for name in names]
    pods = [pod(name, "n1", spec=spec) for name in usage]
    metrics = {name: _metric(name, {}) for name in names}
    metrics["n1"] = _metric("n1", {key: (cpu, "1Gi") for key, cpu in usage.items()}, system)
    return cluster(nodes, pods, node_metrics=metrics)


def _run(args: dict[str, Any], view: Any, rounds: int = 1) -> tuple[list[str], list[str]]:
    evictions = RecordedEvictions()
    descheduling = make("balance", "LowNodeLoad", args, evictions)
    for _ in range(rounds):
        assert asyncio.run(descheduling.run(view)).errors == []
    return evictions.names, evictions.reasons


def test_the_reason_names_the_load_and_the_threshold() -> None:
    args = {"prodLowThresholds": {"cpu": 10}, "prodHighThresholds": {"cpu": 40},
            "anomalyCondition": AT_ONCE, **NO_FIT}  # fmt: skip
    view = _view(["n1", "n2"], {"a": "45"}, priority=9500)
    names, reasons = _run(args, view)
    assert names == ["a"]
    # 45 of 96 CPUs.
    assert reasons == ["node is overutilized, prod cpu usage(46.88%)>threshold(40.00%)"]


def test_eviction_begins_in_the_sixth_round_in_a_row() -> None:
    args = {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 40}, **NO_FIT}
    view = _view(["n1", "n2"], {"a": "45", "b": "20"})
    assert _run(args, view, rounds=5)[0] == []
    assert _run(args, view, rounds=6)[0] == ["a"]


def test_the_pod_that_just_covers_the_excess_goes_first() -> None:
    # 4 CPUs and 4 GiB too much, memory weighs twice.
    excess, weights = {"cpu": 4000, "memory": 4 * GI}, {"cpu": 1, "memory": 2}
    uses = [(2, 5), (3, 4), (4, 3), (5, 2)]
    scores = [
        relief_score({"cpu": cpu * 1000, "memory": size * GI}, excess, weights)
        for cpu, size in uses
    ]
    assert [round(score, 3) for score in scores] == [1.367, 1.583, 1.167, 0.933]


def test_without_a_fresh_metric_a_node_is_neither_high_nor_low() -> None:
    args = {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 40},
            "anomalyCondition": AT_ONCE, **NO_FIT}  # fmt: skip
    view = _view(["n1", "n2"], {"a": "45"})
    assert _run(args, view)[0] == ["a"]
    stale = datetime.fromtimestamp(NOW - 180, UTC)
    view.node_metrics["n2"].status.update_time = stale
    assert _run(args, view)[0] == []
    assert _run({**args, "nodeMetricExpirationSeconds": 181}, view)[0] == ["a"]
    del view.node_metrics["n1"]
    assert _run({**args, "nodeMetricExpirationSeconds": 181}, view)[0] == []


def test_eviction_ends_when_the_node_is_high_no_more() -> None:
    args = {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 40},
            "anomalyCondition": AT_ONCE, **NO_FIT}  # fmt: skip
    # 60 of 96 CPUs are to come down to 38: three pods of ten.
    view = _view(["n1", "n2"], dict.fromkeys("abcdef", "10"))
    assert len(_run(args, view)[0]) == 3
    assert _run({**args, "numberOfNodes": 1}, view)[0] == []
    assert _run({**args, "paused": True}, view)[0] == []
    assert _run({**args, "dryRun": True}, view)[0] == []


def test_a_detector_forgets() -> None:
    condition = AnomalyCondition(consecutive_abnormalities=2)
    detectors = AnomalyDetectors(keep_seconds=10)
    marks = [detectors.abnormal(["n1"], condition, now) for now in (0, 1, 2)]
    assert marks == [set(), set(), {"n1"}]
    # After its minute the anomaly is over, and it takes three marks again.
    detectors = AnomalyDetectors(keep_seconds=1000)
    for now in (0, 1, 2):
        detectors.abnormal(["n1"], condition, now)
    marks = [detectors.abnormal(["n1"], condition, now) for now in (63, 64, 65)]
    assert marks == [set(), set(), {"n1"}]
    # Nobody remembers a node that was not high for longer than its detector is kept.
    detectors = AnomalyDetectors(keep_seconds=10)
    detectors.abnormal(["n1"], condition, 0)
    detectors.mark_normal(["n2"], 11)
    assert len(detectors) == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"lowThresholds": {"cpu": 60}, "highThresholds": {"cpu": 50}},
         'args.lowThresholds."cpu": got 60'),
        ({"prodHighThresholds": {"cpu": 60}, "highThresholds": {"cpu": 50}}, "prodHighThresholds"),
        ({"lowThresholds": {"cpu": -1}}, "a number of 0 or more"),
        ({"numberOfNodes": -1}, "args.numberOfNodes: got -1"),
        ({"nodeMetricExpirationSeconds": 0}, "nodeMetricExpirationSeconds"),
        ({"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}}, "evictableNamespaces"),
        ({"nodePools": [{"lowThresholds": {"cpu": 60}}], "highThresholds": {"cpu": 50}},
         'args.nodePools[0].lowThresholds."cpu"'),
    ],
)  # fmt: skip
def test_wrong_arguments_name_their_place(args: dict[str, Any], message: str) -> None:
    with pytest.raises(KoordError) as caught:
        LowNodeLoadArgs.read(args, FieldPath("f", "args"))
    assert message in str(caught.value)
