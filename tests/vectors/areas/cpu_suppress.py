# SPDX-License-Identifier: Apache-2.0
"""CPU suppression: what the quota and the CPUs of best-effort cgroups say after each round."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from koord.agent.strategies.cpusuppress.strategy import CPUSuppress
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.base.errors import KoordError
from tests.agent.strategies.fakes import FakeEvictor
from tests.agent.strategies.options import gates
from tests.vectors.agent import documents
from tests.vectors.agent.scene import Scene, cpu_set
from tests.vectors.area import Difference

SEED = 20262
_COUNT = 400
_QUOTA = f"cpu/{documents.BEST_EFFORT}/cpu.cfs_quota_us"
_POLICY = "kubelet.koordinator.sh/cpu-manager-policy"
_SYSTEM = "node.koordinator.sh/system-qos-resource"


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Nodes of 1 to 32 CPUs, one to three rounds each."""
    return [_case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """Files after each round."""
    on = ["BECPUSuppress", *(["BECPUManager"] if case["managed"] else [])]
    with tempfile.TemporaryDirectory() as root:
        scene = Scene(case, Path(root))
        strategy = CPUSuppress(StrategyOptions(gates=gates(*on)))
        rounds = []
        for _ in range(case["rounds"]):
            with suppress(KoordError):
                strategy.run(scene.tick(case["samples"]), Actuators(scene.executor, FakeEvictor()))
            scene.executor.settle()
            rounds.append(scene.files())
    return rounds


def _case(rng: Random) -> dict[str, Any]:
    cpus = documents.machine(rng)
    cores = len(cpus)
    pods = [_pod(rng, f"p{at}", cpus) for at in range(rng.choice([0, 1, 2, 3, 4, 6]))]
    capacity = rng.choice([str(cores)] * 6 + [f"{cores * 1000 - 500}m", "1", "100"])
    allocatable = {"cpu": rng.choice([capacity, capacity, f"{max(cores - 1, 1)}"]), "memory": "1Gi"}
    hosts = [_host(rng, f"h{at}") for at in range(rng.choice([0, 0, 1, 2]))]
    case: dict[str, Any] = {
        "cpus": cpus,
        "node": documents.node(rng, capacity, allocatable=allocatable),
        "slo": {"resourceUsedThresholdWithBE": _threshold(rng), "hostApplications": hosts},
        "topology": _topology(rng, cpus),
        "pods": pods,
        "samples": _samples(rng, cores, pods, hosts),
        "version": 1,
        "rounds": rng.choice([1, 1, 2, 3]),
        "managed": rng.random() < 0.08,
    }
    case["files"] = _files(rng, cpus, pods)
    return case


def _pod(rng: Random, name: str, cpus: list[list[int]]) -> dict[str, Any]:
    qos = rng.choice(["LSE", "LSR", "LSR", "LS", "LS", "BE", "BE", "", "SYSTEM"])
    kube = {"LSE": "Guaranteed", "LSR": "Guaranteed", "BE": "BestEffort"}.get(qos)
    kube = kube or rng.choice(["Burstable", "Burstable", "Guaranteed", "BestEffort"])
    annotations = {}
    if qos in ("LSE", "LSR") or rng.random() < 0.2:
        held = documents.cpu_list(rng, cpus)
        annotations[documents.STATUS] = rng.choice(
            [json.dumps({"cpuset": held})] * 5 + ['{"cpuset":""}', '{"cpuset":"x"}', "{",
             json.dumps({"cpuset": "500"}), '{"numaNodeResources":[{"node":0}]}']
        )  # fmt: skip
    containers = [documents.container("a")]
    return documents.pod(name, containers, qos=qos, kube=kube, annotations=annotations)


def _threshold(rng: Random) -> dict[str, Any] | None:
    if rng.random() < 0.03:
        return None
    found: dict[str, Any] = {
        "enable": rng.choice([True] * 9 + [False]),
        "cpuSuppressThresholdPercent": rng.choice([65, 65, 0, 1, 10, 33, 80, 95, 100]),
        "cpuSuppressPolicy": rng.choice(["cpuset", "cpuset", "cfsQuota", "cfsQuota", ""]),
    }
    if rng.random() < 0.4:
        found["cpuSuppressMinPercent"] = rng.choice([0, 1, 10, 50, 100])
    return found


def _host(rng: Random, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "qos": rng.choice(["BE", "BE", "LS", ""])}
    if rng.random() < 0.8:
        base = rng.choice(["KubepodsBesteffort", "KubepodsBesteffort", "Kubepods", "CgroupRoot"])
        found["cgroupPath"] = {"base": base, "relativePath": name}
    return found


def _topology(rng: Random, cpus: list[list[int]]) -> dict[str, str] | None:
    if rng.random() < 0.03:
        return None
    found = {}
    if rng.random() < 0.3:
        found[_POLICY] = json.dumps({"policy": rng.choice(["static", "static", "none"])})
    if rng.random() < 0.25:
        held = documents.cpu_list(rng, cpus)
        found[documents.RESERVATION] = rng.choice(
            [json.dumps({"reservedCPUs": held})] * 3 + ['{"reservedCPUs":"a"}', "{"]
        )
    if rng.random() < 0.25:
        held = documents.cpu_list(rng, cpus)
        exclusive = rng.choice([{}, {"cpusetExclusive": True}, {"cpusetExclusive": False}])
        found[_SYSTEM] = rng.choice([json.dumps({"cpuset": held, **exclusive})] * 3 + ["{"])
    return found


def _samples(
    rng: Random, cores: int, pods: list[dict[str, Any]], hosts: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Usage in 64ths of a core, whose sums are exact in any order."""

    def use(kind: str, label: str, most: float) -> dict[str, Any]:
        age = rng.choice([100, 100, 500, 1500, 1500, 30_000]) if rng.random() < 0.2 else 100
        value = rng.randint(0, int(64 * most)) / 64
        return {"kind": kind, "label": label, "age_ms": age, "value": value}

    found = [use("node_cpu", "", cores)] if rng.random() < 0.95 else []
    busy = max(cores / max(1, len(pods) + len(hosts)), 0.1)
    labels = [each["metadata"]["uid"] for each in pods if rng.random() < 0.9]
    found += [use("pod_cpu", label, busy) for label in labels]
    if rng.random() < 0.15:
        found.append(use("pod_cpu", "gone", busy))
    found += [use("host_cpu", each["name"], busy) for each in hosts if rng.random() < 0.9]
    return found


def _files(rng: Random, cpus: list[list[int]], pods: list[dict[str, Any]]) -> dict[str, str]:
    """Of the class, and of its pods and their containers; all say the same."""
    ids = [each[0] for each in cpus]
    chosen = rng.choice([ids, ids, rng.sample(ids, rng.randint(1, len(ids)))])
    held = ",".join(map(str, sorted(chosen)))
    at = [documents.BEST_EFFORT]
    for each in pods:
        if each["status"]["qosClass"] == "BestEffort":
            at += [documents.directory(each), documents.directory(each, "a")]
    found = {f"cpuset/{folder}/cpuset.cpus": held for folder in at}
    amount = rng.choice([-1, -1, 2000, 100_000 * len(cpus), rng.randint(10, 1000) * 1000])
    found[_QUOTA] = str(amount)
    return found


def _differing(theirs: Any, ours: Any) -> set[tuple[str, str, str]]:
    """Files that differ after some round, with both texts."""
    if not isinstance(theirs, list):
        return set()
    rounds = zip(theirs, ours, strict=True)
    return {(path, a[path], b[path]) for a, b in rounds for path in a if a[path] != b[path]}


def _divides_by_zero(case: Any, theirs: Any, ours: Any) -> bool:
    return bool(theirs == {"panic": "runtime error: integer divide by zero"})


def _writes_no_cpus(case: Any, theirs: Any, ours: Any) -> bool:
    found = _differing(theirs, ours)
    return bool(found) and all("cpuset" in path and not text for path, text, _ in found)


def _allows_more_than_there_are(case: Any, theirs: Any, ours: Any) -> bool:
    found = _differing(theirs, ours)
    config = case["slo"]["resourceUsedThresholdWithBE"]
    if not found or config["cpuSuppressPolicy"] == "cfsQuota":
        return False
    text = case["node"]["status"]["capacity"]["cpu"]
    cores = float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    percent = max(config["cpuSuppressThresholdPercent"], config.get("cpuSuppressMinPercent", 0))
    free = cpu_set(",".join(str(each[0]) for each in case["cpus"]))
    for held in _held_back(case):
        free -= held
    return all("cpuset" in path for path, _, _ in found) and cores * percent / 100 > len(free)


def _held_back(case: Any) -> list[set[int]]:
    """CPUs that suppression gives to nobody."""
    topology = case["topology"] or {}
    found = [_of(topology.get(documents.RESERVATION), "reservedCPUs")]
    if '"cpusetExclusive": false' not in topology.get(_SYSTEM, ""):
        found.append(_of(topology.get(_SYSTEM), "cpuset"))
    return found + [
        _of(pod["metadata"]["annotations"].get(documents.STATUS), "cpuset")
        for pod in case["pods"]
        if pod["metadata"]["labels"].get(documents.QOS) == "LSE"
    ]


def _of(text: str | None, field: str) -> set[int]:
    try:
        return cpu_set(json.loads(text or "{}").get(field, ""))
    except ValueError:
        return set()


DIFFERENCES = {
    "strategies-suppress-least": Difference(
        "the original divides by the number of CPUs that are left",
        _divides_by_zero,
    ),
    "executor-cpus-parent": Difference(
        "the original writes an empty list where all CPUs are held",
        _writes_no_cpus,
    ),
    "strategies-suppress-most": Difference(
        "the original keeps the old CPUs where more are allowed than it may choose from",
        _allows_more_than_there_are,
    ),
}  # fmt: skip

_WRITE = "what is left are failures of reads and writes, which a directory of plain files has not"
COVERAGE = {
    "cpu_suppress.go:adjustByCfsQuota": _WRITE,
    "cpu_suppress.go:applyBESuppressCPUSet": _WRITE,
    "cpu_suppress.go:recoverCFSQuotaIfNeed": _WRITE,
    "cpu_suppress.go:recoverCPUSetIfNeed": _WRITE,
}
