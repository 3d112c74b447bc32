# SPDX-License-Identifier: Apache-2.0
"""Estimates from what a workload's pods have used."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.plugins.loadaware.workload_histograms import (
    LEAST_SAMPLES,
    PERCENTILE,
    WorkloadHistograms,
    workload_of,
)
from koord.kernels.histogram import CPU
from tests.controllers.scheduler.plugins.loadaware.reports import START, Load, amounts, metric
from tests.controllers.scheduler.pods import info, node, pod

MI = 1024**2
WORKLOAD = ("default", "ReplicaSet", "web")


def replica(name: str, template: str = "abc", **more: Any) -> Any:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{template}", "uid": "u"}
    labels = {"pod-template-hash": template}
    return pod(name, cpu="8", owners=[{**owner, "controller": True}], labels=labels, **more)


def test_replica_sets_of_a_deployment_are_one_workload() -> None:
    assert workload_of(info(replica("p")).shape) == WORKLOAD
    assert workload_of(info(replica("p", "xyz")).shape) == WORKLOAD
    assert workload_of(info(pod("p")).shape) is None


def test_a_workload_is_estimated_by_what_it_used_once_it_is_known() -> None:
    load = Load(estimator="workloadHistogram", usageThresholds={"cpu": 65})
    load.put(node("a", cpu="20"))
    load.assign(replica("there"), "a")
    asking = replica("asking", "next")
    used = {"default/there": (amounts(1000, 500 * MI), "")}
    for minute in range(1, LEAST_SAMPLES + 1):
        moment = START + 60 * minute
        load.clock.advance(60)
        load.put(metric("a", moment, node=amounts(12_000, 500 * MI), pods=used))
        reasons, _ = load.ask(asking)
        # 12 cores of 20 and 6.8 more by the request; little more than one by experience.
        assert (reasons["a"] is None) == (minute >= LEAST_SAMPLES)
    usage = load.plugin._estimator.usage(WORKLOAD)
    assert usage is not None
    assert 1000 <= usage.cpu_milli <= 1060
    assert 500 * MI <= usage.memory_bytes <= 530 * MI
    assert load.ask(pod("other", cpu="8"))[0]["a"] is not None, "another workload"


def test_what_was_learned_is_capped_by_the_limit() -> None:
    load = Load(estimator="workloadHistogram")
    histograms = load.plugin._estimator.histograms
    assert histograms is not None
    for count in range(LEAST_SAMPLES):
        histograms.add(WORKLOAD, 3000, 100 * MI, START + count)
    limits = {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    capped = replica("p", containers=[{"name": "main", "resources": limits}])
    assert load.plugin._pod_estimate(load.world.shapes.of(capped)).estimate[0] == 2000


def test_the_default_estimator_learns_nothing() -> None:
    assert Load().plugin._estimator.histograms is None


@given(st.lists(st.integers(0, 60_000), min_size=LEAST_SAMPLES, max_size=LEAST_SAMPLES))
def test_the_estimate_is_the_end_of_the_percentiles_bucket(samples: list[int]) -> None:
    histograms = WorkloadHistograms()
    for cpu_milli in samples:
        histograms.add(WORKLOAD, cpu_milli, 0, START)
    usage = histograms.usage(WORKLOAD)
    assert usage is not None
    ordered = sorted(samples)
    at = ordered[math.ceil(PERCENTILE * len(ordered)) - 1]
    bucket = CPU.find(at / 1000)
    assert usage.cpu_milli == math.ceil(float(CPU.starts[bucket + 1]) * 1000)
