# SPDX-License-Identifier: Apache-2.0
"""The collectors that always run, on whole trees of either version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.procfs.proc_stat import parse_cpu_ticks
from koord.agent.metrics.collectors.best_effort import BestEffortCollector
from koord.agent.metrics.collectors.host_applications import HostApplicationsCollector
from koord.agent.metrics.collectors.node import NodeCollector
from koord.agent.metrics.collectors.numa import NUMACollector
from koord.agent.metrics.collectors.page_cache import PageCacheCollector
from koord.agent.metrics.collectors.pods import PodsCollector
from koord.agent.metrics.collectors.system import SystemCollector
from koord.agent.metrics.collectors.throttling import ThrottlingCollector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.options import MetricsOptions
from koord.agent.states.snapshot import Timestamped
from koord.api.codec import convert
from koord.api.kinds.nodemetric import NodeMetricSpec
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver
from tests.agent.machine_tree import GIB, MIB, Group, MachineTree
from tests.agent.metrics.bench import Bench, lay_out, pod_json, pod_of
from tests.models import agent_metrics as model

ALL = (
    NodeCollector, NUMACollector, PodsCollector, ThrottlingCollector, BestEffortCollector,
    HostApplicationsCollector, SystemCollector, PageCacheCollector,
)  # fmt: skip


@pytest.fixture(params=Version, ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> MachineTree:
    return MachineTree(tmp_path, request.param)


def make(tree: MachineTree, *collectors: type, settings: MetricsOptions | None = None) -> Bench:
    settings = settings or MetricsOptions()
    return Bench(tree, [kind(settings) for kind in collectors], settings)


def test_node_cpu_in_cores_and_memory_that_is_not_available(tree: MachineTree) -> None:
    bench = make(tree, NodeCollector)
    tree.stat([100, 200, 300, 400])
    bench.step()
    assert bench.one(MetricKind.NODE_CPU_USAGE) is None
    assert bench.one(MetricKind.NODE_MEMORY_USAGE) is None  # neither, in the first round
    tree.stat([150, 250, 350, 400])
    bench.step(1.0)
    assert bench.one(MetricKind.NODE_CPU_USAGE) == pytest.approx(
        1.5
    )  # 150 ticks of 10 ms in a second
    assert bench.one(MetricKind.NODE_MEMORY_USAGE) == 8 * GIB


@given(st.lists(st.integers(0, 2**40), min_size=7, max_size=10))
def test_busy_ticks_leave_idle_iowait_and_steal_out(columns: list[int]) -> None:
    line = "cpu  " + " ".join(map(str, columns))
    ticks = parse_cpu_ticks(f"{line}\ncpu0 {line[4:]}\nintr 1 2\n".encode())
    assert ticks.total == model.busy_ticks(line)
    assert ticks.ticks.tolist() == [model.busy_ticks(line)]


def test_numa_cpu_by_the_cpus_of_each_node_and_its_memory(tree: MachineTree) -> None:
    bench = make(tree, NUMACollector)
    bench.step()
    tree.stat([100, 20, 0, 30])
    tree.numa(1, total=8 * GIB, free=1 * GIB, file=2 * GIB, slab=1 * GIB)
    bench.step(1.0)
    cpu = bench.last(MetricKind.NODE_NUMA_CPU_USAGE)
    assert cpu == {("0",): pytest.approx(1.2), ("1",): pytest.approx(0.3)}
    memory = bench.last(MetricKind.NODE_NUMA_MEMORY_USAGE)
    assert memory == {("0",): 5 * GIB, ("1",): 4 * GIB}


def test_a_cpu_whose_ticks_went_back_and_a_new_one_do_not_count(tree: MachineTree) -> None:
    bench = make(tree, NUMACollector)
    tree.stat([500, 10, 0])
    bench.step()
    tree.stat([100, 20, 50])
    bench.step(1.0)
    assert bench.last(MetricKind.NODE_NUMA_CPU_USAGE) == {("0",): pytest.approx(0.1), ("1",): 0.5}
    tree.stat([200, 20, 50, 900])  # CPU 3 came online: all rows are new to the eye, not to time
    bench.step(1.0)
    assert bench.last(MetricKind.NODE_NUMA_CPU_USAGE) == {("0",): pytest.approx(1.0), ("1",): 0.0}


def test_pods_and_containers(tree: MachineTree) -> None:
    bench = make(tree, PodsCollector)
    pod = pod_of(tree, pod_json("web", 2))
    bench.set_pods(pod)
    lay_out(tree, pod, Group(usage_ns=10**9, anon=3 * MIB, unevictable=MIB, file=9 * MIB))
    bench.step()
    assert not bench.last(MetricKind.POD_CPU_USAGE)
    assert bench.last(MetricKind.POD_MEMORY_USAGE) == {("uid-web",): 4 * MIB}
    tree.group(pod.directory, Group(usage_ns=10**9 + 250_000_000))
    tree.group(pod.containers[0].directory, Group(usage_ns=10**9 + 200_000_000))
    bench.step(0.5)
    bench.step(0.5)
    assert bench.last(MetricKind.POD_CPU_USAGE) == {("uid-web",): 0.25}
    cpu = bench.last(MetricKind.CONTAINER_CPU_USAGE)
    assert cpu == {("containerd://webc0",): 0.2, ("containerd://webc1",): 0.0}
    assert bench.advisor.shared_readings.pods.value.cpu_cores == 0.25


def test_a_pod_that_cannot_be_read_is_left_out_with_its_containers(tree: MachineTree) -> None:
    bench = make(tree, PodsCollector)
    good, bad = pod_of(tree, pod_json("good")), pod_of(tree, pod_json("bad"))
    for pod in (good, bad):
        lay_out(tree, pod)
    tree.remove(bad.containers[0].directory)
    tree.remove(bad.directory)
    tree.group(bad.containers[0].directory, Group())  # the container alone is there
    bench.set_pods(good, bad)
    bench.step()
    bench.step(1.0)
    assert list(bench.last(MetricKind.POD_CPU_USAGE)) == [("uid-good",)]
    assert list(bench.last(MetricKind.CONTAINER_MEMORY_USAGE)) == [("containerd://goodc0",)]


def test_a_container_without_an_id_and_a_pod_in_any_phase(tree: MachineTree) -> None:
    document = pod_json("done", 1)
    document["status"] |= {"phase": "Succeeded"}  # type: ignore[operator]
    pod = pod_of(tree, document)
    lay_out(tree, pod)
    waiting = replace(pod.containers[0], id="", directory="", name="waiting")
    bench = make(tree, PodsCollector)
    bench.set_pods(replace(pod, containers=(*pod.containers, waiting)))
    bench.step()
    assert list(bench.last(MetricKind.POD_MEMORY_USAGE)) == [("uid-done",)]
    assert len(bench.last(MetricKind.CONTAINER_MEMORY_USAGE)) == 1


def test_a_restarted_container_and_a_new_pod_start_anew(tree: MachineTree) -> None:
    bench = make(tree, PodsCollector)
    old = pod_of(tree, pod_json("old"))
    lay_out(tree, old, Group(usage_ns=10**9))
    bench.set_pods(old)
    bench.step()
    new = pod_of(tree, pod_json("new"))
    lay_out(tree, new, Group(usage_ns=77 * 10**9))
    tree.group(old.directory, Group(usage_ns=5))  # went back
    bench.set_pods(old, new)
    bench.step(1.0)
    assert list(bench.last(MetricKind.CONTAINER_CPU_USAGE)) == [("containerd://oldc0",)]
    assert not bench.last(MetricKind.POD_CPU_USAGE)
    bench.step(1.0)
    assert bench.last(MetricKind.POD_CPU_USAGE) == {("uid-new",): 0.0, ("uid-old",): 0.0}


@pytest.mark.parametrize(
    ("periods", "throttled", "ratio"), [(10, 5, 0.5), (0, 0, 0.0), (4, 4, 1.0), (0, 3, 0.0)]
)
def test_throttled_periods_over_periods(
    tree: MachineTree, periods: int, throttled: int, ratio: float
) -> None:
    bench = make(tree, ThrottlingCollector)
    pod = pod_of(tree, pod_json("web"))
    lay_out(tree, pod, Group(periods=100, throttled=50))
    bench.set_pods(pod)
    bench.step()
    assert not bench.last(MetricKind.POD_CPU_THROTTLED)
    lay_out(tree, pod, Group(periods=100 + periods, throttled=50 + throttled))
    bench.step(1.0)
    assert bench.last(MetricKind.POD_CPU_THROTTLED) == {("uid-web",): ratio}
    assert bench.last(MetricKind.CONTAINER_CPU_THROTTLED) == {("containerd://webc0",): ratio}


def best_effort(bench: Bench) -> dict[str, float]:
    return {key[1]: value for key, value in bench.last(MetricKind.NODE_BE).items()}


@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("version", Version)
def test_best_effort_tier(tmp_path: Path, version: Version, driver: Driver) -> None:
    tree = MachineTree(tmp_path, version, driver)
    bench = make(tree, BestEffortCollector)
    batch = pod_of(tree, pod_json("batch", 2, "BE", "BestEffort", 1500))
    plain = pod_of(tree, pod_json("plain", 1, "", "BestEffort", 700))
    lay_out(tree, batch, Group(cpus="0-2"))
    tree.group(tree.tier, Group(usage_ns=10**9, cpus="0-3"))
    bench.set_pods(batch, plain)
    bench.step()
    assert best_effort(bench) == {"usage": 0, "request": 3000, "real-limit": 3000}
    tree.group(tree.tier, Group(usage_ns=10**9 + 1_234_567_890, cpus="0-3", quota=250_001))
    bench.step(1.0)
    usage = model.best_effort_usage_milli(1_234_567_890, 1000)
    assert usage == 1234
    assert best_effort(bench) == {"usage": usage, "request": 3000, "real-limit": 2500}


def test_the_narrowest_cpu_set_below_the_tier_counts_also_of_a_sandbox(tree: MachineTree) -> None:
    bench = make(tree, BestEffortCollector)
    bench.step()
    assert best_effort(bench)["real-limit"] == 4000
    tree.group(f"{tree.tier}/some-pod/sandbox", Group(cpus="1"))
    bench.step(10.0)
    assert best_effort(bench)["real-limit"] == 1000
    tree.remove(f"{tree.tier}/some-pod/sandbox")
    bench.step(10.0)
    assert best_effort(bench)["real-limit"] == 4000


def test_system_is_what_nobody_else_used(tree: MachineTree) -> None:
    bench = make(tree, *ALL)
    pod = pod_of(tree, pod_json("web"))
    lay_out(tree, pod)
    bench.set_pods(pod)
    bench.step()
    tree.stat([100, 50, 0, 0])
    pages = {0: 256, 1: 512}
    tree.group(pod.directory, Group(usage_ns=300_000_000, anon=2 * MIB, pages=pages))
    bench.step(5.0)
    assert bench.one(MetricKind.SYS_CPU_USAGE) == pytest.approx(model.system_usage(0.3, [0.06], []))
    assert bench.one(MetricKind.SYS_MEMORY_USAGE) == 8 * GIB - 2 * MIB
    cpu = bench.last(MetricKind.SYS_NUMA_CPU_USAGE)
    assert cpu == {("0",): pytest.approx(0.24), ("1",): 0.0}
    memory = bench.last(MetricKind.SYS_NUMA_MEMORY_USAGE)
    assert memory == {("0",): 5 * GIB - 256 * 4096, ("1",): 5 * GIB - 512 * 4096}
    assert not bench.errors()


def test_system_needs_inputs_that_are_fresh(tree: MachineTree) -> None:
    bench = make(tree, NodeCollector, PodsCollector, HostApplicationsCollector, SystemCollector)
    bench.step()
    bench.step(1.0)
    assert bench.one(MetricKind.SYS_CPU_USAGE) == 0.0
    (tree.root / "proc/stat").unlink()
    for _ in range(10):
        bench.step(1.0)
    assert bench.one(MetricKind.SYS_CPU_USAGE) is not None  # ten seconds old, not older
    bench.step(1.0)
    assert bench.one(MetricKind.SYS_CPU_USAGE) is None


def applications(bench: Bench, *names: str) -> None:
    document = {"hostApplications": [{"name": name, "qos": "LS"} for name in names]}
    slo = convert(document, NodeSLOSpec, "slo")
    bench.snapshot = replace(bench.snapshot, slo=Timestamped(slo, 0.0))


def test_host_applications_by_their_directory(tree: MachineTree) -> None:
    bench = make(tree, NodeCollector, PodsCollector, HostApplicationsCollector, SystemCollector)
    applications(bench, "nginx", "gone", "../evil")
    tree.group("host-latency-sensitive/nginx", Group(anon=4 * MIB, file=2 * MIB))
    bench.step()
    tree.stat([200, 0, 0, 0])
    tree.group("host-latency-sensitive/nginx", Group(5 * 10**8, anon=4 * MIB, file=2 * MIB))
    bench.step(1.0)
    assert bench.last(MetricKind.HOST_APPLICATION_CPU_USAGE) == {("nginx",): 0.5}
    assert bench.last(MetricKind.HOST_APPLICATION_MEMORY_USAGE) == {("nginx",): 4 * MIB}
    cached = bench.last(MetricKind.HOST_APPLICATION_MEMORY_USAGE_WITH_PAGE_CACHE)
    assert cached == {("nginx",): 6 * MIB}
    assert bench.one(MetricKind.SYS_CPU_USAGE) == pytest.approx(1.5)
    assert bench.one(MetricKind.SYS_MEMORY_USAGE) == 8 * GIB - 4 * MIB
    policy = {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "usageWithPageCache"}}
    spec = convert(policy, NodeMetricSpec, "spec")
    bench.snapshot = replace(bench.snapshot, metric_spec=Timestamped(spec, 0.0))
    bench.step(1.0)
    assert bench.one(MetricKind.SYS_MEMORY_USAGE) == 8 * GIB - 6 * MIB
    assert not bench.errors()


def test_page_cache_of_node_and_pods(tree: MachineTree) -> None:
    bench = make(tree, PageCacheCollector)
    pod = pod_of(tree, pod_json("web"))
    lay_out(tree, pod, Group(anon=4 * MIB, file=6 * MIB, unevictable=MIB))
    bench.set_pods(pod)
    bench.step()
    assert bench.one(MetricKind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE) == 12 * GIB
    assert bench.last(MetricKind.POD_MEMORY_USAGE_WITH_PAGE_CACHE) == {("uid-web",): 11 * MIB}
    containers = bench.last(MetricKind.CONTAINER_MEMORY_USAGE_WITH_PAGE_CACHE)
    assert containers == {("containerd://webc0",): 11 * MIB}
