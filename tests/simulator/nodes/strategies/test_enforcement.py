# SPDX-License-Identifier: Apache-2.0
"""What NodeSLOs make simulated machines do, against the embedded API server on virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api import NodeMetric, Pod
from koord.api.kinds.nodeslo import NodeSLO
from koord.cli.commands.up import installation
from koord.cli.commands.up.cluster import UpCluster
from koord.cli.commands.up.components import AGENT_SERIES, COMPONENTS
from koord.kernels.quantity import Rounding
from koord.kube.transport.messages import Request
from koord.simulator.nodes.pools import AgentSpec, NodePool, NodePools
from tests.simulator.simulated_cluster import World, play

GI = 1 << 30


def pools(**gates: bool) -> NodePools:
    pool = NodePool(name="node", count=2, cpu=16, memory="64Gi", kubelet_reserved={"cpu": "500m"})
    return NodePools(pools=[pool], agents=AgentSpec(feature_gates=gates))


def slo(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
            "metadata": {"name": name}, "spec": spec}  # fmt: skip


def threshold(**fields: Any) -> dict[str, Any]:
    return {"resourceUsedThresholdWithBE": {"enable": True, **fields}}


async def metric(made: World, name: str) -> None:
    """A NodeMetric that reports every half minute, over a minute."""
    policy = {"aggregateDurationSeconds": 60, "reportIntervalSeconds": 30}
    document = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                "metadata": {"name": name}, "spec": {"metricCollectPolicy": policy}}  # fmt: skip
    await made.client.create(document)


async def service(
    made: World, name: str, cores: int, memory_gi: int = 1, share: int = 1, **fields: Any
) -> Pod:
    usage = {"cpu": share, "amplitude": 0, "noise": 0, "memory": 1}
    metadata = {
        "labels": {"koordinator.sh/qosClass": "LS"},
        "annotations": {"simulator.koord/usage": json.dumps(usage)},
    }
    resources = {"requests": {"cpu": cores, "memory": f"{memory_gi}Gi"}, **fields}
    container = {"name": "main", "image": "i", "resources": resources}
    return await made.pod(name, "node-001", metadata=metadata, containers=[container])


async def batch(
    made: World,
    name: str,
    cores: int,
    memory_gi: int = 1,
    node: str = "node-001",
    priority: int | None = None,
) -> Pod:
    usage = {"cpu": 1, "amplitude": 0, "noise": 0, "memory": 1}
    metadata = {
        "labels": {"koordinator.sh/qosClass": "BE"},
        "annotations": {"simulator.koord/usage": json.dumps(usage)},
    }
    requests = {"kubernetes.io/batch-cpu": 1000 * cores,
                "kubernetes.io/batch-memory": f"{memory_gi}Gi"}  # fmt: skip
    container = {"name": "main", "image": "i",
                 "resources": {"requests": requests, "limits": requests}}  # fmt: skip
    fields = {} if priority is None else {"priorityClassName": f"batch-{priority}"}
    return await made.pod(name, node, metadata=metadata, containers=[container], **fields)


async def priorities(made: World, *values: int) -> None:
    for value in values:
        document = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                    "metadata": {"name": f"batch-{value}"}, "value": value}  # fmt: skip
        await made.client.create(document)


async def used_milli(made: World, pod: str, node: str = "node-001") -> int:
    found = await made.client.get(NodeMetric, node)
    (one,) = [each for each in found.status.pods_metric if each.name == pod]
    assert one.pod_usage is not None
    return one.pod_usage.resources["cpu"].milli(Rounding.DOWN)


async def remaining(made: World) -> set[str]:
    return {pod.metadata.name for pod in (await made.client.list(Pod)).items}


# 16 CPUs, half of which services, system and batch may use; the system's part is what the kubelet
# reserves. Quotas are exact, CPUs are whole.
@pytest.mark.parametrize(
    ("policy", "busy", "calm"), [("cfsQuota", 3500, 5500), ("cpuset", 4000, 6000)]
)
def test_batch_pods_use_what_services_leave(policy: str, busy: int, calm: int) -> None:
    async def script(made: World) -> None:
        await metric(made, "node-001")
        await made.run(made.fleet(pools()))
        await service(made, "steady", 2)
        await service(made, "visitor", 2)
        await batch(made, "work", 10)
        await asyncio.sleep(200)
        assert await used_milli(made, "work") == 10_000
        spec = threshold(cpuSuppressThresholdPercent=50, cpuSuppressPolicy=policy)
        await made.client.create(slo("node-001", **spec))
        await asyncio.sleep(200)
        assert await used_milli(made, "work") == busy
        assert await used_milli(made, "steady") == 2000
        await made.client.delete(Pod, "visitor", "default")
        await asyncio.sleep(200)
        assert await used_milli(made, "work") == calm
        await made.client.delete(NodeSLO, "node-001")
        await asyncio.sleep(200)
        assert await used_milli(made, "work") == 10_000

    play(script)


def test_a_machine_without_a_slo_or_with_one_that_is_off_is_left_alone() -> None:
    def statuses(*slos: dict[str, Any]) -> list[object]:
        found: list[object] = []

        async def script(made: World) -> None:
            for each in slos:
                await made.client.create(each)
            await made.run(made.fleet(pools()))
            for node in ("node-001", "node-002"):
                await batch(made, f"work-{node}", 10, node=node)
            await service(made, "web", 4, limits={"cpu": "4"})
            await asyncio.sleep(300)
            metrics = (await made.client.list(NodeMetric)).items
            found.extend(repr(each.status) for each in metrics)

        play(script)
        return found

    without = statuses()
    assert statuses(slo("node-001"), slo("stranger", **threshold())) == without
    # What one machine is told is nothing to the others.
    spec = threshold(cpuSuppressThresholdPercent=20, cpuSuppressPolicy="cfsQuota")
    first, second = statuses(slo("node-001", **spec))
    assert first != without[0]
    assert second == without[1]


def test_memory_is_freed_by_the_right_pods_and_no_more() -> None:
    async def script(made: World) -> None:
        fleet = made.fleet(pools(BEMemoryEvict=True))
        await made.run(fleet)
        await service(made, "web", 2, 30)
        await priorities(made, 5000, 5500)
        # Of 64 GiB 49.9 are in use, 78 percent: 5.1 GiB are to go.
        for name, priority, memory in (
            ("first", 5000, 4), ("second", 5000, 2), ("large", 5500, 8), ("small", 5500, 4),
        ):  # fmt: skip
            await batch(made, name, 1, memory, priority=priority)
        await batch(made, "elsewhere", 1, 20, node="node-002", priority=5000)
        await asyncio.sleep(20)
        assert len(await remaining(made)) == 6
        spec = threshold(memoryEvictThresholdPercent=75, memoryEvictLowerPercent=70)
        for node in ("node-001", "node-002"):
            await made.client.create(slo(node, **spec))
        await asyncio.sleep(60)
        assert await remaining(made) == {"web", "large", "small", "elsewhere"}
        told = [name for name, reason in made.events if reason == "evictPodSuccess"]
        assert told == ["first", "second"]
        series = fleet.series().decode()
        said = 'koord_simulator_evictions{feature="BEMemoryEvict",node="node-001"} 2.0'
        assert said in series

    play(script)


def test_a_gate_that_is_shut_evicts_nobody() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(pools()))
        await batch(made, "work", 1, 60)
        await made.client.create(slo("node-001", **threshold(memoryEvictThresholdPercent=10)))
        await asyncio.sleep(60)
        assert await remaining(made) == {"work"}

    play(script)


def test_starved_batch_pods_go_until_the_others_have_enough() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(pools(BECPUEvict=True)))
        await service(made, "web", 6)
        await priorities(made, *range(5000, 5004))
        for number in range(4):
            await batch(made, f"work-{number}", 4, priority=5000 + number)
        spec = threshold(
            cpuSuppressThresholdPercent=60, cpuSuppressPolicy="cfsQuota",
            cpuEvictBESatisfactionLowerPercent=30, cpuEvictBESatisfactionUpperPercent=40,
            cpuEvictTimeWindowSeconds=10,
        )  # fmt: skip
        await made.client.create(slo("node-001", **spec))
        # 3.1 cores are 19 percent of the 16 asked for, and 40 are wanted: 3.3 go, which is one pod.
        # 3.1 of 12 are still less than 30 percent; 3.1 of 8 are enough.
        await asyncio.sleep(19)
        assert len(await remaining(made)) == 5
        await asyncio.sleep(15)
        assert await remaining(made) == {"web", "work-1", "work-2", "work-3"}
        await asyncio.sleep(100)
        assert await remaining(made) == {"web", "work-2", "work-3"}

    play(script)


def test_a_throttled_service_may_exceed_its_limit() -> None:
    async def script(made: World) -> None:
        await metric(made, "node-001")
        await made.run(made.fleet(pools()))
        await service(made, "web", 1, share=2, limits={"cpu": "1"})
        await asyncio.sleep(100)
        assert await used_milli(made, "web") == 1000
        await made.client.create(slo("node-001", cpuBurstStrategy={"policy": "auto"}))
        await asyncio.sleep(100)
        assert await used_milli(made, "web") == 2000
        await made.client.delete(NodeSLO, "node-001")
        await asyncio.sleep(100)
        assert await used_milli(made, "web") == 1000

    play(script)


def test_the_api_server_of_koord_up_shows_what_agents_decided() -> None:
    async def script(made: World) -> None:
        cluster = UpCluster(made.plane, pools(), made.clock, 1, [])
        await installation.install(cluster, ())
        component = COMPONENTS["nodes"].make(cluster)
        made.tasks.append(asyncio.ensure_future(component.run()))
        await asyncio.sleep(5)
        await batch(made, "work", 10)
        spec = threshold(cpuSuppressThresholdPercent=50, cpuSuppressPolicy="cfsQuota")
        await made.client.create(slo("node-001", **spec))
        await asyncio.sleep(20)
        answer = await made.plane.transport().send(Request("GET", AGENT_SERIES))
        assert answer.status == 200
        said = b'koordlet_be_suppress_cpu_cores{node="node-001",type="cfsQuota"} 7.5'
        assert said in answer.body.splitlines()

    play(script)
