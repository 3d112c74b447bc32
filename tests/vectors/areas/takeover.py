# SPDX-License-Identifier: Apache-2.0
"""Taking over: koord on files that the original left, and what is there once koord has gone too.

The cases' files are what kubelet, runtime and kernel make of a pod. The original's answer is what
it leaves of them after some rounds; koord starts on that, and after it the files of the case are
right again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.agent.takeover import POOLS, Node
from tests.vectors.agent import documents
from tests.vectors.area import Difference

SEED = 20266
_COUNT = 300
_CPUS = 8
# A journal that waits for a disk takes most of a case's time.
_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
_NONE = {1: "9223372036854771712", 2: "max"}
_MOST = {"9223372036854775807", "-1"}
_GI, _MI = 2**30, 2**20
_BATCH_CPU, _BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
_KERNEL = {
    "cpu.bvt_warp_ns": "0", "memory.min": "0", "memory.low": "0", "memory.wmark_ratio": "0",
    "memory.wmark_scale_factor": "50", "memory.wmark_min_adj": "0", "memory.priority": "0",
    "memory.use_priority_oom": "0", "memory.high": "max", "cpu.cfs_burst_us": "0",
}  # fmt: skip
_CLASSES = ("", "kubepods-burstable.slice", "kubepods-besteffort.slice")
_V2 = {"cpu.cfs_burst_us": "cpu.max.burst", "memory.limit_in_bytes": "memory.max"}


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Nodes with one pod, as many of each cgroup version."""
    return [_case(rng, 1 + at % 2) for at in range(_COUNT)]


