# SPDX-License-Identifier: Apache-2.0
"""Random pods and nodes as an agent gets them, skewed to what is rare."""

from __future__ import annotations

import json
from random import Random
from typing import Any

QOS = "koordinator.sh/qosClass"
STATUS = "scheduling.koordinator.sh/resource-status"
RESERVATION = "node.koordinator.sh/reservation"
KUBE = {"BestEffort": "besteffort", "Burstable": "burstable", "Guaranteed": ""}
ROOT = "kubepods.slice"
BEST_EFFORT = f"{ROOT}/kubepods-besteffort.slice"


def container(name: str, **resources: dict[str, str]) -> dict[str, Any]:
    """A container with requests and limits by keyword."""
    return {"name": name, "resources": {k: v for k, v in resources.items() if v}}


def pod(
    name: str,
    containers: list[dict[str, Any]],
    *,
    qos: str = "",
    kube: str = "Burstable",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    phase: str = "Running",
    states: list[str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod whose containers run, or are in ``states``; a state of "" has no id yet."""
    own = {**(labels or {}), **({QOS: qos} if qos else {})}
    states = states or ["running"] * len(containers)
    statuses = [
        {"name": each["name"], "state": {state: {}} if state else {}}
        | ({"containerID": f"containerd://{name}-{each['name']}"} if state else {})
        for each, state in zip(containers, states, strict=True)
    ]
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": own,
                     "annotations": annotations or {}},
        "spec": {"containers": containers, **spec},
        "status": {"phase": phase, "qosClass": kube, "containerStatuses": statuses},
    }  # fmt: skip


def directory(document: dict[str, Any], container_name: str = "") -> str:
    """The cgroup directory of a pod or of one of its containers, under systemd."""
    kube = KUBE[document["status"]["qosClass"]]
    uid = document["metadata"]["uid"].replace("-", "_")
    name = f"kubepods-{kube}" if kube else "kubepods"
    above = f"{ROOT}/{name}.slice/" if kube else f"{ROOT}/"
    found = f"{above}{name}-pod{uid}.slice"
    if container_name:
        found += f"/cri-containerd-{document['metadata']['name']}-{container_name}.scope"
    return found


def node(
    rng: Random, cores: str, memory: str = "64Gi", allocatable: dict[str, str] | None = None
) -> dict[str, Any]:
    """A node, which may hold CPUs back by annotation."""
    annotations = {}
    if rng.random() < 0.3:
        annotations[RESERVATION] = rng.choice([
            json.dumps({"resources": {"cpu": rng.choice(["500m", "1", "2500m", "0"])}}),
            json.dumps({"resources": {"cpu": "1"}, "reservedCPUs": "0-1"}),
            json.dumps({"reservedCPUs": rng.choice(["0", "0-2", "1,3"])}),
            json.dumps({"reservedCPUs": "0-2", "applyPolicy": "ReservedCPUsOnly"}),
            "{",
        ])  # fmt: skip
    capacity = {"cpu": cores, "memory": memory}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-0", "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable or capacity},
    }  # fmt: skip


def machine(rng: Random, most: int = 32) -> list[list[int]]:
    """CPUs with their core, socket and NUMA node; sometimes some are offline."""
    sockets = rng.choice([1, 1, 2, 2, 4])
    threads = rng.choice([1, 2, 2, 2])
    cores = rng.randint(1, max(1, most // (sockets * threads)))
    nodes_a_socket = rng.choice([1, 1, 2]) if cores > 1 else 1
    total = sockets * cores
    neighbours = rng.random() < 0.5
    found = []
    for core in range(total):
        socket = core // cores
        numa = socket * nodes_a_socket + (core % cores) * nodes_a_socket // cores
        for thread in range(threads):
            cpu = core * threads + thread if neighbours else core + thread * total
            found.append([cpu, core, socket, numa])
    if rng.random() < 0.2 and len(found) > 2:
        for _ in range(rng.randint(1, len(found) // 2)):
            found.remove(rng.choice(found))
    return sorted(found)


def cpu_list(rng: Random, cpus: list[list[int]], most: int = 4) -> str:
    """Some of a machine's CPUs."""
    ids = [each[0] for each in cpus]
    chosen = rng.sample(ids, min(len(ids), rng.randint(1, most)))
    return ",".join(map(str, sorted(chosen)))
