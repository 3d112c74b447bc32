# SPDX-License-Identifier: Apache-2.0
"""CPU burst: quotas, burst allowances and tokens of the limiters, round after round."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from koord.agent.strategies.cpuburst.burst_limiter import _TokenBucket
from koord.agent.strategies.cpuburst.strategy import CPUBurst
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.base.errors import KoordError
from tests.agent.strategies.fakes import FakeEvictor
from tests.agent.strategies.nodes import NOW_SECONDS
from tests.vectors.agent import documents
from tests.vectors.agent.scene import Scene
from tests.vectors.area import Difference

SEED = 20263
_COUNT = 400
_ANNOTATION = "koordinator.sh/cpuBurst"
_PERCENTS = [None, 0, 50, 99, 100, 101, 120, 150, 300, 300, 1000]


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Nodes with up to four pods, one to four rounds each."""
    return [_case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """Files and tokens after each round."""
    with tempfile.TemporaryDirectory() as root:
        scene = Scene(case, Path(root))
        strategy = CPUBurst(StrategyOptions())
        buckets = strategy._limiter._buckets
        for name, each in case["limiters"].items():
            buckets[name] = _TokenBucket(
                each["capacity"], each["tokens"], NOW_SECONDS, 2.0 * each["period"]
            )
        rounds = []
        passed = 0.0
        for samples in case["rounds"]:
            passed += case["seconds"]
            with suppress(KoordError):
                tick = scene.tick(samples, passed)
                strategy.run(tick, Actuators(scene.executor, FakeEvictor()))
            scene.executor.settle()
            # A bucket of nothing is as good as none.
            tokens = {name: bucket.tokens for name, bucket in buckets.items() if bucket.tokens}
            rounds.append({"files": scene.files(), "tokens": tokens})
    return rounds


def _case(rng: Random) -> dict[str, Any]:
    cpus = documents.machine(rng)
    cores = len(cpus)
    slo = _strategy(rng)
    pods = [_pod(rng, f"p{at}") for at in range(rng.choice([0, 1, 1, 2, 3, 4]))]
    rounds = rng.choice([1, 1, 2, 3, 4])
    return {
        "cpus": cpus,
        "node": documents.node(rng, str(cores)),
        "slo": {"cpuBurstStrategy": slo},
        "topology": {},
        "pods": pods,
        "rounds": [_samples(rng, cores, pods) for _ in range(rounds)],
        "seconds": rng.choice([1, 1, 5, 30]),
        "limiters": _limiters(rng, slo, pods),
        "files": _files(rng, pods),
        "version": 1,
    }


def _strategy(rng: Random) -> dict[str, Any]:
    found = _config(rng)
    found["policy"] = rng.choice(["auto"] * 5 + ["cfsQuotaBurstOnly", "cpuBurstOnly", "none", ""])
    if "cpuBurstPercent" not in found:
        found["cpuBurstPercent"] = 1000
    found["sharePoolThresholdPercent"] = rng.choice([50, 50, 0, 10, 80, 100])
    return found


def _config(rng: Random) -> dict[str, Any]:
    found = {
        "cpuBurstPercent": rng.choice([0, 1, 33, 100, 1000, 1000, 10000]),
        "cfsQuotaBurstPercent": rng.choice(_PERCENTS),
        "cfsQuotaBurstPeriodSeconds": rng.choice([None, -1, -1, -1, 0, 1, 60, 300]),
    }
    return {key: value for key, value in found.items() if value is not None}


def _pod(rng: Random, name: str) -> dict[str, Any]:
    qos = rng.choice(["LS"] * 5 + ["", "", "LSR", "LSE", "BE", "SYSTEM"])
    kube = "BestEffort" if qos == "BE" else rng.choice(["Burstable", "Guaranteed"])
    containers = []
    for at in range(rng.choice([1, 1, 2, 3])):
        limit = rng.choice(["1", "2", "500m", "1", "100m", "5m", "1m", "2500m", "0", "", "33m"])
        limits = {"cpu": limit} if limit else {}
        requests = {"cpu": rng.choice(["1", "500m", limit or "1"])}
        containers.append(documents.container(f"c{at}", limits=limits, requests=requests))
    states = [rng.choice(["running"] * 8 + ["waiting", ""]) for _ in containers]
    return documents.pod(
        name, containers, qos=qos, kube=kube, states=states, annotations=_own(rng),
        phase=rng.choice(["Running"] * 9 + ["Pending", "Succeeded", "Failed"]),
    )  # fmt: skip


def _own(rng: Random) -> dict[str, str]:
    if rng.random() > 0.3:
        return {}
    own: dict[str, Any] = _config(rng)
    for key in list(own):
        if rng.random() < 0.4:
            del own[key]
    if rng.random() < 0.6:
        own["policy"] = rng.choice(["auto", "none", "cpuBurstOnly", "cfsQuotaBurstOnly"])
    return {_ANNOTATION: rng.choice([json.dumps(own)] * 6 + ["{", '{"policy":1}', "null"])}


def _containers(pods: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str, str, str]]:
    """Each pod with the name, id and CPU limit of each of its containers that has an id."""
    return [
        (
            pod,
            status["name"],
            status["containerID"],
            spec["resources"].get("limits", {}).get("cpu", "0"),
        )
        for pod in pods
        for status, spec in zip(
            pod["status"]["containerStatuses"], pod["spec"]["containers"], strict=True
        )
        if "containerID" in status
    ]


def _limit(container: dict[str, Any]) -> str:
    return str(container["resources"].get("limits", {}).get("cpu", "0"))


