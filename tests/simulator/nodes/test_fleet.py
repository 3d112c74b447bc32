# SPDX-License-Identifier: Apache-2.0
"""Simulated machines against the embedded API server, on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from koord.api import (
    Device,
    Lease,
    Node,
    NodeMetric,
    NodeResourceTopology,
    Pod,
    codec,
    crds,
)
from koord.api.kinds.topology import ZoneResource
from koord.api.protocol import keys, topology
from koord.base import faults
from koord.kernels.quantity import Quantity
from koord.kube import crds as installing
from koord.kube.errors import TransportError
from koord.kube.patches import Patch
from koord.simulator.nodes.pools import NodePool, NodePools, PoolGPUs, default_pools
from tests.simulator.simulated_cluster import World, play

MIXED = NodePools(
    pools=[NodePool(name="node", count=2), NodePool(name="gpu", gpus=PoolGPUs(count=4))]
)


def test_machines_publish_what_agents_publish() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(30)
        nodes = (await made.client.list(Node)).items
        assert [node.metadata.name for node in nodes] == ["gpu-001", "node-001", "node-002"]
        assert all(
            {c.type: c.status for c in node.status.conditions}["Ready"] == "True" for node in nodes
        )
        leases = (await made.client.list(Lease, namespace="kube-node-lease")).items
        assert [lease.spec.holder_identity for lease in leases] == [
            "gpu-001",
            "node-001",
            "node-002",
        ]
        for kind, count in ((NodeResourceTopology, 3), (NodeMetric, 3), (Device, 1)):
            found: list[Any] = (await made.client.list(kind)).items
            assert len(found) == count
            uids = {each.metadata.owner_references[0].uid for each in found}
            assert uids <= {node.metadata.uid for node in nodes}
        metric = await made.client.get(NodeMetric, "node-001")
        assert metric.status.node_metric is not None
        assert metric.status.update_time is not None

    play(script)


def test_heartbeats_and_reports_come_at_their_pace() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(NodePools(pools=[NodePool(name="node", count=5)])))
        await asyncio.sleep(60)
        made.requests.clear()
        await asyncio.sleep(600)
        assert made.requests["PATCH leases"] == 5 * 60
        # The status subresource of nodes every five minutes, of NodeMetrics every minute.
        statuses = {name: n for name, n in made.requests.items() if name.startswith("PATCH n")}
        assert sum(statuses.values()) == 5 * (2 + 10)
        assert sum(made.requests.values()) == 5 * (60 + 2 + 10)

    play(script)


def test_a_pod_runs_and_is_measured_and_goes() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await made.pod("web", "node-001")
        await made.pod("elsewhere", "not-ours")
        await asyncio.sleep(5)
        pod = await made.get("web")
        assert pod is not None
        assert pod.status.phase == "Running"
        assert pod.status.host_ip == "172.20.0.0"
        assert pod.status.pod_ip == "10.128.0.2"
        assert pod.status.container_statuses[0].ready
        assert [reason for _, reason in made.events] == ["Pulled", "Created", "Started"]
        await asyncio.sleep(120)
        metric = await made.client.get(NodeMetric, "node-001")
        assert [each.name for each in metric.status.pods_metric] == ["web"]
        await made.client.delete(Pod, "web", "default")
        await asyncio.sleep(2)
        assert await made.get("web") is None
        stranger = await made.get("elsewhere")
        assert stranger is not None
        assert stranger.status.phase == "Pending"
        await asyncio.sleep(120)
        metric = await made.client.get(NodeMetric, "node-001")
        assert metric.status.pods_metric == []

    play(script)


def test_work_ends_by_itself_with_its_own_exit_code() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        for name, code in (("good", "0"), ("bad", "7")):
            annotations = {"simulator.koord/duration": "90s", "simulator.koord/exit-code": code}
            await made.pod(name, "node-002", restartPolicy="Never",
                           metadata={"annotations": annotations})  # fmt: skip
        await asyncio.sleep(60)
        for name in ("good", "bad"):
            pod = await made.get(name)
            assert pod is not None
            assert pod.status.phase == "Running"
        await asyncio.sleep(40)
        ended = [await made.get("good"), await made.get("bad")]
        assert [pod.status.phase for pod in ended if pod] == ["Succeeded", "Failed"]
        codes = [
            pod.status.container_statuses[0].state["terminated"]["exitCode"] for pod in ended if pod
        ]
        assert codes == [0, 7]

    play(script)


def test_a_new_pod_of_an_old_name_is_another_pod() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        first = await made.pod("web", "node-001")
        await asyncio.sleep(5)
        await made.client.delete(Pod, "web", "default", grace_period_seconds=0)
        second = await made.pod("web", "node-002")
        await asyncio.sleep(5)
        pod = await made.get("web")
        assert pod is not None
        assert first.metadata.uid != second.metadata.uid == pod.metadata.uid
        assert (pod.status.phase, pod.status.pod_ip) == ("Running", "10.128.1.2")

    play(script)


def test_bound_cpus_leave_the_shared_pool() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        annotations = {keys.RESOURCE_STATUS: '{"cpuset":"0-1,16-17"}'}
        labels = {keys.QOS_CLASS: "LSE"}
        await made.pod("web", "node-001", metadata={"annotations": annotations, "labels": labels})
        await asyncio.sleep(5)
        nrt = await made.client.get(NodeResourceTopology, "node-001")
        shared = [pool.cpuset for pool in topology.shared_pools(nrt)]
        assert shared == ["2-7,18-23", "8-15,24-31"]
        assert [pool.cpuset for pool in topology.shared_pools(nrt, be=True)] == shared
        await made.client.delete(Pod, "web", "default")
        await asyncio.sleep(5)
        nrt = await made.client.get(NodeResourceTopology, "node-001")
        assert topology.shared_pools(nrt)[0].cpuset == "0-7,16-23"

    play(script)


def test_what_others_keep_in_zones_stays_when_an_agent_publishes_anew() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(5)
        name, key = "node-001", keys.NODE_RESERVATION
        nrt = await made.client.get(NodeResourceTopology, name)
        amount = Quantity.from_value(7)
        kept = ZoneResource("kubernetes.io/batch-cpu", amount, amount, amount)
        nrt.zones[0].resources.append(kept)
        zones = Patch.merge({"zones": codec.to_document(nrt.zones)})
        await made.client.patch(NodeResourceTopology, name, zones)
        for reserved in ('{"reservedCPUs":"0-1"}', None):
            change = Patch.merge({"metadata": {"annotations": {key: reserved}}})
            await made.client.patch(Node, name, change)
            await asyncio.sleep(5)
            nrt = await made.client.get(NodeResourceTopology, name)
            assert sorted(each.name for each in nrt.zones[0].resources) == [
                "cpu", "kubernetes.io/batch-cpu", "memory"
            ]  # fmt: skip
            assert kept in nrt.zones[0].resources
            # Nor is a reservation told that is gone.
            assert nrt.metadata.annotations.get(key) == reserved

    play(script)


def test_a_node_that_is_deleted_is_left_alone_until_it_is_back() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(20)
        await made.client.delete(Node, "node-001")
        await asyncio.sleep(1)
        lease = await made.client.get(Lease, "node-001", "kube-node-lease")
        await asyncio.sleep(60)
        after = await made.client.get(Lease, "node-001", "kube-node-lease")
        assert after.spec.renew_time == lease.spec.renew_time
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-001"}}
        await made.client.create(node)
        await asyncio.sleep(20)
        back = await made.client.get(Node, "node-001")
        assert {c.type: c.status for c in back.status.conditions}["Ready"] == "True"
        again = await made.client.get(Lease, "node-001", "kube-node-lease")
        assert again.spec.renew_time > lease.spec.renew_time

    play(script)


def test_what_belongs_to_others_is_left_to_them() -> None:
    async def script(made: World) -> None:
        annotations = {keys.MANAGED: "false"}
        for version, kind, body in (
            ("scheduling.koordinator.sh/v1alpha1", "Device", {"spec": {"devices": []}}),
            ("slo.koordinator.sh/v1alpha1", "NodeMetric", {"spec": {}}),
        ):
            metadata = {"name": "gpu-001", "annotations": annotations}
            document = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
            await made.client.create(document)
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(130)
        assert (await made.client.get(Device, "gpu-001")).spec.devices == []
        assert (await made.client.get(NodeMetric, "gpu-001")).status.update_time is None
        assert (await made.client.get(NodeMetric, "node-001")).status.update_time is not None
        # Told once for each object.
        assert made.events == [("gpu-001", "LeftToAuthor")] * 2

    play(script)


def test_a_device_that_somebody_changed_or_deleted_is_reported_again() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(1)
        reported = (await made.client.get(Device, "gpu-001")).spec
        assert len(reported.devices) == 4
        patch = Patch.merge({"spec": {"devices": []}})
        await made.client.patch(Device, "gpu-001", patch)
        await asyncio.sleep(1)
        assert (await made.client.get(Device, "gpu-001")).spec == reported
        await made.client.delete(Device, "gpu-001")
        await asyncio.sleep(1)
        assert (await made.client.get(Device, "gpu-001")).spec == reported
        made.requests.clear()
        await asyncio.sleep(30)
        assert not made.requests["PATCH devices"]

    play(script)


def test_a_topology_that_somebody_deleted_is_reported_again() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(1)
        reported = (await made.client.get(NodeResourceTopology, "node-001")).zones
        await made.client.delete(NodeResourceTopology, "node-001")
        await asyncio.sleep(1)
        assert (await made.client.get(NodeResourceTopology, "node-001")).zones == reported

    play(script)


def test_of_kinds_that_went_nothing_is_written_until_they_come_back() -> None:
    kinds = (Device, NodeMetric, NodeResourceTopology)
    definitions = [
        each for each in crds()
        if each["spec"]["names"]["kind"] in {kind.__name__ for kind in kinds}
    ]  # fmt: skip

    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(30)
        before = [len((await made.client.list(kind)).items) for kind in kinds]
        for each in definitions:
            await made.client.delete(installing.CRD, each["metadata"]["name"])
        await asyncio.sleep(60)
        made.requests.clear()
        await asyncio.sleep(300)
        assert [name for name in made.requests if name.startswith("POST")] == []
        async for _ in installing.install(made.client, definitions):
            pass
        await asyncio.sleep(120)
        assert [len((await made.client.list(kind)).items) for kind in kinds] == before

    play(script)


def test_a_kubelet_refuses_what_does_not_fit() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(NodePools(pools=[NodePool(name="node", cpu=8)])))
        for number in range(4):
            await made.pod(f"web-{number}", "node-001")
        await asyncio.sleep(5)
        pods = {each.metadata.name: each for each in (await made.client.list(Pod)).items}
        assert Counter(each.status.phase for each in pods.values()) == {"Running": 3, "Failed": 1}
        (name, refused) = next(each for each in pods.items() if each[1].status.phase == "Failed")
        assert refused.status.reason == "OutOfcpu"
        numbers = "requested: 2000, used: 6000, capacity: 7500"
        said = f"Node didn't have enough resource: cpu, {numbers}"
        assert refused.status.message == f"Pod was rejected: {said}"
        assert (name, "OutOfcpu") in made.events
        # Room that a pod leaves is taken by the next, and not twice.
        gone = next(each for each in pods if each != name)
        await made.client.delete(Pod, gone, "default")
        await asyncio.sleep(3)
        for number in (7, 8):
            await made.pod(f"web-{number}", "node-001")
        await asyncio.sleep(5)
        later = [await made.get(f"web-{number}") for number in (7, 8)]
        assert sorted(each.status.phase for each in later if each) == ["Failed", "Running"]

    play(script)


def test_a_pod_whose_status_cannot_be_stored_fails_at_once() -> None:
    """A kubelet that tries again would make a megabyte of status again and again."""

    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        many = [{"name": f"c{number}", "image": "i"} for number in range(6_000)]
        await made.pod("many", "node-001", containers=many)
        await asyncio.sleep(30)
        pod = await made.get("many")
        assert pod is not None
        assert (pod.status.phase, pod.status.reason) == ("Failed", "StatusTooLarge")
        assert made.events.count(("many", "StatusTooLarge")) == 1

    play(script)


def test_an_agent_never_touches_the_spec_of_its_metric() -> None:
    async def script(made: World) -> None:
        policy = {"aggregateDurationSeconds": 120, "reportIntervalSeconds": 30}
        document = {
            "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
            "metadata": {"name": "node-001"}, "spec": {"metricCollectPolicy": policy},
        }  # fmt: skip
        await made.client.create(document)
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(60)
        made.requests.clear()
        await asyncio.sleep(300)
        metric = await made.client.get(NodeMetric, "node-001")
        asked = metric.spec.metric_collect_policy
        assert asked is not None
        assert asked.report_interval_seconds == 30
        assert asked.node_aggregate_policy is None
        # Two others once a minute, this one twice.
        assert sum(n for name, n in made.requests.items() if name.endswith(" gpu-001")) >= 5

    play(script)


def test_machines_go_on_when_they_are_started_again() -> None:
    async def script(made: World) -> None:
        first = await made.run(made.fleet(MIXED))
        annotations = {"simulator.koord/duration": "100s"}
        await made.pod("job", "node-001", restartPolicy="Never",
                       metadata={"annotations": annotations})  # fmt: skip
        await asyncio.sleep(60)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        node = await made.client.get(Node, "node-001")
        await asyncio.sleep(20)
        await made.run(made.fleet(MIXED))
        await asyncio.sleep(30)
        again = await made.client.get(Node, "node-001")
        assert again.metadata.uid == node.metadata.uid
        pod = await made.get("job")
        assert pod is not None
        # It has run its hundred seconds, those without a kubelet included.
        assert pod.status.phase == "Succeeded"

    play(script)


@pytest.mark.parametrize("seed", range(2))
def test_machines_get_there_when_every_fifth_write_fails(seed: int) -> None:
    points = ("simulator.node.write", "simulator.kubelet.write", "simulator.agent.write",
              "simulator.agent.report")  # fmt: skip
    error = TransportError("cut by the test")
    plan = faults.FaultPlan(seed, {point: faults.FaultRule(0.2, error) for point in points})

    async def script(made: World) -> None:
        with faults.inject(plan):
            await made.run(made.fleet(default_pools(10), seed))
            for number in range(12):
                await made.pod(f"pod-{number}", f"node-{number % 9 + 1:03}")
            await asyncio.sleep(180)
            pods = (await made.client.list(Pod)).items
            assert [pod.status.phase for pod in pods] == ["Running"] * 12
            assert len({pod.status.pod_ip for pod in pods}) == 12
            assert len((await made.client.list(NodeResourceTopology)).items) == 10
            metrics = (await made.client.list(NodeMetric)).items
            assert len(metrics) == 10
            assert all(metric.status.update_time for metric in metrics)
            for pod in pods:
                await made.client.delete(Pod, pod.metadata.name, "default")
            await asyncio.sleep(120)
            assert (await made.client.list(Pod)).items == []
        assert all(plan.failed[point] for point in points)

    play(script)


def test_one_seed_gives_one_day() -> None:
    def day() -> list[bytes]:
        found: list[bytes] = []

        async def script(made: World) -> None:
            await made.run(made.fleet(MIXED))
            for number in range(5):
                await made.pod(f"pod-{number}", "node-001")
            await asyncio.sleep(400)
            metrics = (await made.client.list(NodeMetric)).items
            found.extend(repr(metric.status).encode() for metric in metrics)

        play(script)
        return found

    assert day() == day()


def test_a_patch_of_the_pods_status_by_others_is_not_undone() -> None:
    async def script(made: World) -> None:
        await made.run(made.fleet(MIXED))
        await made.pod("web", "node-001")
        await asyncio.sleep(5)
        condition = {"type": "team.example/ready", "status": "True"}
        patch = Patch.strategic({"status": {"conditions": [condition]}})
        await made.client.patch(Pod, "web", patch, "default", "status")
        await made.client.delete(Pod, "web", "default", grace_period_seconds=600)
        await asyncio.sleep(5)
        assert await made.get("web") is None

    play(script)
