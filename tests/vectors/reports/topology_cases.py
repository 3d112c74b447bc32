# SPDX-License-Identifier: Apache-2.0
"""Random machines, and what a node, its pods and its kubelet say of CPUs, round after round."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.vectors.agent import documents

CPUs = list[list[int]]
SYSTEM = "node.koordinator.sh/system-qos-resource"
DIVIDED = "node.koordinator.sh/enable-numa-reservation"
_POOLS = "node.koordinator.sh/cpu-shared-pools"
_ODD = ["1,x", "3-1", "x", " 0 "]
_MIB = 1024


def case(rng: Random) -> dict[str, Any]:
    """A machine with one to three rounds."""
    cpus = documents.machine(rng, rng.choice([4, 8, 32]))
    ids = sorted({each[3] for each in cpus})
    if rng.random() < 0.1:
        gap = rng.randint(1, 9)
        cpus = [[*each[:3], each[3] + gap * (each[3] == ids[-1])] for each in cpus]
    asked = rng.random() < 0.85
    rounds = [_round(rng, cpus, asked)]
    for _ in range(rng.choice([0, 1, 1, 2, 2])):
        if is_malformed(rounds[-1]["node"]):
            break
        rounds.append(_later(rng, rounds[-1], cpus, asked))
    return {
        "cpus": cpus,
        "basic": _basic(rng),
        "memory": _memory(rng, sorted({each[3] for each in cpus})),
        "hugePages": rng.random() < 0.5,
        "rounds": rounds,
    }


def _basic(rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cpuModel": rng.choice(["XYZ 8000 @ 2.50GHz", ""]), "hyperThreadEnabled": True,
        "turboEnabled": rng.random() < 0.5, "catL3CbmMask": rng.choice(["7ff", ""]),
        "vendorID": rng.choice(["GenuineIntel", "AuthenticAMD", ""]),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value or rng.random() < 0.5}


def _memory(rng: Random, ids: list[int]) -> list[dict[str, Any]]:
    """By NUMA node; at times one without CPUs, or none for one that has some."""
    told = list(ids)
    if rng.random() < 0.08:
        told.append(max(ids) + rng.randint(1, 3))
    if rng.random() < 0.03:
        told.remove(rng.choice(told))
    return [_zone_memory(rng, each) for each in told]


def _zone_memory(rng: Random, number: int) -> dict[str, Any]:
    pages = {}
    if rng.random() < 0.5:
        pages["2048"] = rng.choice([0, 1, 7, 512])
    if rng.random() < 0.3:
        pages["1048576"] = rng.choice([0, 1, 3])
    kib = rng.choice([8 * _MIB * _MIB, 65_789_012, 4 * _MIB * _MIB + 1])
    return {"id": number, "kib": kib, "pages": pages}


def is_malformed(node: dict[str, Any]) -> bool:
    """Whether a node's system-qos-resource is no JSON."""
    return node["metadata"]["annotations"].get(SYSTEM) in ("{", "")


def _round(rng: Random, cpus: CPUs, asked: bool) -> dict[str, Any]:
    pods = [_pod(rng, f"p{at}", cpus) for at in range(rng.choice([0, 1, 2, 3, 5]))]
    return {
        "node": _node(rng, cpus),
        "pods": pods,
        "kubelet": _kubelet(rng, cpus) if asked else None,
        "state": _state(rng, cpus, pods),
        "others": _others(rng),
    }


def _later(rng: Random, before: dict[str, Any], cpus: CPUs, asked: bool) -> dict[str, Any]:
    """A round after another: everything is new, or a part, or nothing but what others do."""
    anew = _round(rng, cpus, asked)
    if rng.random() < 0.3:
        return anew
    same = [each for each in ("node", "pods", "kubelet", "state") if rng.random() < 0.85]
    quiet = {"annotations": {}, "zones": [], "indented": rng.random() < 0.3, "dropped": []}
    others = anew["others"] if rng.random() < 0.6 else quiet
    return anew | {name: before[name] for name in same} | {"others": others}


def _node(rng: Random, cpus: CPUs) -> dict[str, Any]:
    annotations, labels = {}, {}
    if rng.random() < 0.55:
        annotations[documents.RESERVATION] = _reservation(rng, cpus)
    if rng.random() < 0.4:
        annotations[SYSTEM] = _system(rng, cpus)
    if rng.random() < 0.5:
        labels[DIVIDED] = rng.choice(["true", "true", "true", "false", ""])
    capacity = {"cpu": str(len(cpus)), "memory": rng.choice(["16Gi", "64Gi", "131578024Ki"])}
    allocatable = dict(capacity)
    if rng.random() < 0.8:
        less = rng.choice([1, 100, 333, 1000, 1000 * len(cpus)])
        allocatable["cpu"] = f"{1000 * len(cpus) - less}m"
        allocatable["memory"] = rng.choice(["15Gi", "16Gi", "15999Mi", "1", "200Gi"])
    for name in ("cpu", "memory"):
        if rng.random() < 0.05:
            del rng.choice([capacity, allocatable])[name]
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-0", "uid": "n0", "annotations": annotations, "labels": labels},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }  # fmt: skip