def _milli(limit: str) -> int:
    return int(limit[:-1]) if limit.endswith("m") else 1000 * int(limit)


def _samples(rng: Random, cores: int, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def sample(kind: str, label: str, value: float) -> dict[str, Any]:
        age = rng.choice([1500, 30_000]) if rng.random() < 0.08 else 100
        return {"kind": kind, "label": label, "age_ms": age, "value": value}

    found = []
    if rng.random() < 0.92:
        share = rng.choice([0.0, 0.1, 0.3, 0.44, 0.45, 0.46, 0.5, 0.9, 1.0, rng.random()])
        found.append(sample("node_cpu", "", int(64 * cores * share) / 64))
    found += [
        sample("pod_cpu", pod["metadata"]["uid"], rng.randint(0, 64) / 64)
        for pod in pods
        if rng.random() < 0.9
    ]
    for _, _, name, _ in _containers(pods):
        if rng.random() < 0.85:
            found.append(sample("container_throttled", name, rng.choice([0, 0.25, 0.5, 1])))
        if rng.random() < 0.85:
            found.append(sample("container_cpu", name, rng.randint(0, 192) / 64))
    return found


def _limiters(
    rng: Random, slo: dict[str, Any], pods: list[dict[str, Any]]
) -> dict[str, dict[str, int]]:
    """Buckets of all containers as their pod's settings have them: new ones begin at random."""
    found = {}
    for pod, _, name, _ in _containers(pods):
        settings = dict(slo)
        try:
            own = json.loads(pod["metadata"]["annotations"].get(_ANNOTATION, "{}"))
            if own and not isinstance(own.get("policy", ""), int):
                settings |= own
        except ValueError:
            pass
        period = settings.get("cfsQuotaBurstPeriodSeconds", -1)
        percent = settings.get("cfsQuotaBurstPercent", 0)
        if period < 0 or percent < 100 or not _limited(pod, name):
            continue
        capacity = period * (percent - 100)
        tokens = rng.choice([-capacity, -1, 0, 1, capacity // 2, capacity, capacity])
        found[name] = {"capacity": capacity, "tokens": tokens, "period": period}
    return found


def _limited(pod: dict[str, Any], container_id: str) -> bool:
    """Whether burst looks at a container, whose bucket lives on then."""
    name = container_id.rpartition("-")[2]
    at = int(name.removeprefix("c"))
    spec, status = pod["spec"]["containers"][at], pod["status"]["containerStatuses"][at]
    return (
        pod["metadata"]["labels"].get(documents.QOS) not in ("LSE", "LSR", "BE")
        and pod["status"]["phase"] in ("Pending", "Running")
        and "running" in status["state"]
        and spec["resources"].get("limits", {}).get("cpu", "0") != "0"
    )


def _files(rng: Random, pods: list[dict[str, Any]]) -> dict[str, str]:
    """As the kubelet makes them, some quotas raised by earlier rounds."""
    found = {}
    extra: dict[str, int] = {}
    least: dict[str, int] = {}
    for pod, name, _, limit in _containers(pods):
        milli = _milli(limit)
        quota = max(milli * 100, 1000) if milli > 0 else -1
        raised = quota
        if quota > 0 and rng.random() < 0.3:
            raised = quota + quota * rng.choice([1, 2, 10, 20]) // 10
        uid = pod["metadata"]["uid"]
        extra[uid] = extra.get(uid, 0) + raised - quota
        least[uid] = min(least.get(uid, 1), quota)
        folder = documents.directory(pod, name)
        found[f"cpu/{folder}/cpu.cfs_quota_us"] = str(raised)
        found[f"cpu/{folder}/cpu.cfs_burst_us"] = "0"
    for pod in pods:
        uid = pod["metadata"]["uid"]
        limits = [_milli(_limit(each)) for each in pod["spec"]["containers"]]
        quota = max(sum(limits) * 100, 1000) + extra.get(uid, 0) if min(limits) > 0 else -1
        folder = documents.directory(pod)
        found[f"cpu/{folder}/cpu.cfs_quota_us"] = str(quota)
        found[f"cpu/{folder}/cpu.cfs_burst_us"] = "0"
    return found


def _kept_on_pods(case: Any, theirs: Any, ours: Any) -> bool:
    """Whether quotas of pods alone differ, by what they hold for containers not looked at."""
    kept = {path: us for path, us in _kept(case).items() if us}
    for before, after in zip(theirs, ours, strict=True):
        if before["tokens"] != after["tokens"]:
            return False
        for path, text in before["files"].items():
            own = after["files"][path]
            if own != text and int(text) - int(own) != kept.get(path):
                return False
    return True


def _kept(case: Any) -> dict[str, int]:
    """What was added to each pod's quota for containers that burst does not look at."""
    found: dict[str, int] = {}
    for pod, name, container_id, limit in _containers(case["pods"]):
        if _milli(limit) > 0 and not _limited(pod, container_id):
            said = int(case["files"][f"cpu/{documents.directory(pod, name)}/cpu.cfs_quota_us"])
            path = f"cpu/{documents.directory(pod)}/cpu.cfs_quota_us"
            found[path] = found.get(path, 0) + said - max(_milli(limit) * 100, 1000)
    return found


DIFFERENCES = {
    "strategies-burst-pod-quota": Difference(
        "the original leaves on a pod what it added there for a container that does not run",
        _kept_on_pods,
    ),
}  # fmt: skip

_FILES = "what is left are failures of reads and writes, which a directory of plain files has not"
COVERAGE = {
    "cpu_burst.go:start": "what is left is a NodeSLO without the strategy and pods that are null",
    "cpu_burst.go:applyCPUBurst": _FILES,
}
