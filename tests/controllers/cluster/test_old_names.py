# SPDX-License-Identifier: Apache-2.0
"""Objects that use the old names of resources meet those that use the present ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from tests.controllers.cluster.harness import Cluster, play, pod

OLD, NEW = "koordinator.sh/batch-cpu", "kubernetes.io/batch-cpu"
OLD_CARD = {
    "kubernetes.io/gpu-core": "100",
    "kubernetes.io/gpu-memory": "16Gi",
    "kubernetes.io/gpu-memory-ratio": "100",
}
CARD = {
    "koordinator.sh/gpu-core": "100",
    "koordinator.sh/gpu-memory": "16Gi",
    "koordinator.sh/gpu-memory-ratio": "100",
}
OLD_NODE, NODE = {**OLD_CARD, "kubernetes.io/gpu": "100"}, {**CARD, "koordinator.sh/gpu": "100"}
ALLOCATED = "scheduling.koordinator.sh/device-allocated"

# What a node offers, what a pod asks for, and whether it is placed there.
BATCH = [
    ({OLD: "6000"}, {OLD: "6000"}, True),
    ({OLD: "6000"}, {NEW: "6000"}, True),
    ({NEW: "6000"}, {OLD: "6000"}, True),
    ({NEW: "6000"}, {NEW: "6000"}, True),
    ({OLD: "6000"}, {OLD: "6001"}, False),
    ({OLD: "6000"}, {NEW: "6001"}, False),
    # The present name is never overwritten; the old one then stays a resource of its own.
    ({OLD: "9000", NEW: "6000"}, {OLD: "6000"}, True),
    ({OLD: "9000", NEW: "6000"}, {OLD: "6001"}, False),
    ({OLD: "1000", NEW: "6000"}, {OLD: "1000", NEW: "6000"}, True),
    ({NEW: "7000"}, {OLD: "1000", NEW: "6000"}, False),
]


def test_batch_resources() -> None:
    async def story(cluster: Cluster) -> None:
        for number, (offers, _, _) in enumerate(BATCH):
            await cluster.node(f"n{number}", offers)
        for number, (_, asks, _) in enumerate(BATCH):
            on = {"kubernetes.io/hostname": f"n{number}"}
            await cluster.add(pod(f"p{number}", asks, nodeSelector=on))
        found = await cluster.placed(*(f"p{number}" for number in range(len(BATCH))), seconds=10)
        assert found == {
            f"p{number}": f"n{number}" if fits else "" for number, (_, _, fits) in enumerate(BATCH)
        }

    play(story)


def test_batch_resources_of_a_node_with_a_reservation() -> None:
    async def story(cluster: Cluster) -> None:
        held = '{"resources":{"cpu":"5","kubernetes.io/gpu-core":"40"}}'
        await cluster.node("n", {OLD: "6000", **OLD_CARD}, reservation=held)
        assert await cluster.offered("n") == {
            "cpu": 3000,
            "memory": 16 << 30,
            "pods": 110,
            "kubernetes.io/batch-cpu": 6000,
            "koordinator.sh/gpu-core": 60,
            "koordinator.sh/gpu-memory": 16 << 30,
            "koordinator.sh/gpu-memory-ratio": 100,
        }

    play(story)


@pytest.mark.parametrize("card", [OLD_CARD, CARD])
@pytest.mark.parametrize("offers", [OLD_NODE, NODE])
@pytest.mark.parametrize("name", ["kubernetes.io/gpu", "koordinator.sh/gpu"])
def test_cards(card: dict[str, str], offers: dict[str, str], name: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(_device("n", card))
        await cluster.node("n", offers)
        await cluster.add(pod("half", {name: "50"}))
        assert await cluster.placed("half") == {"half": "n"}
        found = await cluster.client.get(Pod, "half", "default")
        (given,) = json.loads(found.metadata.annotations[ALLOCATED])["gpu"]
        assert (given["minor"], given["resources"]) == (
            0,
            {
                "koordinator.sh/gpu-core": "50",
                "koordinator.sh/gpu-memory": "8Gi",
                "koordinator.sh/gpu-memory-ratio": "50",
            },
        )
        await cluster.add(pod("more", {name: "51"}), pod("rest", {name: "50"}))
        assert await cluster.placed("rest") == {"rest": "n"}
        assert await cluster.placed("more", seconds=5) == {"more": ""}

    play(story)


def test_cards_that_were_given_under_old_names() -> None:
    given = {"gpu": [{"minor": 0, "resources": OLD_CARD}]}
    meta = {"annotations": {ALLOCATED: json.dumps(given)}}

    async def story(cluster: Cluster) -> None:
        await cluster.add(_device("n", CARD, CARD))
        await cluster.node("n", dict.fromkeys(NODE, "200") | {"koordinator.sh/gpu-memory": "32Gi"})
        await cluster.add(pod("there", {"kubernetes.io/gpu": "100"}, metadata=meta, nodeName="n"))
        await cluster.add(pod("next", {"koordinator.sh/gpu": "100"}))
        assert await cluster.placed("next") == {"next": "n"}
        found = await cluster.client.get(Pod, "next", "default")
        (mine,) = json.loads(found.metadata.annotations[ALLOCATED])["gpu"]
        assert mine["minor"] == 1
        await cluster.add(pod("last", {"koordinator.sh/gpu": "1"}))
        assert await cluster.placed("last", seconds=5) == {"last": ""}

    play(story)


def test_a_reservation() -> None:
    template = pod("", {OLD: "4000"})
    made = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": {
            "template": {"spec": template["spec"]},
            "owners": [{"labelSelector": {"matchLabels": {"app": "r"}}}],
            "ttl": "1h",
        },
    }

    async def story(cluster: Cluster) -> None:
        await cluster.node("n", {NEW: "6000"})
        await cluster.add(made)
        await asyncio.sleep(5)
        found = (await cluster.client.get(Reservation, "r")).status
        assert found.phase == "Available"
        assert {name: str(n) for name, n in found.allocatable.items()} == {NEW: "4k"}
        await cluster.add(pod("other", {OLD: "3000"}))
        await cluster.add(pod("owner", {OLD: "4000"}, metadata={"labels": {"app": "r"}}))
        assert await cluster.placed("owner") == {"owner": "n"}
        owner = await cluster.client.get(Pod, "owner", "default")
        key = "scheduling.koordinator.sh/reservation-allocated"
        assert json.loads(owner.metadata.annotations[key])["name"] == "r"
        assert await cluster.placed("other", seconds=5) == {"other": ""}

    play(story)


def test_a_quota() -> None:
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"min": {OLD: "2000"}, "max": {OLD: "2000"}},
    }
    meta = {"labels": {"quota.scheduling.koordinator.sh/name": "q"}}

    async def story(cluster: Cluster) -> None:
        await cluster.node("n", {OLD: "9000"})
        await cluster.add(quota)
        await cluster.add(pod("one", {OLD: "1500"}, metadata=meta))
        assert await cluster.placed("one") == {"one": "n"}
        await cluster.add(pod("two", {NEW: "501"}, metadata=meta))
        await cluster.add(pod("three", {NEW: "500"}, metadata=meta))
        assert await cluster.placed("three") == {"three": "n"}
        assert await cluster.placed("two", seconds=5) == {"two": ""}

    play(story)


def _device(name: str, *cards: dict[str, str]) -> dict[str, Any]:
    devices = [
        {"type": "gpu", "minor": minor, "id": f"GPU-{minor}", "health": True, "resources": amounts}
        for minor, amounts in enumerate(cards)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": devices},
    }
