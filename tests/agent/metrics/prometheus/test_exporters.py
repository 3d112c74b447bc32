# SPDX-License-Identifier: Apache-2.0
"""What /metrics says of what is measured: the text itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession

from koord.agent.endpoints import AgentEndpoints
from koord.agent.feature_gates import feature_gates
from koord.agent.metrics.collection_loop import CollectorState
from koord.agent.metrics.collectors.node import NodeCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.metrics.prometheus.agent_exporter import AgentExporter
from koord.agent.metrics.samples import Samples
from koord.agent.states.kubelet_latency import TimedTransport
from koord.agent.states.snapshot import Timestamped
from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetricStatus
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import VirtualClock
from koord.base.metrics import registry
from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request, Response, Stream
from tests.agent.machine_tree import MachineTree
from tests.agent.metrics.bench import Bench, pod_json, pod_of
from tests.kube.harness import run


class Scene:
    """A cache filled by hand, a snapshot, and the text that comes of them."""

    def __init__(self, root: Path, *, per_cpu: bool = False) -> None:
        self.settings = MetricsOptions()
        self.tree = MachineTree(root)
        self.bench = Bench(self.tree, [], self.settings)
        self.registry = registry()
        self.exports = AgentExporter(self.registry, "n1", per_cpu=per_cpu)
        self.collector_states: dict[str, CollectorState] = {}
        self.reported: NodeMetricStatus | None = None
        self.executor: Hooked | None = None

    def put(self, kind: MetricKind, value: float, *labels: str) -> None:
        samples = Samples(self.bench.now_ms)
        samples.add(kind, (labels,), [value])
        self.bench.cache.append(samples)

    def series(self) -> dict[str, float]:
        bench = self.bench
        self.exports.refresh(
            self.collector_states, bench.cache, bench.snapshot, self.settings, bench.now_ms,
            self.reported, self.executor,
        )  # fmt: skip
        lines = self.registry.expose().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_node_and_classes(scene: Scene) -> None:
    scene.put(MetricKind.NODE_CPU_USAGE, 2.5)
    scene.put(MetricKind.NODE_MEMORY_USAGE, 4096.0)
    scene.put(MetricKind.RESCTRL_LLC, 7.0, "BE", "0")
    scene.put(MetricKind.RESCTRL_MB, 9.0, "LS", "1", "local")
    assert scene.series() == {
        'koordlet_node_used_cpu_cores{node="n1"}': 2.5,
        'koordlet_node_used_memory_bytes{node="n1"}': 4096.0,
        'koordlet_resctrl_llc_occupancy{cache_id="0",node="n1",qos="BE"}': 7.0,
        'koordlet_resctrl_memory_bandwidth{cache_id="1",mb_type="local",node="n1",qos="LS"}': 9.0,
    }


def test_values_older_than_two_intervals_are_none(scene: Scene) -> None:
    scene.put(MetricKind.NODE_CPU_USAGE, 2.5)
    scene.bench.clock.advance(2.0)
    assert scene.series() == {'koordlet_node_used_cpu_cores{node="n1"}': 2.5}
    scene.bench.clock.advance(0.1)
    assert scene.series() == {}


def test_containers_vanish_with_their_pod(scene: Scene) -> None:
    pod = pod_of(scene.tree, pod_json("web"))
    scene.bench.set_pods(pod)
    container = ("uid-web", "containerd://webc0")
    scene.put(MetricKind.CONTAINER_CPI, 200.0, *container, "cycle")
    scene.put(MetricKind.CONTAINER_CPI, 100.0, *container, "instruction")
    scene.put(MetricKind.CONTAINER_PSI, 1.5, *container, "mem", "10", "some")
    scene.put(MetricKind.POD_PSI, 0.5, "uid-web", "cpu", "10", "full")
    scene.put(MetricKind.POD_PSI_CPU_FULL_SUPPORTED, 1.0, "uid-web")
    of_pod = 'node="n1",pod_name="web",pod_namespace="default",pod_uid="uid-web"'
    of_container = 'container_id="containerd://webc0",container_name="c0"'
    assert scene.series() == {
        f'koordlet_container_cpi{{{of_container},cpi_field="cycles",{of_pod}}}': 200.0,
        f'koordlet_container_cpi{{{of_container},cpi_field="instructions",{of_pod}}}': 100.0,
        f'koordlet_container_psi{{{of_container},cpu_full_supported="true",{of_pod},'
        'psi_degree="some",psi_precision="avg10",psi_resource_type="mem"}': 1.5,
        f'koordlet_pod_psi{{cpu_full_supported="true",{of_pod},'
        'psi_degree="full",psi_precision="avg10",psi_resource_type="cpu"}': 0.5,
    }  # fmt: skip
    scene.bench.set_pods()
    assert scene.series() == {}


def test_a_kernel_without_full_figures_of_cpu(scene: Scene) -> None:
    """It has those of memory and I/O all the same; there is none of CPU, not even 0."""
    scene.bench.set_pods(pod_of(scene.tree, pod_json("web")))
    container = ("uid-web", "containerd://webc0")
    for resource in ("cpu", "mem"):
        for degree, value in (("some", 3.0), ("full", 0.0 if resource == "cpu" else 2.0)):
            scene.put(MetricKind.POD_PSI, value, "uid-web", resource, "10", degree)
            scene.put(MetricKind.CONTAINER_PSI, value, *container, resource, "10", degree)
    scene.put(MetricKind.POD_PSI_CPU_FULL_SUPPORTED, 0.0, "uid-web")
    scene.put(MetricKind.CONTAINER_PSI_CPU_FULL_SUPPORTED, 0.0, *container)
    of_pod = 'node="n1",pod_name="web",pod_namespace="default",pod_uid="uid-web"'
    of_container = 'container_id="containerd://webc0",container_name="c0"'
    figures = {
        ("false", "some", "cpu"): 3.0,
        ("true", "some", "mem"): 3.0,
        ("true", "full", "mem"): 2.0,
    }
    expected = {}
    for (supported, degree, resource), value in figures.items():
        rest = f'psi_degree="{degree}",psi_precision="avg10",psi_resource_type="{resource}"}}'
        told = f'cpu_full_supported="{supported}",{of_pod},{rest}'
        expected[f"koordlet_pod_psi{{{told}"] = value
        expected[f"koordlet_container_psi{{{of_container},{told}"] = value
    assert scene.series() == expected


class Hooked:
    """An executor that set an OOM score and a cookie."""

    def last_values(self, resource: str, directories: list[str]) -> list[int | str | None]:
        value = {"oom_score_adj": -500, "core_sched": "db"}[resource]
        return [value if "web" in directory else None for directory in directories]

    def cookie(self, group: str) -> int:
        return {"db": 77}[group]


def test_what_hooks_set_on_containers(scene: Scene) -> None:
    pods = [pod_of(scene.tree, pod_json(name)) for name in ("web", "other")]
    scene.bench.set_pods(*pods)
    scene.executor = Hooked()
    of_pod = 'node="n1",pod_name="web",pod_namespace="default",pod_uid="uid-web"'
    assert scene.series() == {
        f'koordlet_container_oom_score_adj{{container_name="c0",{of_pod}}}': -500.0,
        'koordlet_container_core_sched_cookie{container_id="containerd://webc0",'
        f'container_name="c0",core_sched_cookie="77",core_sched_group="db",{of_pod}}}': 1.0,
    }


def test_what_is_left_of_prod_pods(scene: Scene) -> None:
    left = {"resources": {"cpu": "1500m", "memory": "1Gi"}}
    told = {"prodReclaimableMetric": {"resource": left}}
    scene.reported = convert(told, NodeMetricStatus, "status")
    name, prod = "koordlet_node_priority_resource_reclaimable", 'node="n1",priority="koord-prod"'
    status = f"koordlet_node_resource_priority_reclaimable_status{{{prod}}}"
    series = scene.series()
    assert series[f'{name}{{{prod},resource="cpu",unit="core"}}'] == 1.5
    assert series[f'{name}{{{prod},resource="memory",unit="byte"}}'] == 2.0**30
    assert series[status] == 0.0
    scene.reported = NodeMetricStatus()
    assert scene.series() == {
        f'{name}{{{prod},resource="cpu",unit="core"}}': 0.0,
        f'{name}{{{prod},resource="memory",unit="byte"}}': 0.0,
        status: 1.0,
    }


def test_what_is_lent_and_asked_for(scene: Scene) -> None:
    document = pod_json("job", batch_milli=1500)
    scene.bench.set_pods(pod_of(scene.tree, document))
    node = {"status": {"allocatable": {"cpu": "4", "kubernetes.io/batch-memory": "1Gi"}}}
    scene.bench.snapshot = replace(
        scene.bench.snapshot, node=Timestamped(convert(node, Node, "node"), 0.0)
    )
    assert scene.series() == {
        'koord_koordlet_node_capacity{node="n1",resource="cpu",unit="core"}': 4.0,
        'koordlet_node_resource_allocatable{node="n1",resource="kubernetes.io/batch-memory",'
        'unit="byte"}': 2.0**30,
        'koordlet_container_resource_requests{container_id="containerd://jobc0",'
        'container_name="c0",node="n1",pod_name="job",pod_namespace="default",pod_uid="uid-job",'
        'resource="kubernetes.io/batch-cpu",unit="integer"}': 1500.0,
    }  # fmt: skip


def test_host_applications_that_the_slo_names(scene: Scene) -> None:
    told = {"hostApplications": [{"name": "nginx", "priority": "koord-prod", "qos": "LS"}]}
    slo = convert(told, NodeSLOSpec, "slo")
    scene.bench.snapshot = replace(scene.bench.snapshot, slo=Timestamped(slo, 0.0))
    scene.put(MetricKind.HOST_APPLICATION_CPU_USAGE, 0.25, "nginx")
    scene.put(MetricKind.HOST_APPLICATION_MEMORY_USAGE, 10.0, "gone")
    assert scene.series() == {
        'koordlet_host_application_resource_usage{host_application_name="nginx",node="n1",'
        'priority_class="koord-prod",qos="LS",resource="cpu"}': 0.25,
    }  # fmt: skip


@pytest.mark.parametrize("per_cpu", [False, True])
def test_shared_pools(tmp_path: Path, per_cpu: bool) -> None:
    scene = Scene(tmp_path, per_cpu=per_cpu)
    pools = '[{"socket":0,"node":0,"cpuset":"0-1"},{"socket":0,"node":1,"cpuset":"3"}]'
    annotations = {
        "node.koordinator.sh/cpu-shared-pools": pools,
        "node.koordinator.sh/be-cpu-shared-pools": "{",
    }
    found = convert({"metadata": {"annotations": annotations}}, NodeResourceTopology, "nrt")
    scene.bench.snapshot = replace(scene.bench.snapshot, topology=Timestamped(found, 0.0))
    series = scene.series()
    assert series.pop('koordlet_cpuset_share_pool_cpu_cores{node="n1"}') == 3.0
    assert series.pop('koordlet_cpuset_be_share_pool_cpu_cores{node="n1"}') == 0.0
    expected = {
        f'koordlet_cpuset_share_pool_info{{cpu="{cpu}",node="n1"}}': 1.0 for cpu in (0, 1, 3)
    }
    assert series == (expected if per_cpu else {})


def test_rounds_of_collectors(scene: Scene) -> None:
    standing = CollectorState(
        NodeCollector(scene.settings), 0.0, 0.0, good_rounds=3, failed_rounds=1
    )
    scene.collector_states["cpu-info"] = standing
    name = "koordlet_collect_node_cpu_info_status"
    assert scene.series() == {
        f'{name}{{node="n1",status="succeeded"}}': 3.0,
        f'{name}{{node="n1",status="failed"}}': 1.0,
    }


class Slow:
    """Answers after three virtual seconds, or not at all."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.works = clock, True

    async def send(self, request: Request) -> Response:
        del request
        self.clock.advance(3.0)
        if not self.works:
            raise TransportError("refused")
        return Response(200, b"")

    async def open(self, request: Request) -> Stream:
        raise AssertionError(request)

    async def close(self) -> None: ...


