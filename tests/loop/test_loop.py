# SPDX-License-Identifier: Apache-2.0
"""The loop from end to end: usage becomes batch resources, batch runs on them, services are kept.

Agents measure and write files of stand-in machines (``tests/loop/standin.py``): what a kernel does
with those files is tests/scenes' to show.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.api import Node, NodeMetric, NodeSLO
from koord.api.protocol.resources import BATCH_CPU
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet
from koord.kernels.quantity import Rounding
from tests.loop.cluster import Cluster, on_embedded, on_real
from tests.loop.standin import CPUS
from tests.real.plane import RealControlPlane

BY_CPUS, BY_QUOTA = "by-cpus", "by-quota"
NODES = (BY_CPUS, BY_QUOTA)
ASLEEP, AWAKE = 0.3, 2.0
BATCH_MILLI = 1000
PERIOD_US = 100_000
MOST_SECONDS = 10.0
"""A change of the ConfigMap is on the nodes within this (issue 6, agents)."""
COLOCATION = {
    "enable": True, "metricReportIntervalSeconds": 1, "metricAggregateDurationSeconds": 10,
    "cpuReclaimThresholdPercent": 60, "memoryReclaimThresholdPercent": 65,
}  # fmt: skip


async def story(cluster: Cluster) -> float:
    """Everything in its order; how many seconds an edit of the ConfigMap took to the files."""
    await _services_run(cluster)
    await _batch_waits(cluster)
    await _usage_becomes_batch(cluster)
    await _batch_is_bound(cluster)
    await _services_wake_and_sleep(cluster)
    seconds = await _an_edit_reaches_the_files(cluster)
    assert "kubernetes.io/batch-cpu" in await cluster.message("greedy")
    return seconds


def test_the_loop_on_the_embedded_plane(tmp_path: Path, plain_files: None) -> None:
    # Virtual seconds: intervals, not how busy this machine is.
    assert on_embedded(tmp_path, story) <= MOST_SECONDS


@pytest.mark.real
def test_the_loop_on_a_kube_apiserver(
    own_plane: RealControlPlane, tmp_path: Path, plain_files: None
) -> None:
    # From the moment the API server has answered the edit.
    assert on_real(own_plane.kubeconfig, tmp_path, story) <= MOST_SECONDS


async def _services_run(cluster: Cluster) -> None:
    await cluster.add_host(BY_CPUS, Version.V1, suppress="cpuset")
    await cluster.add_host(BY_QUOTA, Version.V2, suppress="quota")
    for node in NODES:
        cluster.hosts[node].cores[f"service-{node}"] = ASLEEP
        await cluster.submit(f"service-{node}", node, "koord-prod", cpu="2", memory="2Gi")
    for node in NODES:
        await _runs(cluster, f"service-{node}", node)


async def _batch_waits(cluster: Cluster) -> None:
    """Nobody offers batch resources yet, and the pods say so."""
    for node in NODES:
        amount = str(BATCH_MILLI)
        await cluster.submit(
            f"batch-{node}", node, "koord-batch", batch_cpu=amount, batch_memory="1Gi"
        )
    # More than the machine could ever lend.
    await cluster.submit("greedy", BY_QUOTA, "koord-batch", batch_cpu="3000", batch_memory="1Gi")
    for name in ("greedy", *(f"batch-{node}" for node in NODES)):

        async def waits(name: str = name) -> bool:
            return "Insufficient kubernetes.io/batch-cpu" in await cluster.message(name)

        await cluster.until(f"{name} says why it waits", waits)
        assert await cluster.bound(name) == ""
    for node in NODES:
        assert _batch(await cluster.node(node)) is None


async def _usage_becomes_batch(cluster: Cluster) -> None:
    await cluster.configure(colocation=COLOCATION, resource_threshold=_thresholds(65))
    for node in NODES:

        async def offered(node: str = node) -> bool:
            return (_batch(await cluster.node(node)) or 0) >= BATCH_MILLI

        await cluster.until(f"{node} offers batch resources", offered)
        # Of 4 cores 40 % are kept; the service sleeps, but was measured only for a while.
        assert (_batch(await cluster.node(node)) or 0) <= 4000 * 60 // 100
        metric = await cluster.admin.get(NodeMetric, node)
        assert [pod.name for pod in metric.status.pods_metric] == [f"service-{node}"]


async def _batch_is_bound(cluster: Cluster) -> None:
    for node in NODES:
        cluster.hosts[node].cores[f"batch-{node}"] = 0.5
        await _runs(cluster, f"batch-{node}", node)
    assert await cluster.bound("greedy") == ""


async def _services_wake_and_sleep(cluster: Cluster) -> None:
    await _room(cluster, "while services sleep", 2.0, 2.3, 3)
    for node in NODES:
        cluster.hosts[node].cores[f"service-{node}"] = AWAKE
    await _room(cluster, "once services are awake", 0.2, 0.6, 2)

    async def taken_back() -> bool:
        return all([(_batch(await cluster.node(node)) or 0) < BATCH_MILLI for node in NODES])

    await cluster.until("the manager offers less while services are awake", taken_back)
    for node in NODES:
        cluster.hosts[node].cores[f"service-{node}"] = ASLEEP
    await _room(cluster, "when they sleep again", 2.0, 2.3, 3)


async def _an_edit_reaches_the_files(cluster: Cluster) -> float:
    await cluster.configure(resource_threshold=_thresholds(40))
    # 1.6 cores together: 0.3 the services, 0.2 the system.
    lowered = await _room(cluster, "with a lower threshold", 1.0, 1.25, 2)
    await cluster.configure(resource_threshold={"clusterStrategy": {"enable": False}})

    async def free() -> bool:
        return _quota_us(cluster) == -1 and len(_cpus(cluster)) == CPUS

    freed = await cluster.until("suppression is off", free)
    print(f"\nConfigMap to files of {len(NODES)} nodes: {lowered:.2f} s, {freed:.2f} s")
    slo = await cluster.admin.get(NodeSLO, BY_QUOTA)
    assert slo.spec.resource_used_threshold_with_be is not None
    assert slo.spec.resource_used_threshold_with_be.enable is False
    return max(lowered, freed)


async def _room(cluster: Cluster, when: str, least: float, most: float, cpus: int) -> float:
    """Waits until BE pods have so many cores by quota, and so many CPUs; how long it took."""

    async def fits() -> bool:
        quota = _quota_us(cluster) / PERIOD_US
        return least <= quota <= most and len(_cpus(cluster)) == cpus

    def told() -> str:
        return f"quota {_quota_us(cluster)}, CPUs {sorted(_cpus(cluster))}"

    try:
        return await cluster.until(f"room for best effort {when}", fits)
    except AssertionError as error:
        raise AssertionError(f"{error}; now {told()}") from None


def _quota_us(cluster: Cluster) -> int:
    host = cluster.hosts[BY_QUOTA]
    word = host.says("cpu.cfs_quota_us", host.machine.layout.best_effort).split()[0]
    return -1 if word == "max" else int(word)


def _cpus(cluster: Cluster) -> CPUSet:
    host = cluster.hosts[BY_CPUS]
    return CPUSet.parse_wire(host.says("cpuset.cpus", host.machine.layout.best_effort))


async def _runs(cluster: Cluster, name: str, node: str) -> None:
    async def bound() -> bool:
        return await cluster.bound(name) == node and name in cluster.hosts[node].pods

    await cluster.until(f"{name} runs on {node}", bound)


def _thresholds(percent: int) -> dict[str, object]:
    strategy = {"enable": True, "cpuSuppressThresholdPercent": percent}
    by_quota = {
        "name": "by-quota", "nodeSelector": {"matchLabels": {"suppress": "quota"}},
        "cpuSuppressPolicy": "cfsQuota",
    }  # fmt: skip
    return {"clusterStrategy": strategy, "nodeStrategies": [by_quota]}


def _batch(node: Node) -> int | None:
    """Batch CPU that a node shows; None where it shows none."""
    found = node.status.allocatable.get(BATCH_CPU)
    return None if found is None else found.value(Rounding.UP)
