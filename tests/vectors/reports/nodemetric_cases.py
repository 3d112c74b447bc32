# SPDX-License-Identifier: Apache-2.0
"""Random samples of a node, its pods and its host's applications, and what was learned of them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.vectors.agent import documents

_GIB = 2**30
# Ends of the windows asked for, and the halves that aggregates need, to the millisecond.
_AGES = [0, 1, 999, 30_000, 59_999, 60_000, 60_001, 90_000, 149_999, 150_000, 150_001, 300_000,
         300_001, 600_000, 900_000, 1_800_000, 1_800_001]  # fmt: skip
_DURATIONS = ["1m", "5m0s", "10m0s", "30m", "90s", "2m30s", "0s", "1500ms"]
_POLICIES = ["usageWithoutPageCache", "usageWithPageCache", "usageWithHotPageCache", "other", ""]
_DAY = 86_400
_CLASSES = ["koord-prod", "koord-mid", "koord-batch", "koord-free", "other"]
_LEARNED = ["__node-sys__", "__node-koord-prod__", "__node-__"]

Series = dict[str, list[dict[str, Any]]]


def case(rng: Random) -> dict[str, Any]:
    """A node with up to four pods."""
    pods = [_pod(rng, f"p{at}") for at in range(rng.choice([0, 1, 2, 3, 4]))]
    uids = [pod["metadata"]["uid"] for pod in pods]
    hosts = _applications(rng)
    zones = rng.choice([[], [0], [0, 1], [0, 1, 2], [0, 2, 10]])
    cards = _cards(rng)
    return {
        "node": _node(rng), "pods": pods,
        "slo": None if rng.random() < 0.05 else {"hostApplications": hosts},
        "spec": _spec(rng), "coldPages": rng.random() < 0.5, "numa": zones, "gpus": cards,
        "series": _series(rng, uids, [each["name"] for each in hosts], zones, cards),
        "ages": {uid: rng.choice([60, _DAY - 600, _DAY + 600, 3 * _DAY]) for uid in uids},
        "learned": _learned(rng, uids), "version": 1,
    }  # fmt: skip


def _spec(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.1:
        return {}
    policy: dict[str, Any] = {}
    if rng.random() < 0.7:
        policy["nodeMemoryCollectPolicy"] = rng.choice(_POLICIES)
    if rng.random() < 0.6:
        policy["aggregateDurationSeconds"] = rng.choice([0, 1, 59, 60, 61, 90, 300, 1800])
    if rng.random() < 0.3:
        policy["reportIntervalSeconds"] = rng.choice([0, 10, 60])
    if rng.random() < 0.5:
        durations = rng.sample(_DURATIONS, rng.choice([0, 1, 2, 3]))
        policy["nodeAggregatePolicy"] = {"durations": durations} if durations else {}
    return {"metricCollectPolicy": policy}


def _node(rng: Random) -> dict[str, Any]:
    found = documents.node(rng, rng.choice(["8", "16", "1500m"]), rng.choice(["16Gi", "1Gi"]))
    if rng.random() < 0.4:
        raw = {"cpu": rng.choice(["4", "8", "3500m"]), "memory": rng.choice(["8Gi", "2Gi"])}
        if rng.random() < 0.2:
            del raw[rng.choice(["cpu", "memory"])]
        text = rng.choice([json.dumps(raw)] * 8 + ["{", "null", "{}"])
        found["metadata"]["annotations"]["node.koordinator.sh/raw-allocatable"] = text
        found["metadata"]["annotations"]["node.koordinator.sh/resource-amplification-ratio"] = (
            '{"cpu":2}'
        )
    return found


def _pod(rng: Random, name: str) -> dict[str, Any]:
    labels, spec = {}, {}
    if rng.random() < 0.3:
        labels["koordinator.sh/priority-class"] = rng.choice(_CLASSES)
    if rng.random() < 0.4:
        spec["priority"] = rng.choice([9999, 9500, 7000, 5500, 3000, 0, 4999, 10_000])
    containers = []
    for at in range(rng.choice([1, 1, 2])):
        amounts = {"cpu": rng.choice(["1", "2500m", "100m", "4"]),
                   "memory": rng.choice(["1Gi", "300Mi", "4Gi", "1"])}  # fmt: skip
        if rng.random() < 0.2:
            del amounts[rng.choice(["cpu", "memory"])]
        containers.append(documents.container(f"c{at}", requests=amounts))
    if rng.random() < 0.15:
        spec["initContainers"] = [documents.container("i0", requests={"cpu": "5"})]
    if rng.random() < 0.1:
        spec["overhead"] = {"cpu": "250m"}
    found = documents.pod(
        name, containers, qos=rng.choice(["LS", "LSR", "BE", "BE", "SYSTEM", "", "", "LSE"]),
        kube=rng.choice(["Burstable", "Guaranteed", "BestEffort"]), labels=labels,
        phase=rng.choice(["Running"] * 8 + ["Pending", "Succeeded", "Failed"]), **spec,
    )  # fmt: skip
    found["metadata"]["namespace"] = rng.choice(["default", "a", "kube-system"])
    if rng.random() < 0.1:
        found["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    return found


def _applications(rng: Random) -> list[dict[str, Any]]:
    found = []
    for name in rng.sample(["nginx", "agent", "b"], rng.choice([0, 1, 2, 3])):
        one: dict[str, Any] = {"name": name}
        if rng.random() < 0.7:
            one["qos"] = rng.choice(["LS", "BE", "LSR"])
        if rng.random() < 0.5:
            one["priority"] = rng.choice(["koord-prod", "koord-mid", "koord-batch"])
        found.append(one)
    return found


def _cards(rng: Random) -> list[dict[str, Any]] | None:
    if rng.random() < 0.6:
        return None
    total = rng.choice([16 * _GIB, 80 * _GIB, 7])
    return [
        {"minor": at, "uuid": f"GPU-{at}", "bytes": total} for at in range(rng.choice([0, 1, 2]))
    ]


def _series(rng: Random, uids: list[str], hosts: list[str], zones: list[int], cards: Any) -> Series:
    found: Series = {}
    often = rng.choice([0.6, 0.95, 0.95])

    def add(cpu: str, memory: list[str], *labels: str, chance: float = often) -> None:
        """CPU and each memory, at the same times or at others."""
        ages = _times(rng)
        for kind in (cpu, *memory):
            if rng.random() < chance:
                own = ages if rng.random() < 0.7 else _times(rng)
                row = {"labels": list(labels), "samples": [[at, _value(rng, kind)] for at in own]}
                found.setdefault(kind, []).append(row)

    def memories(of: str, plain: str = "memory_usage") -> list[str]:
        return [f"{of}_{plain}", f"{of}_memory_usage_with_page_cache",
                f"{of}_memory_with_hot_page_usage"]  # fmt: skip

    add("node_cpu_usage", memories("node"), chance=0.95)
    add("sys_cpu_usage", ["sys_memory_usage"], chance=0.9)
    for uid in uids:
        add("pod_cpu_usage", memories("pod"), uid)
    for name in hosts:
        add("host_application_cpu_usage", memories("host_application"), name)
    for zone in zones:
        for of in ("node", "sys"):
            add(f"{of}_numa_cpu_usage", [f"{of}_numa_memory_usage"], str(zone))
    for card in cards or []:
        labels = [str(card["minor"]), card["uuid"]]
        add("node_gpu_core_usage", ["node_gpu_memory_usage"], *labels)
        for uid in uids:
            add("pod_gpu_core_usage", ["pod_gpu_memory_usage"], uid, *labels, chance=0.5)
    return found


def _times(rng: Random) -> list[int]:
    """Ages in milliseconds, the oldest first; at times as a collector makes them."""
    count = rng.choice([1, 2, 3, 5, 10])
    if rng.random() < 0.5:
        step = rng.choice([1000, 20_000, 60_000, 190_000])
        return [step * at for at in reversed(range(count))]
    return sorted(rng.sample(_AGES, count), reverse=True)


def _value(rng: Random, kind: str) -> float:
    """Such as sum up exactly in any order."""
    if "cpu" in kind:
        return rng.choice([0, 1, 1024, rng.randint(0, 1024), 1]) / 64
    if "core" in kind:
        return rng.choice([0, 100, rng.randint(0, 6400) / 64])
    return rng.choice([0, 1, _GIB, rng.randint(0, 8 * _GIB), 512 * 2**20 + 1])


def _learned(rng: Random, uids: list[str]) -> dict[str, list[list[float]]]:
    found = {}
    names = [uid for uid in uids if rng.random() < 0.85]
    names += [] if rng.random() < 0.1 else _LEARNED
    names += ["__node-koord-mid__", "__node-koord-batch__", "__node-koord-free__"]
    for name in names:
        if rng.random() > 0.97:
            continue
        count = rng.choice([1, 2, 5, 20])
        step = rng.choice([60, 60, 3600, 20_000])
        found[name] = [
            [step * at, rng.randint(0, 400) / 64, rng.choice([0, rng.randint(0, 4 * _GIB)])]
            for at in reversed(range(count))
        ]
    return found
