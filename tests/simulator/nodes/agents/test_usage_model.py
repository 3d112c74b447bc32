# SPDX-License-Identifier: Apache-2.0
"""Usage in columns against the plain model of one pod at a time, and the reports made of it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import NodeMetric, Pod, crds, decode_as
from koord.api.duration import Duration
from koord.api.kinds.nodemetric import NodeAggregatePolicy, NodeMetricCollectPolicy
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.qos import QoSClass
from koord.kernels.quantity import Quantity
from koord.simulator.nodes.agents.node_metric import CollectPolicy, NodeMetricMeter, policy_of
from koord.simulator.nodes.agents.usage_model import CPUAndMemory, PodLoad, PodUsageModel, pod_load
from koord.simulator.nodes.demand import DemandModel, UsageDemand
from koord.simulator.nodes.machine import SimulatedMachine
from koord.simulator.nodes.pools import NodePool, PoolGPUs
from tests.models import node_usage

MODEL = DemandModel()
VALIDATOR = jsonschema_rs.validator_for(
    next(
        each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for each in crds()
        if each["spec"]["names"]["kind"] == "NodeMetric"
    )
)
GI = 1 << 30


def load_of(node: int, uid: str, **fields: Any) -> PodLoad:
    given_fields = {
        "qos": QoSClass.LS,
        "priority_class": PriorityClass.PROD,
        "best_effort": False,
        "eligible": True,
        "requests": CPUAndMemory(2000, 4 * GI),
        "limits": CPUAndMemory(0, 0),
        "demand": UsageDemand(cpu=0.5, noise=0.0, memory=0.5),
        "phases": (0.0, 0.25, 0.5),
        "created_seconds": 0.0,
        "containers": (("c", CPUAndMemory(2000, 4 * GI), CPUAndMemory(0, 0)),),
        "cards": (),
        **fields,
    }
    return PodLoad(namespace="default", name=f"pod-{uid}", uid=uid, node=node, **given_fields)


shares = st.floats(0, 1)
drawn_pods = st.builds(
    load_of,
    st.integers(0, 2),
    st.uuids().map(str),
    best_effort=st.booleans(),
    tier=st.booleans(),
    requests=st.builds(CPUAndMemory, st.integers(1, 20_000), st.integers(1, 64 * GI)),
    limits=st.builds(CPUAndMemory, st.integers(0, 20_000), st.just(0)),
    demand=st.builds(UsageDemand, st.floats(0, 3), shares, st.floats(0, 24), shares, shares),
    phases=st.tuples(shares, shares, shares),
)


@given(
    st.lists(drawn_pods, max_size=12),
    st.floats(0, 2e9),
    st.lists(st.just(np.inf) | st.floats(0.01, 20), min_size=3, max_size=3),
)
def test_columns_say_what_the_model_says(
    pods: list[PodLoad], now: float, held: list[float]
) -> None:
    load = PodUsageModel([4, 16, 64], [64 * GI] * 3, MODEL, seed=1)
    load.set_pods(pods)
    load.hold(np.array(held), np.ones(len(pods)))
    reading, granted = load.read(now), load.granted(now)
    for node, cpus in enumerate((4, 16, 64)):
        rows = [row for row, pod in enumerate(pods) if pod.node == node]
        plain = [
            node_usage.ModelPod(
                pod.best_effort, pod.requests.cpu_milli / 1000, pod.limits.cpu_milli / 1000,
                pod.demand.cpu, pod.demand.amplitude, pod.demand.peak_hour, pod.demand.noise,
                pod.phases, pod.tier,
            )
            for pod in (pods[row] for row in rows)
        ]  # fmt: skip
        expected = node_usage.granted(cpus, reading.system_cpu[node], plain, now, held[node])
        # Times of 2e9 s leave a few digits of a wave's phase.
        assert [reading.pod_cpu[row] for row in rows] == pytest.approx(expected, 1e-4, 1e-4)
        assert reading.node_cpu[node] <= cpus + 1e-6
        tier, services = node_usage.shares(cpus, reading.system_cpu[node], plain, now, held[node])
        assert granted.tier[node] == pytest.approx(tier, 1e-4, 1e-4)
        assert granted.services[node] == pytest.approx(services, 1e-4, 1e-4)


def machine(**fields: Any) -> SimulatedMachine:
    pool = NodePool(name="a", **{"cpu": 16, "memory": "64Gi", "kubelet_reserved": {}, **fields})
    return SimulatedMachine("a-001", pool, 0, seed=1)


def meter_of(made: SimulatedMachine, cold_start_seconds: float = 0.0) -> NodeMetricMeter:
    load = PodUsageModel([made.pool.cpu], [made.memory_bytes], MODEL, seed=1)
    meter = NodeMetricMeter([made], load, cold_start_seconds)
    meter.set_pods([])
    return meter


def status_of(
    meter: NodeMetricMeter, now: float, policy: CollectPolicy | None = None
) -> dict[str, Any]:
    (status,) = meter.statuses([0], [policy or CollectPolicy()], now)
    return status


def metric_of(status: dict[str, Any]) -> NodeMetric:
    document = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                "metadata": {"name": "a-001"}, "status": status}  # fmt: skip
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    return decode_as(document, NodeMetric)


def test_a_report_is_made_of_what_was_sampled() -> None:
    meter = meter_of(machine(gpus=PoolGPUs(count=2)))
    pods = [
        load_of(0, "b"),
        load_of(0, "a", best_effort=True, qos=QoSClass.BE, priority_class=PriorityClass.BATCH,
                eligible=False),
    ]  # fmt: skip
    meter.set_pods(pods)
    for tick in range(61):
        meter.sample(tick * 10.0)
    metric = metric_of(status_of(meter, 600.0))
    info = metric.status.node_metric
    assert info is not None
    assert info.node_usage is not None
    assert info.system_usage is not None
    used, own = info.node_usage.resources, info.system_usage.resources
    assert [(pod.name, pod.qos, pod.priority) for pod in metric.status.pods_metric] == [
        ("pod-a", "BE", "koord-batch"), ("pod-b", "LS", "koord-prod"),
    ]  # fmt: skip
    assert all(
        pod.pod_usage is not None and pod.pod_usage.resources["cpu"] == Quantity.parse("1")
        for pod in metric.status.pods_metric
    )
    assert abs((used["cpu"] - own["cpu"]).milli() - 2000) <= 2
    assert used["memory"] - own["memory"] == Quantity.parse("4Gi")
    assert [usage.numa_node_id for usage in info.numa_usages] == [0, 1]
    assert [card.minor for card in info.node_usage.devices] == [0, 1]
    assert metric.status.be_metric is not None
    assert metric.status.be_metric.usage["cpu"] == Quantity.parse("1")
    assert metric.status.be_metric.request["memory"] == Quantity.parse("4Gi")
    windows = {str(each.duration): each.usage for each in info.aggregated_node_usages}
    assert list(windows) == ["5m0s", "10m0s", "30m0s"]
    # Half an hour is not half full yet.
    assert windows["30m0s"]["p95"].resources == {}
    five = windows["5m0s"]
    percentiles = [five[name].resources["cpu"] for name in ("p50", "p90", "p95", "p99")]
    assert percentiles == sorted(percentiles)
    assert percentiles[0] <= five["avg"].resources["cpu"] + Quantity.parse("200m")


def test_nothing_sampled_is_nothing_reported() -> None:
    status = status_of(meter_of(machine()), 100.0)
    assert "nodeMetric" not in status
    assert status["updateTime"] == "1970-01-01T00:01:40Z"
    metric_of(status)


def test_a_pod_keeps_its_past_when_others_come_and_go() -> None:
    meter = meter_of(machine())
    one, other = load_of(0, "a"), load_of(0, "b", requests=CPUAndMemory(8000, GI))
    for tick, pods in enumerate(([one], [other, one], [other])):
        meter.set_pods(pods)
        meter.sample(tick * 10.0)
    meter.set_pods([other, one])
    names = [pod.name for pod in metric_of(status_of(meter, 20.0)).status.pods_metric]
    # What went away is forgotten; what stayed is averaged over its own samples.
    assert names == ["pod-b"]


@given(
    st.lists(
        st.tuples(st.integers(0, 9000), st.floats(0, 1.2), st.booleans()), min_size=1, max_size=6
    ),
    st.integers(1, 32),
)
def test_reclaimable_follows_the_two_predictors(
    drawn: list[tuple[int, float, bool]], cpu: int
) -> None:
    made = machine(cpu=cpu, sockets=1, threads_per_core=1)
    meter = meter_of(made, cold_start_seconds=500.0)
    pods = [
        load_of(0, str(i), requests=CPUAndMemory(request, 0),
                demand=UsageDemand(cpu=share, noise=0.0),
                created_seconds=0.0 if old else 900.0)
        for i, (request, share, old) in enumerate(drawn)
    ]  # fmt: skip
    meter.set_pods(pods)
    meter.sample(1000.0)
    status = metric_of(status_of(meter, 1000.0)).status
    system = int(cpu * 1000 * MODEL.system.peak_cpu)
    plain = [(request, int(request * share), old) for request, share, old in drawn]
    idle, peak = node_usage.reclaimable(cpu * 1000, system, plain)
    for found, expected in (
        (status.prod_reclaimable_metric, idle), (status.prod_peak_metric, peak),
    ):  # fmt: skip
        assert found is not None
        assert found.resource is not None
        assert found.resource.resources["cpu"].milli() == expected


def test_the_spec_says_how_to_report_within_bounds() -> None:
    assert policy_of(None) == CollectPolicy(300, 60)
    asked = NodeMetricCollectPolicy(
        aggregate_duration_seconds=10,
        report_interval_seconds=5,
        node_aggregate_policy=NodeAggregatePolicy(durations=[Duration.parse("90s")]),
    )
    assert policy_of(asked) == CollectPolicy(60, 30, ((90.0, "90s"),))


def pod_of(**fields: Any) -> Pod:
    metadata = {"name": "p", "namespace": "default", "uid": "u", **fields.pop("metadata", {})}
    return decode_as({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": fields}, Pod)


def test_a_batch_pod_is_loaded_by_its_batch_resources() -> None:
    requests = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "3Gi"}
    pod = pod_of(
        metadata={"labels": {"koordinator.sh/qosClass": "BE"}},
        containers=[{"name": "c", "resources": {"requests": requests, "limits": requests}}],
        priority=5500,
    )
    load = pod_load(pod, 4, MODEL, seed=1)
    assert load.requests == load.limits == CPUAndMemory(1500, 3 * GI)
    assert (load.node, load.best_effort, load.eligible) == (4, True, False)
    assert load.demand == MODEL.batch


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('{"cpu": 0.2, "peakHour": 3}', UsageDemand(0.2, 0.5, 3, 0.15, 0.6)),
        ('{"cpu": -1}', MODEL.services),
        ('{"cpu": "much"}', MODEL.services),
        ("nonsense", MODEL.services),
    ],
)
def test_a_pod_may_say_what_it_uses(said: str, expected: UsageDemand) -> None:
    resources = {"requests": {"cpu": "1"}}
    pod = pod_of(
        metadata={"annotations": {"simulator.koord/usage": said}},
        containers=[{"name": "c", "resources": resources}],
    )
    assert pod_load(pod, 0, MODEL, seed=1).demand == expected


def test_an_init_container_counts_where_it_is_larger() -> None:
    def with_cpu(cpu: str) -> dict[str, Any]:
        return {"name": "c" + cpu, "resources": {"requests": {"cpu": cpu}}}

    pod = pod_of(containers=[with_cpu("1"), with_cpu("2")], initContainers=[with_cpu("5")])
    assert pod_load(pod, 0, MODEL, seed=1).requests.cpu_milli == 5000