def _reservation(rng: Random, cpus: CPUs) -> str:
    found: dict[str, Any] = {}
    if rng.random() < 0.6:
        count = rng.choice([1, 2, 3, 4, 6, len(cpus) // 2, len(cpus) - 1, len(cpus) + 1])
        cpu = rng.choice([str(count), str(count), f"{1000 * count - 500}m", "0", "1m"])
        found["resources"] = {"cpu": cpu}
        if rng.random() < 0.3:
            found["resources"]["memory"] = "1Gi"
    if rng.random() < 0.4:
        found["reservedCPUs"] = rng.choice([documents.cpu_list(rng, cpus, 6)] * 5 + [*_ODD, ""])
    if rng.random() < 0.3:
        found["applyPolicy"] = rng.choice(["Default", "ReservedCPUsOnly", "other"])
    return rng.choice([json.dumps(found)] * 12 + ["{", "[]", "null", ""])


def _system(rng: Random, cpus: CPUs) -> str:
    found: dict[str, Any] = {
        "cpuset": rng.choice([documents.cpu_list(rng, cpus, 5)] * 6 + [*_ODD, ""])
    }
    if rng.random() < 0.5:
        found["cpusetExclusive"] = rng.random() < 0.5
    return rng.choice([json.dumps(found)] * 14 + ["{", "{}", "null"])


def _pod(rng: Random, name: str, cpus: CPUs) -> dict[str, Any]:
    qos = rng.choice(["LS", "LSR", "LSR", "LSE", "LSE", "BE", "SYSTEM", ""])
    kube = rng.choice(["Burstable", "Guaranteed", "BestEffort"])
    phase = rng.choice(["Running"] * 8 + ["Pending", "Succeeded", "Failed"])
    annotations = {}
    if rng.random() < 0.6:
        bound = {"cpuset": rng.choice([documents.cpu_list(rng, cpus)] * 8 + [*_ODD, ""])}
        text = json.dumps(bound)
        annotations[documents.STATUS] = rng.choice([text] * 15 + ["{", "{}", "[]"])
    one = documents.container("c0")
    return documents.pod(name, [one], qos=qos, kube=kube, annotations=annotations, phase=phase)


def _kubelet(rng: Random, cpus: CPUs) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cpuManagerPolicy": rng.choice(["static", "static", "static", "none", ""]),
        "topologyManagerPolicy": rng.choice(
            ["none", "best-effort", "restricted", "single-numa-node", "", "other"]
        ),
        "topologyManagerScope": rng.choice(["container", "pod", "container", "pod", "", "other"]),
    }
    if rng.random() < 0.3:
        found["cpuManagerPolicyOptions"] = {"full-pcpus-only": "true"}
    if rng.random() < 0.3:
        found["reservedSystemCPUs"] = rng.choice([documents.cpu_list(rng, cpus)] * 6 + _ODD)
    for name in ("kubeReserved", "systemReserved"):
        if rng.random() < 0.7:
            found[name] = _amounts(rng, len(cpus))
    return found


def _amounts(rng: Random, count: int) -> dict[str, str]:
    """What a kubelet is told to hold back; at times of what it does not know, or makes no sense."""
    whole = str(rng.choice([1, 2, 3, 4, count // 2, count]))
    found = {"cpu": rng.choice([whole, whole, "500m", "1500m", "100m", "0", "1m"])}
    if rng.random() < 0.3:
        found["memory"] = rng.choice(["1Gi", "1Gi", "1Gi", "-1", "x"])
    if rng.random() < 0.15:
        found[rng.choice(["ephemeral-storage", "pid", "storage"])] = "1000"
    if rng.random() < 0.06:
        found["cpu"] = rng.choice(["-1", "x", ""])
    return found if rng.random() < 0.9 else {}


def _state(rng: Random, cpus: CPUs, pods: list[dict[str, Any]]) -> str | None:
    """The kubelet's ``cpu_manager_state``."""
    if rng.random() < 0.15:
        return rng.choice([None, None, "", "{", "[]"])
    found: dict[str, Any] = {"policyName": "static", "defaultCpuSet": "0", "checksum": 14413152}
    if rng.random() < 0.8:
        owners = [pod["metadata"]["uid"] for pod in pods] + ["uid-of-none", "uid-gone"]
        chosen = [each for each in owners if rng.random() < 0.5]
        found["entries"] = {owner: _containers(rng, cpus) for owner in chosen}
    return json.dumps(found)


def _containers(rng: Random, cpus: CPUs) -> dict[str, str]:
    return {
        f"c{at}": rng.choice([documents.cpu_list(rng, cpus, 3)] * 7 + ["", "x"])
        for at in range(rng.choice([0, 1, 1, 2]))
    }


def _others(rng: Random) -> dict[str, Any]:
    """What others do to the object before a round."""
    annotations = {"example.com/note": '"mine"'} if rng.random() < 0.2 else {}
    if rng.random() < 0.15:
        key = rng.choice([_POOLS, documents.RESERVATION, SYSTEM])
        annotations[key] = rng.choice(["[]", "[]" if key == SYSTEM else "x"])
    names = ["kubernetes.io/batch-cpu", "gpu", "koordinator.sh/gpu"]
    zones = []
    if rng.random() < 0.3:
        zone = rng.choice(["node-0", "node-0", "node-1", "node-7"])
        zones.append([zone, rng.choice(names), rng.choice(["1", "2500m", "7"])])
    dropped = [rng.choice([_POOLS, "node.koordinator.sh/cpu-topology"])]
    return {
        "annotations": annotations, "zones": zones, "indented": rng.random() < 0.3,
        "dropped": dropped if rng.random() < 0.1 else [],
    }  # fmt: skip
