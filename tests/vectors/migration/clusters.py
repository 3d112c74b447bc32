# SPDX-License-Identifier: Apache-2.0
"""Arguments, and clusters in which some pods are being moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

    from tests.vectors.area import Json

NOW = 1_700_000_000
_GATES = [
    "MaxUnavailablePerWorkload",
    "MaxMigratingPerWorkload",
    "MaxMigratingPerNode",
    "MaxMigratingPerNamespace",
    "MaxMigratingGlobally",
    "ExpectedReplicas",
    "PVC",
    "BarePods",
    "LocalStorage",
    "SystemCritical",
    "PriorityThreshold",
    "LabelSelector",
    "Namespaces",
]
_AMOUNTS = [1, 2, 3, "10%", "50%", "80%", "150%"]
_PASSED = "descheduler.koordinator.sh/passed-arbitration"


def arguments(draw: random.Random, number: int) -> list[Json]:
    """Arguments of which a third or so are wrong."""
    wrong: list[Json] = [
        {"skipEvictionGates": ["Unknown"]},
        {"skipEvictionGates": ["pvc"]},
        {"maxMigratingGlobally": -1},
        {"maxMigratingPerNode": -2},
        {"maxMigratingPerNamespace": -1},
        {"maxMigratingPerWorkload": "ten"},
        {"maxUnavailablePerWorkload": "10"},
        {"maxMigratingPerWorkload": -1},
        {"evictQPS": "0"},
        {"evictBurst": -1},
        {"maxConcurrentReconciles": -1},
        {"defaultJobMode": "Sideways"},
        {"defaultJobTTL": "-1m"},
        {"namespaces": {"include": ["a"], "exclude": ["b"]}},
        {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
    ]
    return [
        {**args(draw), **(draw.choice(wrong) if draw.random() < 0.4 else {})} for _ in range(number)
    ]


def args(draw: random.Random) -> Json:
    """Arguments that hold."""
    options: dict[str, tuple[float, list[Any]]] = {
        "evictFailedBarePods": (0.2, [True]),
        "evictAllBarePods": (0.1, [True]),
        "evictLocalStoragePods": (0.2, [True]),
        "evictSystemCriticalPods": (0.15, [True]),
        "ignorePvcPods": (0.3, [True]),
        "priorityThreshold": (0.2, [{"value": 9000}]),
        "labelSelector": (0.15, [{"matchLabels": {"app": "a"}}]),
        "namespaces": (0.2, [{"exclude": ["other"]}, {"include": ["default"]}]),
        "maxMigratingGlobally": (0.3, [1, 2, 4]),
        "maxMigratingPerNode": (0.5, [1, 2, 3, 0]),
        "maxMigratingPerNamespace": (0.3, [1, 2, 3]),
        "maxMigratingPerWorkload": (0.4, _AMOUNTS),
        "maxUnavailablePerWorkload": (0.4, _AMOUNTS),
        "skipCheckExpectedReplicas": (0.4, [True, False]),
        "defaultJobMode": (0.3, ["EvictDirectly", "ReservationFirst"]),
        "schedulerNames": (0.1, [["other-scheduler", "koord-scheduler"]]),
        "skipEvictionGates": (0.25, [draw.sample(_GATES, 2)]),
    }
    return {
        name: draw.choice(values)
        for name, (share, values) in options.items()
        if draw.random() < share
    }


def world(draw: random.Random, ask: str) -> Json:
    """A cluster of some workloads."""
    found: dict[str, list[Json]] = {
        "pods": [],
        "jobs": [],
        "deployments": [],
        "replicaSets": [],
        "statefulSets": [],
    }
    for number in range(draw.randint(1, 4)):
        _workload(draw, f"w{number}", found)
    if draw.random() < 0.4:
        found["pods"].append(_pod(draw, "bare", "default", None))
    ages = draw.sample(range(1, 9000), len(found["pods"]))
    for pod, age in zip(found["pods"], ages, strict=True):
        pod["metadata"]["creationTimestamp"] = _moment(NOW - age)
    passed = _jobs(draw, found)
    given = {**args(draw), "maxMigratingPerNode": draw.choice([1, 2, 2, 3])}
    return {"ask": ask, "args": given, **found, "passed": passed, "now": NOW}


def _workload(draw: random.Random, name: str, found: dict[str, list[Json]]) -> None:
    kind = draw.choice(["Deployment", "ReplicaSet", "StatefulSet", "Job", "gone", "DaemonSet"][:5])
    space = draw.choice(["default", "default", "other"])
    replicas = draw.choice([0, 1, 2, 3, 4, 6, 11])
    labels = {"app": draw.choice("ab")}
    meta = {"name": name, "namespace": space, "uid": f"uid-{name}"}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"of": name}}}
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}"}
    if kind == "Deployment":
        found["deployments"].append({"metadata": meta, "spec": spec})
        sets = [f"{name}-x", f"{name}-y"]
        for each in sets:
            of_set = {
                "name": each,
                "namespace": space,
                "uid": f"uid-{each}",
                "labels": {"of": name},
                "ownerReferences": [{**owner, "controller": True}],
            }
            found["replicaSets"].append({"metadata": of_set, "spec": {"replicas": 1}})
        owners = [{**owner, "kind": "ReplicaSet", "name": s, "uid": f"uid-{s}"} for s in sets]
    else:
        owners = [{**owner, "kind": "ReplicaSet" if kind == "gone" else kind}]
        plural = {"ReplicaSet": "replicaSets", "StatefulSet": "statefulSets"}.get(kind)
        if plural:
            found[plural].append({"metadata": meta, "spec": spec})
        if kind == "Job":
            owners[0]["apiVersion"] = "batch/v1"
    for number in range(draw.choice([1, 2, 3, 4])):
        pod = _pod(draw, f"{name}-{number}", space, draw.choice(owners))
        pod["metadata"]["labels"].update(labels)
        found["pods"].append(pod)


def _pod(draw: random.Random, name: str, space: str, owner: Json | None) -> Json:
    meta: dict[str, Any] = {
        "name": name,
        "namespace": space,
        "uid": f"uid-of-{name}",
        "labels": {},
        "annotations": {},
    }
    if owner is not None:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    notes: dict[str, tuple[float, list[str]]] = {
        "descheduler.alpha.kubernetes.io/evict": (0.05, ["true", ""]),
        "scheduling.koordinator.sh/eviction-cost": (0.15, ["2147483647", "5", "+5", "-3"]),
        "controller.kubernetes.io/pod-deletion-cost": (0.15, ["100", "7", "x"]),
        "kubernetes.io/config.mirror": (0.03, ["x"]),
        "kubernetes.io/config.source": (0.05, ["api", "file"]),
    }
    for key, (share, values) in notes.items():
        if draw.random() < share:
            meta["annotations"][key] = draw.choice(values)
    if draw.random() < 0.06:
        meta["deletionTimestamp"], meta["finalizers"] = _moment(NOW), ["a/b"]
    if draw.random() < 0.4:
        meta["labels"]["koordinator.sh/qosClass"] = draw.choice(["LS", "BE", "LSR"])
    spec: dict[str, Any] = {
        "nodeName": draw.choice(["n0", "n0", "n1", "n2", ""]),
        "schedulerName": draw.choice(["koord-scheduler"] * 6 + ["default-scheduler"]),
        "containers": [{"name": "c"}],
    }
    priority = draw.choice([None, None, 100, 5500, 9000, 9500, 2_000_000_000])
    if priority is not None:
        spec["priority"] = priority
    volume = draw.choice(
        [None] * 6
        + [
            {"emptyDir": {}},
            {"hostPath": {"path": "/a"}},
            {"persistentVolumeClaim": {"claimName": "c"}},
        ]
    )
    if volume:
        spec["volumes"] = [{"name": "v", **volume}]
    phase = draw.choice(["Running"] * 8 + ["Failed", "Succeeded", "Pending"])
    ready = draw.choice(["True"] * 5 + ["False"])
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, "conditions": conditions}}


def _jobs(draw: random.Random, found: dict[str, list[Json]]) -> list[str]:
    """Jobs of some pods; which of them have passed."""
    passed = []
    ages = draw.sample(range(1, 500), len(found["pods"]))
    for pod, age in zip(found["pods"], ages, strict=True):
        if draw.random() < 0.4:
            continue
        meta = pod["metadata"]
        uid = f"job-{meta['name']}"
        ref = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        phase = draw.choice(["", "Pending", "Pending", "Pending", "Running", "Failed", "Succeeded"])
        job: Json = {
            "metadata": {"name": uid, "uid": uid, "annotations": {}},
            "spec": {"podRef": ref},
            "status": {"phase": phase},
        }
        job["metadata"]["creationTimestamp"] = _moment(NOW - age)
        if draw.random() < 0.05:
            job["spec"]["podRef"] = {**ref, "name": "missing", "uid": "missing"}
        if phase in ("", "Pending") and draw.random() < 0.25:
            job["metadata"]["annotations"][_PASSED] = "true"
            passed.append(uid)
        found["jobs"].append(job)
    return passed


def _moment(seconds: int) -> str:
    from koord.api.timestamps import seconds_text

    return seconds_text(seconds)
