# SPDX-License-Identifier: Apache-2.0
"""What is reserved on a node is taken off what it offers to pods, once and everywhere."""

from __future__ import annotations

import json

import pytest

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.plugins.elasticquota import ElasticQuota
from koord.controllers.scheduler.plugins.loadaware.plugin import LoadAwareScheduling
from tests.controllers.cluster.harness import RESERVATION, Cluster, play, pod

GI = 1 << 30
BATCH_CPU = "kubernetes.io/batch-cpu"
WHOLE = {"cpu": 8000, "memory": 16 * GI, "pods": 110, BATCH_CPU: 6000}

# The annotation of a node of 8 CPUs, 16 GiB and 6000 batch CPU; what of these pods may ask for.
NODES = [
    ('{"resources":{"cpu":"5"}}', {"cpu": 3000}),
    ('{"resources":{"cpu":"500m","memory":"4Gi"}}', {"cpu": 7500, "memory": 12 * GI}),
    ('{"resources":{"cpu":"5"},"applyPolicy":"Default"}', {"cpu": 3000}),
    ('{"reservedCPUs":"0-4"}', {"cpu": 3000}),
    ('{"reservedCPUs":"0-4","resources":{"cpu":"1","memory":"1Gi"}}',
     {"cpu": 3000, "memory": 15 * GI}),
    ('{"reservedCPUs":"0-4","applyPolicy":"ReservedCPUsOnly"}', {}),
    ('{"resources":{"cpu":"5"},"applyPolicy":"ReservedCPUsOnly"}', {}),
    ('{"resources":{"cpu":"5"},"applyPolicy":"Other"}', {}),
    ('{"resources":{"cpu":"9","pods":"10"}}', {"cpu": 0, "pods": 100}),
    ('{"resources":{"kubernetes.io/batch-cpu":"1000","example.com/x":"2"}}', {}),
    ('{"resources":{"cpu":"0"}}', {}),
    ('{"RESOURCES":{"CPU":"5"}}', {}),
    ('{"Resources":{"cpu":5}}', {"cpu": 3000}),
    ('{"reservedCPUs":"a-b"}', {}),
    ('{"resources":{"cpu":"five"}}', {}),
    ("{", {}),
    ("null", {}),
    ("", {}),
]  # fmt: skip


def test_what_a_node_offers() -> None:
    async def story(cluster: Cluster) -> None:
        for number, (text, _) in enumerate(NODES):
            await cluster.node(f"n{number}", {BATCH_CPU: "6000"}, reservation=text)
        for number, (text, less) in enumerate(NODES):
            expected = {name: amount for name, amount in (WHOLE | less).items() if amount}
            assert await cluster.offered(f"n{number}") == expected, text

    play(story)


@pytest.mark.parametrize("text", ['{"resources":{"cpu":"5"}}', '{"reservedCPUs":"0-4"}'])
def test_pods_get_what_is_left(text: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.node("n", {BATCH_CPU: "6000"}, reservation=text)
        await cluster.add(pod("six", {"cpu": "6"}), pod("more", {"cpu": "3001m"}))
        await cluster.add(pod("three", {"cpu": "3"}), pod("batch", {BATCH_CPU: "6000"}))
        assert await cluster.placed("three", "batch") == {"three": "n", "batch": "n"}
        assert await cluster.placed("six", "more", seconds=5) == {"six": "", "more": ""}

    play(story)


def test_a_change_of_the_annotation_arrives_everywhere() -> None:
    async def story(cluster: Cluster) -> None:
        world = cluster.app.world
        quotas = next(p for p in cluster.app.scheduler.plugins if isinstance(p, ElasticQuota))
        load = next(p for p in cluster.app.scheduler.plugins if isinstance(p, LoadAwareScheduling))

        async def cpu() -> list[int]:
            """As Filter, quotas and estimates of load see it, and as the view has it."""
            of_table = (await cluster.offered("n"))["cpu"]
            row, view = world.table.row("n"), world.view(Node).get("n")
            assert row is not None
            assert view is not None
            at = load.cache.names.index("cpu")
            return [
                of_table,
                quotas.groups.tree("").total["cpu"],
                int(load.cache.capacity[at, row]),
                view.status.allocatable["cpu"].milli(),
            ]

        await cluster.node("n", {}, reservation='{"resources":{"cpu":"5"}}')
        await cluster.add(pod("six", {"cpu": "6"}))
        assert await cpu() == [3000] * 4
        # Other changes of the node take nothing off anew.
        await cluster.note("n", {"example.com/seen": "1"})
        assert await cpu() == [3000] * 4
        await cluster.note("n", {RESERVATION: '{"resources":{"cpu":"4"}}'})
        assert await cpu() == [4000] * 4
        assert await cluster.placed("six", seconds=5) == {"six": ""}
        await cluster.note("n", {RESERVATION: None})
        assert await cpu() == [8000] * 4
        assert await cluster.placed("six", seconds=15) == {"six": "n"}
        await cluster.note("n", {RESERVATION: '{"reservedCPUs":"0,2-3"}'})
        assert await cpu() == [5000] * 4

    play(story)


def test_nobody_is_preempted_for_what_is_reserved() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.node("n", {}, reservation='{"resources":{"cpu":"5"}}')
        await cluster.add(pod("low", {"cpu": "3"}, priorityClassName="koord-batch"))
        assert await cluster.placed("low") == {"low": "n"}
        await cluster.add(pod("six", {"cpu": "6"}, priorityClassName="koord-prod"))
        assert await cluster.placed("six", seconds=5) == {"six": ""}
        low = await cluster.client.get(Pod, "low", "default")
        assert low.metadata.deletion_timestamp is None
        await cluster.add(pod("three", {"cpu": "3"}, priorityClassName="koord-prod"))
        assert await cluster.placed("three", seconds=5) == {"three": ""}
        low = await cluster.client.get(Pod, "low", "default")
        assert low.metadata.deletion_timestamp is not None

    play(story)


def test_reserved_cpus_are_kept_from_pods_once() -> None:
    text = '{"reservedCPUs":"0-3"}'
    detail = [{"id": n, "core": n // 2, "socket": 0, "node": 0} for n in range(8)]
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": "n",
            "annotations": {
                "node.koordinator.sh/cpu-topology": json.dumps({"detail": detail}),
                RESERVATION: text,
            },
        },
        "topologyPolicies": ["None"],
        "zones": [],
    }
    bound = {
        "labels": {"koordinator.sh/qosClass": "LSR"},
        "annotations": {
            "scheduling.koordinator.sh/resource-spec": '{"requiredCPUBindPolicy":"FullPCPUs"}'
        },
    }

    async def story(cluster: Cluster) -> None:
        await cluster.add(topology)
        await cluster.node("n", {}, reservation=text)
        await cluster.add(pod("four", {"cpu": "4"}, metadata=bound, priorityClassName="koord-prod"))
        assert await cluster.placed("four") == {"four": "n"}
        found = await cluster.client.get(Pod, "four", "default")
        status = json.loads(found.metadata.annotations["scheduling.koordinator.sh/resource-status"])
        assert status["cpuset"] == "4-7"
        await cluster.add(pod("one", {"cpu": "1"}))
        assert await cluster.placed("one", seconds=5) == {"one": ""}

    play(story)
