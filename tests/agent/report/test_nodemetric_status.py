# SPDX-License-Identifier: Apache-2.0
"""The NodeMetric status from samples: averages, statistics, zones, pods, cards, sums by class."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.prediction.reclaimable import Reclaimable
from koord.agent.prediction.usage_models import PeakUsage
from koord.agent.report.nodemetric_status import NodeMetricInputs, status
from koord.agent.states.effective_specs import effective_metric_spec
from koord.agent.states.pod_state import PodState, pod_state
from koord.api.codec import to_document
from koord.api.kinds.nodemetric import NodeMetric, NodeMetricSpec
from koord.api.kinds.pod import Pod
from koord.api.kinds.slo_strategies import HostApplication
from koord.api.objects import decode_as
from koord.kernels.cgroup_path import Driver
from tests.agent.measured import Measured

NOW_MS = 1_700_000_000_000
SPEC = effective_metric_spec(NodeMetricSpec())
GIB = 2**30


def pod(name: str, qos: str, **resources: Any) -> PodState:
    document = {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": f"{name}-uid",
            "labels": {"koordinator.sh/qosClass": qos},
        },
        "spec": {"containers": [{"name": "main", "resources": resources}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{name}"}],
        },
    }
    return pod_state(decode_as(document, Pod), CgroupLayout(Driver.CGROUPFS))


def node(metrics: Measured, cores: float, memory: float, at_ms: int = NOW_MS) -> None:
    metrics.put(MetricKind.NODE_CPU_USAGE, at_ms, cores)
    metrics.put(MetricKind.NODE_MEMORY_USAGE, at_ms, memory)


def reported(metrics: Measured, **rest: Any) -> NodeMetricInputs:
    chosen = {"spec": SPEC, "pods": [], "applications": [], **rest}
    return NodeMetricInputs(metrics=metrics, **chosen)


def document(metrics: Measured, **rest: Any) -> dict[str, Any]:
    found = status(reported(metrics, **rest), NOW_MS)
    assert found is not None
    told: dict[str, Any] = to_document(found)
    # What is written can be read.
    again = decode_as({"metadata": {"name": "n"}, "status": told}, NodeMetric)
    assert to_document(again.status) == told
    return told


def test_nothing_is_reported_before_the_node_was_measured() -> None:
    metrics = Measured()
    assert status(reported(metrics), NOW_MS) is None
    node(metrics, 1.0, 1.0, NOW_MS - 300_001)
    assert status(reported(metrics), NOW_MS) is None


def test_averages_over_the_window() -> None:
    metrics = Measured()
    node(metrics, 99.0, 99.0, NOW_MS - 301_000)
    node(metrics, 0.5, GIB, NOW_MS - 1000)
    node(metrics, 1.5, 2 * GIB, NOW_MS)
    metrics.put(MetricKind.SYS_CPU_USAGE, NOW_MS, 0.2519)
    metrics.put(MetricKind.SYS_MEMORY_USAGE, NOW_MS, 2048.9)
    told = document(metrics)["nodeMetric"]
    assert told["nodeUsage"]["resources"] == {"cpu": "1", "memory": "1536Mi"}
    assert told["systemUsage"]["resources"] == {"cpu": "251m", "memory": "2Ki"}


def test_statistics_need_half_of_their_window() -> None:
    metrics = Measured()
    for at in range(10):
        node(metrics, at + 1.0, GIB * (at + 1), NOW_MS - (9 - at) * 20_000)
    told = document(metrics)["nodeMetric"]["aggregatedNodeUsages"]
    assert [each["duration"] for each in told] == ["5m0s", "10m0s", "30m0s"]
    # 180 s are more than half of five minutes and less than half of ten.
    five = {name: each["resources"]["cpu"] for name, each in told[0]["usage"].items()}
    assert five == {"avg": "5500m", "p50": "5", "p90": "9", "p95": "9", "p99": "9"}
    assert told[1]["usage"] == {name: {} for name in five}


def test_zones_come_by_number_and_only_whole() -> None:
    metrics = Measured()
    node(metrics, 1.0, GIB)
    for zone in ("10", "2"):
        metrics.put(MetricKind.NODE_NUMA_CPU_USAGE, NOW_MS, 1.0, zone)
        metrics.put(MetricKind.NODE_NUMA_MEMORY_USAGE, NOW_MS, GIB, zone)
    metrics.put(MetricKind.NODE_NUMA_CPU_USAGE, NOW_MS, 1.0, "3")
    metrics.put(MetricKind.SYS_NUMA_CPU_USAGE, NOW_MS, 0.5, "2")
    metrics.put(MetricKind.SYS_NUMA_MEMORY_USAGE, NOW_MS, 512.0, "2")
    told = document(metrics)["nodeMetric"]["numaUsages"]
    assert [each["numaNodeID"] for each in told] == [2, 10]
    assert told[0]["systemUsage"]["resources"] == {"cpu": "500m", "memory": "512"}
    assert "systemUsage" not in told[1]


def test_pods_and_applications_that_were_measured() -> None:
    metrics = Measured()
    node(metrics, 4.0, GIB)
    for name, cores in (("b", 2.0), ("a", 1.0)):
        metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, cores, f"{name}-uid")
        metrics.put(MetricKind.POD_MEMORY_USAGE, NOW_MS, 1000.0, f"{name}-uid")
    metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, 1.0, "half-uid")
    metrics.put(MetricKind.HOST_APPLICATION_CPU_USAGE, NOW_MS, 0.1, "nginx")
    metrics.put(MetricKind.HOST_APPLICATION_MEMORY_USAGE, NOW_MS, 10.0, "nginx")
    applications = [
        HostApplication(name="nginx", qos="LS", priority="koord-prod"),
        HostApplication(name="absent", qos="LS"),
    ]
    pods = [pod("b", "BE"), pod("a", "LS"), pod("half", "LS")]
    told = document(metrics, pods=pods, applications=applications)
    assert [(each["name"], each["qos"], each["priority"]) for each in told["podsMetric"]] == [
        ("a", "LS", "koord-prod"),
        ("b", "BE", "koord-batch"),
    ]
    (application,) = told["hostApplicationMetric"]
    assert application["usage"]["resources"] == {"cpu": "100m", "memory": "10"}


def test_cards_of_the_node_and_of_pods() -> None:
    metrics = Measured()
    node(metrics, 1.0, GIB)
    card = ("0", "GPU-a")
    metrics.put(MetricKind.NODE_GPU_CORE_USAGE, NOW_MS, 60.0, *card)
    metrics.put(MetricKind.NODE_GPU_MEMORY_USAGE, NOW_MS, 4.0 * GIB, *card)
    metrics.put(MetricKind.NODE_GPU_MEMORY_TOTAL, NOW_MS, 16.0 * GIB, *card)
    metrics.put(MetricKind.NODE_GPU_CORE_USAGE, NOW_MS, 5.0, "1", "GPU-b")
    metrics.put(MetricKind.POD_GPU_CORE_USAGE, NOW_MS, 59.9, "a-uid", *card)
    metrics.put(MetricKind.POD_GPU_MEMORY_USAGE, NOW_MS, 3.0 * GIB, "a-uid", *card)
    metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, 1.0, "a-uid")
    metrics.put(MetricKind.POD_MEMORY_USAGE, NOW_MS, 1000.0, "a-uid")
    told = document(metrics, pods=[pod("a", "LS")])
    (whole,) = told["nodeMetric"]["nodeUsage"]["devices"]
    assert (whole["id"], whole["minor"], whole["resources"]) == (
        "GPU-a",
        0,
        {
            "koordinator.sh/gpu-core": "60",
            "koordinator.sh/gpu-memory": "4Gi",
            "koordinator.sh/gpu-memory-ratio": "25",
        },
    )
    (own,) = told["podsMetric"][0]["podUsage"]["devices"]
    assert own["resources"]["koordinator.sh/gpu-core"] == "59"
    assert own["resources"]["koordinator.sh/gpu-memory-ratio"] == "18"


@pytest.mark.parametrize(
    ("policy", "cold", "kind"),
    [
        ("usageWithPageCache", False, MetricKind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE),
        ("usageWithHotPageCache", True, MetricKind.NODE_MEMORY_WITH_HOT_PAGE_USAGE),
        ("usageWithHotPageCache", False, MetricKind.NODE_MEMORY_USAGE),
        ("usageWithoutPageCache", True, MetricKind.NODE_MEMORY_USAGE),
    ],
)
def test_which_page_cache_counts(policy: str, cold: bool, kind: MetricKind) -> None:
    metrics = Measured()
    metrics.put(MetricKind.NODE_CPU_USAGE, NOW_MS, 1.0)
    for at, each in enumerate(
        (
            MetricKind.NODE_MEMORY_USAGE,
            MetricKind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE,
            MetricKind.NODE_MEMORY_WITH_HOT_PAGE_USAGE,
        )
    ):
        metrics.put(each, NOW_MS, 100.0 + at)
    assert SPEC.metric_collect_policy is not None
    asked = msgspec.structs.replace(SPEC.metric_collect_policy, node_memory_collect_policy=policy)
    told = document(metrics, spec=NodeMetricSpec(asked), cold_pages=cold)
    expected = str(int(metrics.read(kind, metrics.last_window(NOW_MS)).avg[0]))
    assert told["nodeMetric"]["nodeUsage"]["resources"]["memory"] == expected


_MIB = 2**20
# What a node, a pod, its container and a host application use, in MiB: plain, with the whole page
# cache, with its hot part.
_MEMORY = {
    MetricKind.NODE_MEMORY_USAGE: (4000, ()),
    MetricKind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE: (9000, ()),
    MetricKind.NODE_MEMORY_WITH_HOT_PAGE_USAGE: (6000, ()),
    MetricKind.POD_MEMORY_USAGE: (1000, ("web-uid",)),
    MetricKind.POD_MEMORY_USAGE_WITH_PAGE_CACHE: (3000, ("web-uid",)),
    MetricKind.POD_MEMORY_WITH_HOT_PAGE_USAGE: (1700, ("web-uid",)),
    MetricKind.CONTAINER_MEMORY_USAGE: (900, ("containerd://web",)),
    MetricKind.CONTAINER_MEMORY_USAGE_WITH_PAGE_CACHE: (2900, ("containerd://web",)),
    MetricKind.CONTAINER_MEMORY_WITH_HOT_PAGE_USAGE: (1600, ("containerd://web",)),
    MetricKind.HOST_APPLICATION_MEMORY_USAGE: (200, ("nginx",)),
    MetricKind.HOST_APPLICATION_MEMORY_USAGE_WITH_PAGE_CACHE: (500, ("nginx",)),
    MetricKind.HOST_APPLICATION_MEMORY_WITH_HOT_PAGE_USAGE: (300, ("nginx",)),
    MetricKind.SYS_MEMORY_USAGE: (2800, ()),
}


@pytest.mark.parametrize(
    ("policy", "cold", "right"),
    [
        ("usageWithoutPageCache", True, ["4000Mi", "1000Mi", "900Mi", "200Mi"]),
        ("usageWithPageCache", False, ["9000Mi", "3000Mi", "2900Mi", "500Mi"]),
        ("usageWithHotPageCache", True, ["6000Mi", "1700Mi", "1600Mi", "300Mi"]),
        # Nobody tells hot pages from cold ones: without any.
        ("usageWithHotPageCache", False, ["4000Mi", "1000Mi", "900Mi", "200Mi"]),
    ],
)
def test_one_policy_for_the_node_its_pods_and_applications(
    policy: str, cold: bool, right: list[str]
) -> None:
    metrics = Measured()
    for kind, (mib, labels) in _MEMORY.items():
        metrics.put(kind, NOW_MS, float(mib * _MIB), *labels)
    metrics.put(MetricKind.NODE_CPU_USAGE, NOW_MS, 4.0)
    metrics.put(MetricKind.SYS_CPU_USAGE, NOW_MS, 1.0)
    metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, 1.0, "web-uid")
    metrics.put(MetricKind.CONTAINER_CPU_USAGE, NOW_MS, 1.0, "containerd://web")
    metrics.put(MetricKind.HOST_APPLICATION_CPU_USAGE, NOW_MS, 1.0, "nginx")
    assert SPEC.metric_collect_policy is not None
    asked = msgspec.structs.replace(SPEC.metric_collect_policy, node_memory_collect_policy=policy)
    told = document(
        metrics,
        spec=NodeMetricSpec(asked),
        cold_pages=cold,
        summaries=True,
        pods=[pod("web", "LS")],
        applications=[HostApplication(name="nginx", qos="LS")],
    )
    node_usage, system = (told["nodeMetric"][name] for name in ("nodeUsage", "systemUsage"))
    assert [
        node_usage["resources"]["memory"],
        told["podsMetric"][0]["podUsage"]["resources"]["memory"],
        told["podMetrics"][0]["containers"][0]["usage"]["memory"],
        told["hostApplicationMetric"][0]["usage"]["resources"]["memory"],
    ] == right
    assert system["resources"]["memory"] == "2800Mi"
    assert told["lsMetric"]["usage"]["memory"] == right[1]


def test_predictions_are_told_or_said_to_be_missing() -> None:
    metrics = Measured()
    node(metrics, 1.0, GIB)
    told = document(metrics)
    assert told["prodReclaimableMetric"] == {"resource": {}}
    assert "prodPeakMetric" not in told
    told = document(metrics, predicted=Reclaimable(PeakUsage(4500, GIB), PeakUsage(5501, 3)))
    assert told["prodReclaimableMetric"]["resource"]["resources"] == {
        "cpu": "4500m",
        "memory": "1Gi",
    }
    assert told["prodPeakMetric"]["resource"]["resources"] == {"cpu": "5501m", "memory": "3"}


def test_sums_by_class_where_they_are_asked_for() -> None:
    metrics = Measured()
    node(metrics, 4.0, GIB)
    assert "beMetric" not in document(metrics)
    batch = {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "1Gi"}
    pods = [
        pod("job", "BE", requests=batch, limits=batch),
        pod("web", "LS", requests={"cpu": "1"}, limits={"cpu": "2", "memory": "2Gi"}),
    ]
    for name, cores in (("job", 0.5), ("web", 0.75)):
        metrics.put(MetricKind.POD_CPU_USAGE, NOW_MS, cores, f"{name}-uid")
        metrics.put(MetricKind.POD_MEMORY_USAGE, NOW_MS, 1024.0, f"{name}-uid")
        metrics.put(MetricKind.CONTAINER_CPU_USAGE, NOW_MS, cores, f"containerd://{name}")
        metrics.put(MetricKind.CONTAINER_MEMORY_USAGE, NOW_MS, 1024.0, f"containerd://{name}")
    told = document(metrics, pods=pods, summaries=True)
    assert told["beMetric"] == {
        "usage": {"cpu": "500m", "memory": "1Ki"},
        "request": {"cpu": "2", "memory": "1Gi"},
        "limit": {"cpu": "2", "memory": "1Gi"},
    }
    assert told["lsMetric"]["limit"] == {"cpu": "2", "memory": "2Gi"}
    assert told["nodeMetric"]["request"] == {"cpu": "3", "memory": "1Gi"}
    (container,) = told["podMetrics"][1]["containers"]
    assert (container["name"], container["usage"]["cpu"]) == ("main", "750m")