def test_answers_of_the_kubelet_are_timed() -> None:
    clock, told = VirtualClock(0.0), registry()
    way = Slow(clock)
    timed = TimedTransport(way, told, clock)
    run(timed.send(Request("GET", "/pods/")))
    way.works = False
    with pytest.raises(TransportError):
        run(timed.send(Request("GET", "/pods/")))
    text = told.expose().decode()
    for code in ("200", "0"):
        labels = f'code="{code}",path="/pods/",verb="get"'
        assert f"koordlet_kubelet_request_duration_seconds_sum{{{labels}}} 3.0" in text
        bucket = labels.replace(",path", ',le="1.024",path')
        assert f"_bucket{{{bucket}}} 0.0" in text


def test_the_series_are_refreshed_when_they_are_asked_for() -> None:
    asked = registry()
    gauge = asked.gauge("koordlet_asked", "How often.")
    agent: Any = SimpleNamespace(gates=feature_gates(), refresh_metrics=gauge.inc)

    async def scrape() -> list[str]:
        endpoints = AgentEndpoints(asked, VirtualClock(0.0), "127.0.0.1", 0)
        await endpoints.start()
        texts = []
        try:
            for attached in (False, True):
                if attached:
                    endpoints.attach(agent)
                async with ClientSession() as web, web.get(f"{endpoints.url}/metrics") as answer:
                    texts.append(await answer.text())
        finally:
            await endpoints.stop()
        return texts

    before, after = run(scrape())
    assert "\nkoordlet_asked 0.0\n" in before
    assert "\nkoordlet_asked 1.0\n" in after
