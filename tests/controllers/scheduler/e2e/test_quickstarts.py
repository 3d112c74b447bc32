# SPDX-License-Identifier: Apache-2.0
"""The quick starts that users paste, word for word, on both servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.contract.conftest import Server
from tests.controllers.scheduler.e2e.cluster import Cluster, documents, run, running

Document = dict[str, Any]
RESERVATION_ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"


def phase(wanted: str) -> Any:
    return lambda found: found.get("status", {}).get("phase") == wanted


def bound(found: Document) -> bool:
    return bool(found["spec"].get("nodeName"))


def conditions(found: Document) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in found["status"]["conditions"]}


def test_the_reservation_quick_start(server: Server, reference_data: Path) -> None:
    folder = reference_data / "examples" / "releases"
    once, reusable = documents(folder / "reservation-demo.yaml")
    first, second = documents(folder / "reservation-pods.yaml")

    async def scenario() -> None:
        async with running(server.kubeconfig) as cluster:
            await cluster.add_node("node-0")
            await cluster.add_node("node-1")
            await _once(cluster, once, first)
            await _reusable(cluster, reusable, second)

    run(scenario)


async def _once(cluster: Cluster, reservation: Document, pod: Document) -> None:
    await cluster.apply(reservation)
    held = await cluster.until("Reservation", "reservation-demo", phase("Available"))
    node = held["status"]["nodeName"]
    assert held["status"]["allocatable"] == {"cpu": "500m", "memory": "800Mi"}
    assert conditions(held) == {"Scheduled": ("True", "Scheduled"), "Ready": ("True", "Available")}
    await cluster.apply(pod)
    landed = await cluster.until("Pod", "pod-demo-0", bound)
    assert landed["spec"]["nodeName"] == node
    mark = json.loads(landed["metadata"]["annotations"][RESERVATION_ALLOCATED])
    assert mark == {"name": "reservation-demo", "uid": held["metadata"]["uid"]}
    used = await cluster.until("Reservation", "reservation-demo", phase("Succeeded"))
    assert used["status"]["allocated"] == {"cpu": "200m", "memory": "400Mi"}
    owners = used["status"]["currentOwners"]
    assert [(o["namespace"], o["name"]) for o in owners] == [("default", "pod-demo-0")]
    await cluster.client.delete(_kind("Reservation"), "reservation-demo")
    assert bound(await cluster.get("Pod", "pod-demo-0"))


async def _reusable(cluster: Cluster, reservation: Document, pod: Document) -> None:
    name = "reservation-demo-reusable"
    await cluster.apply(reservation)
    held = await cluster.until("Reservation", name, phase("Available"))
    await cluster.apply(pod)
    landed = await cluster.until("Pod", "pod-demo-1", bound)
    assert landed["spec"]["nodeName"] == held["status"]["nodeName"]
    used = await cluster.until(
        "Reservation", name, lambda found: found["status"].get("allocated", {}).get("cpu") == "200m"
    )
    assert used["status"]["phase"] == "Available"
    assert used["status"]["allocated"] == {"cpu": "200m", "memory": "400Mi"}
    await cluster.client.delete(
        _kind("Pod"), "pod-demo-1", namespace="default", grace_period_seconds=0
    )
    free = await cluster.until(
        "Reservation", name, lambda found: not found["status"].get("currentOwners")
    )
    assert free["status"]["phase"] == "Available"
    assert free["status"].get("allocated", {}).get("cpu", "0") == "0"


def _kind(name: str) -> Any:
    from koord.api.kinds.registry import KINDS

    return next(kind for kind in KINDS if kind.name == name)


def topology(cores: int, nodes: int = 2) -> list[Document]:
    """Two threads a core; siblings are ``2 i`` and ``2 i + 1``."""
    half = cores // nodes
    return [
        {"id": cpu, "core": cpu // 2, "socket": cpu // 2 // half, "node": cpu // 2 // half}
        for cpu in range(2 * cores)
    ]


def resources(node: str, detail: list[Document]) -> Document:
    """What the agent reports of a machine."""
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": node,
            "annotations": {
                "node.koordinator.sh/cpu-topology": json.dumps({"detail": detail}),
                "kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"none"}',
            },
        },
        "topologyPolicies": ["None"],
        "zones": [],
    }


def cpus(found: Document) -> set[int]:
    text = json.loads(found["metadata"]["annotations"][RESOURCE_STATUS])["cpuset"]
    parts = [part.split("-") for part in text.split(",")]
    return {cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)}


def test_cpu_orchestration(server: Server, reference_data: Path) -> None:
    path = reference_data / "examples" / "releases" / "cpu-orchestration-pods.yaml"
    full, default, apart = documents(path)

    async def scenario() -> None:
        async with running(server.kubeconfig) as cluster:
            await cluster.apply(resources("node-0", topology(8)))
            await cluster.add_node("node-0")
            held = {}
            for pod in (full, default, apart):
                name = pod["metadata"]["name"]
                await cluster.apply(pod)
                held[name] = cpus(await cluster.until("Pod", name, bound))
        cores = {name: {cpu // 2 for cpu in found} for name, found in held.items()}
        assert len(held["lsr-full"]) == 4
        assert len(cores["lsr-full"]) == 2, "two whole cores"
        assert len(held["lsr-default"]) == 2
        assert len(cores["lsr-default"]) == 1, "the default policy is FullPCPUs"
        assert len(held["lse-apart"]) == 2
        assert len(cores["lse-apart"]) == 2, "spread over two cores"
        assert not held["lsr-full"] & held["lsr-default"]
        assert not held["lse-apart"] & (held["lsr-full"] | held["lsr-default"])

    run(scenario)