def pair(case: dict[str, Any], theirs: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The case with what the original left, and what the files have to say in the end."""
    left = {path: _as_kernel(path, text, case["version"]) for path, text in theirs.items()}
    return {**case, "left": left}, case["files"]


def answer(case: dict[str, Any]) -> object:
    """Files after koord has taken over, done its work for some rounds, and stopped."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as root:
        document = {"version": f"v{case['version']}", "pods": case["pods"], "found": case["left"]}
        node = Node(Path(root), document)
        node.slo, node.throttled = case["slo"], case["throttled"]
        node.rounds(2)
        if case["off"]:
            node.slo = _off(case["slo"])
            node.rounds(2)
        node.stop()
        return {path: node.says(path) for path in case["files"]}


def _off(slo: dict[str, Any]) -> dict[str, Any]:
    """The same with everything switched off."""
    found: dict[str, Any] = json.loads(json.dumps(slo))
    found["cpuBurstStrategy"]["policy"] = "none"
    found["resourceUsedThresholdWithBE"]["enable"] = False
    for each in found["resourceQOSStrategy"].values():
        for settings in each.values():
            settings["enable"] = False
    return found


def _as_kernel(path: str, text: str, version: int) -> str:
    """What a kernel says where a plain file says what was written."""
    name = path.rpartition("/")[2]
    is_limit = name in ("memory.high", "memory.max", "memory.limit_in_bytes")
    return _NONE[version] if is_limit and text in _MOST else text


# -- cases -----------------------------------------------------------------------------------------


def _case(rng: Random, version: int) -> dict[str, Any]:
    pod = _pod(rng)
    amounts = {"cpu": str(_CPUS), "memory": "16Gi"}
    return {
        "cpus": [[cpu, cpu // 2, cpu // 4, cpu // 4] for cpu in range(_CPUS)],
        "node": {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"},
            "status": {"capacity": amounts, "allocatable": amounts},
        },
        "slo": _slo(rng),
        "topology": {"node.koordinator.sh/cpu-shared-pools": POOLS,
                     "node.koordinator.sh/be-cpu-shared-pools": POOLS},
        "pods": [pod],
        "rounds": [_samples(rng, pod) for _ in range(rng.choice([1, 2, 3, 5]))],
        "throttled": rng.choice([0.0, 0.5]),
        "off": rng.random() < 0.5,
        "files": _files(pod, version),
        "version": version,
    }  # fmt: skip


def _slo(rng: Random) -> dict[str, Any]:
    policy = rng.choice(["auto", "auto", "auto", "cfsQuotaBurstOnly", "cpuBurstOnly", "none"])
    return {
        "resourceUsedThresholdWithBE": {
            "enable": rng.random() < 0.7, "cpuSuppressThresholdPercent": rng.choice([30, 65]),
            "cpuSuppressPolicy": rng.choice(["cpuset", "cfsQuota"]),
        },
        "cpuBurstStrategy": {
            "policy": policy, "cpuBurstPercent": rng.choice([100, 1000]),
            "cfsQuotaBurstPercent": rng.choice([120, 300]),
            "cfsQuotaBurstPeriodSeconds": -1, "sharePoolThresholdPercent": 50,
        },
        "resourceQOSStrategy": {
            name: {"cpuQOS": {"enable": rng.random() < 0.9, "groupIdentity": identity},
                   "memoryQOS": _memory(rng)}
            for name, identity in (("lsrClass", 2), ("lsClass", 2), ("beClass", -1))
        },
    }  # fmt: skip


def _memory(rng: Random) -> dict[str, Any]:
    return {
        "enable": rng.random() < 0.9,
        "minLimitPercent": rng.choice([0, 50, 100]), "lowLimitPercent": rng.choice([0, 50, 100]),
        "throttlingPercent": rng.choice([0, 80]), "wmarkRatio": rng.choice([0, 95]),
        "wmarkScalePermill": 20, "wmarkMinAdj": rng.choice([-25, 0, 50]),
        "priorityEnable": rng.choice([0, 1]), "priority": rng.choice([0, 12]),
    }  # fmt: skip


def _pod(rng: Random) -> dict[str, Any]:
    kind = rng.choice(["LS", "LS", "LS", "LS", "", "BE", "BE", "LSR"])
    count = rng.choice([1, 1, 2, 3])
    containers = [_container(rng, f"c{at}", kind) for at in range(count)]
    kube = {"BE": "BestEffort", "LSR": "Guaranteed"}.get(kind, "Burstable")
    annotations = {}
    if kind == "LSR":
        cpus = sum(int(each["resources"]["limits"]["cpu"]) for each in containers)
        annotations[documents.STATUS] = json.dumps({"cpuset": f"1-{cpus}"})
    return documents.pod("p0", containers, qos=kind, kube=kube, annotations=annotations)


def _container(rng: Random, name: str, kind: str) -> dict[str, Any]:
    if kind == "BE":
        amounts = {_BATCH_CPU: rng.choice(["500", "1000", "2500"]),
                   _BATCH_MEMORY: str(rng.choice([64, 1024]) * _MI)}  # fmt: skip
        return documents.container(name, requests=amounts, limits=amounts)
    memory = str(rng.choice([64, 512, 1024]) * _MI)
    if kind == "LSR":
        amounts = {"cpu": rng.choice(["1", "2"]), "memory": memory}
        return documents.container(name, requests=amounts, limits=amounts)
    requests = {"cpu": rng.choice(["100m", "500m", "1"]), "memory": memory}
    limits = {"cpu": rng.choice(["1", "2", "2500m"]), "memory": str(2 * _GI)}
    if rng.random() < 0.15:
        del limits[rng.choice(["cpu", "memory"])]
    return documents.container(name, requests=requests, limits=limits)


def _samples(rng: Random, pod: dict[str, Any]) -> list[dict[str, Any]]:
    def sample(kind: str, label: str, value: float) -> dict[str, Any]:
        return {"kind": kind, "label": label, "age_ms": 100, "value": value}

    found = [
        sample("node_cpu", "", rng.choice([1.0, 1.0, 3.0, 7.5])),
        sample("pod_cpu", pod["metadata"]["uid"], rng.choice([0.25, 1.0])),
    ]
    for status in pod["status"]["containerStatuses"]:
        throttled = rng.choice([0.0, 0.5, 0.5, 1.0])
        found.append(sample("container_throttled", status["containerID"], throttled))
        found.append(sample("container_cpu", status["containerID"], 0.5))
    return found


# -- what kubelet, runtime and kernel make of a pod ------------------------------------------------


def _files(pod: dict[str, Any], version: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _CLASSES:
        at = f"{documents.ROOT}/{name}".rstrip("/")
        found |= _written(at, {**_KERNEL, "cpuset.cpus": f"0-{_CPUS - 1}"}, version)
    found |= _written(documents.BEST_EFFORT, {"cpu.cfs_quota_us": "-1"}, version)
    containers = pod["spec"]["containers"]
    directory = documents.directory(pod)
    found |= _written(directory, _values(containers, version), version)
    for each in containers:
        own = documents.directory(pod, each["name"])
        found |= _written(own, _values([each], version), version)
    return found


def _values(containers: list[dict[str, Any]], version: int) -> dict[str, str]:
    limits = [each["resources"]["limits"] for each in containers]
    requests = [each["resources"]["requests"] for each in containers]
    quota, memory = "-1", _NONE[version]
    if all("cpu" in each for each in limits):
        quota = str(100 * sum(_milli(each["cpu"]) for each in limits))
    if all("memory" in each for each in limits):
        memory = str(sum(int(each["memory"]) for each in limits))
    milli = sum(_milli(each.get("cpu", "0")) for each in requests)
    return {
        **_KERNEL, "cpu.cfs_quota_us": quota,
        "cpu.shares": str(max(milli * 1024 // 1000, 2)), "memory.limit_in_bytes": memory,
        "cpuset.cpus": f"0-{_CPUS - 1}",
    }  # fmt: skip


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def _written(directory: str, values: dict[str, str], version: int) -> dict[str, str]:
    """The files of a directory; a quota comes with its period, which nobody changes."""
    found = {}
    for name, text in values.items():
        if version == 1:
            found[f"{name.partition('.')[0]}/{directory}/{name}"] = text
            if name == "cpu.cfs_quota_us":
                found[f"cpu/{directory}/cpu.cfs_period_us"] = "100000"
        elif name == "cpu.cfs_quota_us":
            found[f"{directory}/cpu.max"] = f"{'max' if text == '-1' else text} 100000"
        elif name == "cpu.shares":
            found[f"{directory}/cpu.weight"] = str(1 + (int(text) - 2) * 9999 // 262142)
        elif name == "cpuset.cpus":
            found |= {f"{directory}/{name}": "", f"{directory}/{name}.effective": text}
        else:
            found[f"{directory}/{_V2.get(name, name)}"] = text
    return found


DIFFERENCES: dict[str, Difference] = {}

_FAILURES = "what is left are failures, and settings and samples that are missing"
_OTHERS = "what is left are values of hooks that are not driven, and failures"
COVERAGE = {
    "cgroup_reconcile.go:calculateAndUpdateResources": _FAILURES,
    "cgroup_reconcile.go:reconcile": _FAILURES,
    "cpu_burst.go:applyCPUBurst": _FAILURES,
    "cpu_burst.go:start": _FAILURES,
    "cpu_suppress.go:adjustByCfsQuota": _FAILURES,
    "cpu_suppress.go:suppressBECPU": _FAILURES,
    "kubeqos_context.go:injectForExt": _OTHERS,
    "pod_context.go:injectForExt": _OTHERS,
}
