# SPDX-License-Identifier: Apache-2.0
"""Memory QoS: protection, throttling, reclaim and page cache of classes, pods and containers."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from koord.agent.strategies.memoryqos.strategy import MemoryQoS
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.base.errors import KoordError
from tests.agent.strategies.fakes import FakeEvictor
from tests.vectors.agent import documents
from tests.vectors.agent.scene import Scene
from tests.vectors.area import Difference

SEED = 20264
_COUNT = 400
_UNWRITTEN = "7"
_OF_CLASSES = ("memory.min", "memory.low", "memory.priority", "memory.use_priority_oom",
               "memory.oom.group")  # fmt: skip
_OF_PODS = (*_OF_CLASSES, "memory.wmark_ratio", "memory.wmark_scale_factor",
            "memory.wmark_min_adj", "memory.pagecache_limit.enable",
            "memory.pagecache_limit.size", "memory.pagecache_limit.sync")  # fmt: skip
_OF_CONTAINERS = (*_OF_PODS[:8], "memory.high")
_BATCH = "kubernetes.io/batch-memory"
_AMOUNTS = ["1Gi", "1Gi", "512Mi", "4Gi", "100M", "1", "0", "3k", "64Gi", "1Ti", ""]


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Nodes with up to five pods."""
    return [_case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """Files after one round."""
    with tempfile.TemporaryDirectory() as root:
        scene = Scene(case, Path(root))
        with suppress(KoordError):
            MemoryQoS(StrategyOptions()).run(
                scene.tick([]), Actuators(scene.executor, FakeEvictor())
            )
        scene.executor.settle()
        return {path: text for path, text in scene.files().items() if text != _UNWRITTEN}


def _case(rng: Random) -> dict[str, Any]:
    strategy = _strategy(rng)
    pods = [_pod(rng, f"p{at}") for at in range(rng.choice([0, 1, 2, 3, 5]))]
    return {
        "node": documents.node(rng, "8", rng.choice(["64Gi", "64Gi", "1Gi", "0", "1000001"])),
        "slo": {} if rng.random() < 0.02 else {"resourceQOSStrategy": strategy},
        "pods": pods,
        "files": _files(pods),
        "version": 2,
    }


def _strategy(rng: Random) -> dict[str, Any]:
    found = {}
    for name in ("lsrClass", "lsClass", "beClass", "systemClass"):
        found[name] = {"memoryQOS": _memory(rng)} if rng.random() < 0.9 else {}
    return found


def _memory(rng: Random) -> dict[str, Any]:
    choices: dict[str, list[Any]] = {
        "minLimitPercent": [0, 1, 50, 100, 100, 33],
        "lowLimitPercent": [0, 20, 50, 100, 33],
        "throttlingPercent": [0, 80, 80, 1, 100, 50],
        "wmarkRatio": [0, 95, 100],
        "wmarkScalePermill": [1, 20, 50, 1000],
        "wmarkMinAdj": [-25, 0, 50],
        "priorityEnable": [0, 1],
        "priority": [0, 12],
        "oomKillGroup": [0, 1],
        "pageCacheLimitPercent": [0, 10, 50, 100],
        "pageCacheLimitSize": [0, 1, 1 << 20, 1 << 30, 1 << 40],
        "pageCacheReclaimSync": [True, False],
        "pageCacheEnable": [True, False],
    }
    rare = 0.25 if rng.random() < 0.6 else 0.0
    chance = {key: rare if key.startswith("pageCache") else 0.7 for key in choices}
    found = {key: rng.choice(choices[key]) for key in choices if rng.random() < chance[key]}
    if rng.random() < 0.7:
        found["enable"] = rng.choice([True, True, False])
    return found


def _pod(rng: Random, name: str) -> dict[str, Any]:
    qos = rng.choice(["LS", "LS", "BE", "BE", "LSR", "LSE", "", "", "SYSTEM"])
    kube = "BestEffort" if qos == "BE" else rng.choice(["Burstable", "Guaranteed", "BestEffort"])
    resource = _BATCH if qos == "BE" and rng.random() < 0.9 else "memory"
    containers = [_container(rng, f"c{at}", resource) for at in range(rng.choice([1, 1, 2, 3]))]
    spec: dict[str, Any] = {}
    if rng.random() < 0.25:
        spec["initContainers"] = [_container(rng, "init", resource)]
        if rng.random() < 0.4:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if rng.random() < 0.1:
        spec["overhead"] = {"memory": "64Mi"}
    return documents.pod(
        name, containers, qos=qos, kube=kube, annotations=_own(rng),
        phase=rng.choice(["Running"] * 9 + ["Pending", "Succeeded", "Failed", "Unknown"]),
        states=[rng.choice(["running"] * 8 + ["terminated", ""]) for _ in containers], **spec,
    )  # fmt: skip


def _container(rng: Random, name: str, resource: str) -> dict[str, Any]:
    request, limit = rng.choice(_AMOUNTS), rng.choice(_AMOUNTS)
    if rng.random() < 0.08:
        request = "1500m"
    return documents.container(
        name,
        requests={resource: request} if request else {},
        limits={resource: limit} if limit else {},
    )


def _own(rng: Random) -> dict[str, str]:
    if rng.random() > 0.4:
        return {}
    own = _memory(rng) if rng.random() < 0.6 else {}
    own.pop("enable", None)
    if rng.random() < 0.8:
        own["policy"] = rng.choice(["auto", "auto", "default", "none", ""])
    return {"koordinator.sh/memoryQOS": rng.choice([json.dumps(own)] * 6 + ["{", "null"])}


def _files(pods: list[dict[str, Any]]) -> dict[str, str]:
    classes = [documents.ROOT, documents.BEST_EFFORT, f"{documents.ROOT}/kubepods-burstable.slice"]
    found = {f"{at}/{file}": _UNWRITTEN for at in classes for file in _OF_CLASSES}
    for pod in pods:
        at = documents.directory(pod)
        found |= {f"{at}/{file}": _UNWRITTEN for file in _OF_PODS}
        for status in pod["status"]["containerStatuses"]:
            if "containerID" in status:
                at = documents.directory(pod, status["name"])
                found |= {f"{at}/{file}": _UNWRITTEN for file in _OF_CONTAINERS}
    return found


def _differing(theirs: Any, ours: Any) -> set[str]:
    return {path for path in {**theirs, **ours} if theirs.get(path) != ours.get(path)}


def _fractions(case: Any, theirs: Any, ours: Any) -> bool:
    found = _differing(theirs, ours)
    files = ("memory.min", "memory.low")
    return '"1500m"' in json.dumps(case["pods"]) and all(p.endswith(files) for p in found)


DIFFERENCES = {
    "strategies-memory-rounding": Difference(
        "a container's fraction of a byte is rounded up before the sum",
        _fractions,
    ),
}  # fmt: skip

COVERAGE = {
    "cgroup_reconcile.go:calculateAndUpdateResources":
        "what is left is a missing informer and a Node without allocatable",
    "cgroup_reconcile.go:calculateQoSResources":
        "what is left is a class without settings, on which the original fails before",
}  # fmt: skip
