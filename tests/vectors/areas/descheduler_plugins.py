# SPDX-License-Identifier: Apache-2.0
"""The plugins of kubernetes-sigs/descheduler with DefaultEvictor: which pods of a small cluster a
round evicts, in which order, and which arguments are not valid.

Ages are told beside the pods, in seconds before now; of conditions as the text of their message.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.base.errors import KoordError
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from tests.controllers.descheduler.world import NOW, make
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

    from koord.controllers.descheduler.framework.points import PodEviction

SEED = 20290
_LIMITS = "the rest is for limits, which are told apart by their types there"
COVERAGE = {
    "nodeutilization/nodeutilization.go:evictPods": _LIMITS,
    "removefailedpods/failedpods.go:Deschedule": _LIMITS,
}
DIFFERENCES = {
    "node-affinity-evicted-once": Difference(
        "a pod that two kinds of node affinity want away is evicted once",
        adjusted=lambda case, theirs, ours: _once(theirs),
    ),
}

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
_BALANCE = ("RemoveDuplicates", SPREAD, "LowNodeUtilization", "HighNodeUtilization")
_TAINTS = [
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
    {"key": "broken", "value": "yes", "effect": "NoExecute"},
]
_TOLERATIONS = [
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
    {"operator": "Exists"}, {"key": "old", "operator": "Exists"},
    {"key": "dedicated", "value": "web"},
]  # fmt: skip
_VOLUMES = [
    {"name": "v", "emptyDir": {}}, {"name": "v", "hostPath": {"path": "/"}},
    {"name": "v", "persistentVolumeClaim": {"claimName": "fast"}},
    {"name": "v", "persistentVolumeClaim": {"claimName": "gone"}},
    {"name": "v", "configMap": {"name": "c"}},
]  # fmt: skip
_OWNERS = [*["ReplicaSet"] * 8, "Job", "DaemonSet", "StatefulSet"]
_ANNOTATIONS = [
    {"descheduler.alpha.kubernetes.io/evict": "true"},
    {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"},
    {"kubernetes.io/config.mirror": "x"}, {"kubernetes.io/config.source": "file"},
    {"kubernetes.io/config.source": "api"},
]  # fmt: skip
_REASONS = ["ErrImagePull", "CrashLoopBackOff", "ContainerCreating"]


def inputs(draw: random.Random) -> list[Json]:
    """A hundred rounds of each plugin."""
    return [_round(draw, plugin) for plugin in _ARGS for _ in range(100)]


def _round(draw: random.Random, plugin: str) -> Json:
    nodes = [_node(draw, f"n{number}") for number in range(draw.randint(2, 4))]
    # Up to twelve a node: longer lists the original sorts in an unstable way.
    places = [node["metadata"]["name"] for node in nodes for _ in range(12)]
    places = places[:12] + draw.sample(places[12:], draw.randint(1, 4))
    names = draw.sample(places, draw.randint(4, len(places)))
    if plugin == "HighNodeUtilization":
        names += [node["metadata"]["name"] for node in nodes[1:] for _ in range(4)]
    pods = [_pod(draw, number, name) for number, name in enumerate(names)]
    ages = draw.sample(range(1, 100), len(pods))
    return {
        "plugin": plugin,
        "args": _ARGS[plugin](draw),
        "evictor": _evictor_args(draw),
        "nodes": nodes,
        "pods": pods,
        # Thresholds are whole hundreds of seconds, so that a slow run changes nothing.
        "ages": {
            pod["metadata"]["name"]: age * 100 + 50 for pod, age in zip(pods, ages, strict=True)
        },
        "namespaces": [
            {"metadata": {"name": "default", "labels": {"tier": "spare"}}},
            {"metadata": {"name": "other"}},
        ],
        "priorityClasses": [{"metadata": {"name": "web"}, "value": 1000}],
        "budgets": [
            {"metadata": {"name": "b", "namespace": "default"},
             "spec": {"selector": {"matchLabels": {"app": "x"}}}},
        ],
        "claims": [
            {"metadata": {"name": "fast", "namespace": "default"},
             "spec": {"storageClassName": "ssd"}},
        ],
        "refused": {f"p{number:02}": True for number in range(len(pods)) if draw.random() < 0.05},
    }  # fmt: skip


def _node(draw: random.Random, name: str) -> Json:
    labels = {"kubernetes.io/hostname": name, "zone": draw.choice("ab")}
    if draw.random() < 0.4:
        labels["disk"] = draw.choice(["ssd", "hdd"])
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "taints": [taint for taint in _TAINTS if draw.random() < 0.12],
            "unschedulable": draw.random() < 0.1,
        },
        "status": {
            "allocatable": {
                "cpu": draw.choice(["2", "4", "8"]), "memory": draw.choice(["4Gi", "8Gi"]),
                "pods": draw.choice(["6", "20", "20"]),
            },
            "conditions": [{"type": "Ready", "status": "False" if draw.random() < 0.1 else "True"}],
        },
    }  # fmt: skip


def _pod(draw: random.Random, number: int, node_name: str) -> Json:
    chance = draw.random
    owners = [] if chance() < 0.1 else [_owner(draw)]
    if owners and chance() < 0.05:
        owners.append({**_owner(draw), "name": "second", "uid": "second"})
    meta: dict[str, Any] = {
        "name": f"p{number:02}", "namespace": "other" if chance() < 0.2 else "default",
        "uid": f"u{number}", "labels": {"app": draw.choice("xxy"), "rev": draw.choice("12")},
        "annotations": draw.choice(_ANNOTATIONS) if chance() < 0.15 else {},
        "ownerReferences": owners,
    }  # fmt: skip
    if chance() < 0.03:
        meta |= {"deletionTimestamp": "2023-01-01T00:00:00Z", "finalizers": ["a.io/b"]}
    requests = {
        "cpu": draw.choice(["100m", "500m", "1", "1500m"]),
        "memory": draw.choice(["128Mi", "512Mi", "1Gi"]),
    }
    resources = {"requests": requests} if chance() < 0.9 else {}
    if resources and chance() < 0.3:
        resources = {"requests": requests, "limits": requests}
    spec: dict[str, Any] = {
        "nodeName": node_name,
        "containers": [
            {"name": f"c{index}", "image": draw.choice("iiiij"), "resources": resources}
            for index in range(draw.choice([1, 1, 1, 2]))
        ],
        "tolerations": [toleration for toleration in _TOLERATIONS if chance() < 0.15],
        "volumes": [draw.choice(_VOLUMES)] if chance() < 0.2 else [],
        "affinity": _affinity(draw),
        "topologySpreadConstraints": [_constraint(draw) for _ in range(draw.choice([0, 1, 1, 2]))],
    }
    if chance() < 0.6:
        spec["priority"] = draw.choice([0, 0, 100, 100, 1000, 5000, 2_000_000_000])
    if chance() < 0.1:
        spec["nodeSelector"] = {"disk": draw.choice(["ssd", "hdd"])}
    return {"metadata": meta, "spec": spec, "status": _status(draw)}


def _owner(draw: random.Random) -> Json:
    kind, name = draw.choice(_OWNERS), draw.choice(["web", "web", "web", "api"])
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"{kind}-{name}"}


def _status(draw: random.Random) -> Json:
    phase = draw.choice([*["Running"] * 6, "Pending", "Failed", "Failed", "Succeeded"])
    status: dict[str, Any] = {"phase": phase, "containerStatuses": [_container(draw)]}
    if draw.random() < 0.5:
        status["initContainerStatuses"] = [_container(draw)]
    if draw.random() < 0.2:
        status["reason"] = draw.choice(["NodeLost", "Shutdown"])
    if draw.random() < 0.5:
        condition = {"type": "Ready", "status": draw.choice(["True", "False"]),
                     "message": draw.choice(["", "50s", "250s", "450s"])}  # fmt: skip
        status["conditions"] = [condition]
    if draw.random() < 0.7:
        status["startTime"] = "2023-01-01T00:00:00Z"
    return status


def _container(draw: random.Random) -> Json:
    state = draw.choice([
        {"running": {}}, {"waiting": {"reason": draw.choice(_REASONS)}},
        {"terminated": {"exitCode": draw.choice([0, 1, 137]),
                        "reason": draw.choice(["Error", "OOMKilled"])}},
    ])  # fmt: skip
    return {"name": "c", "restartCount": draw.choice([0, 1, 3, 8]), "state": state}


def _affinity(draw: random.Random) -> Json:
    affinity: dict[str, Any] = {}
    if draw.random() < 0.25:
        expression = {"key": "zone", "operator": draw.choice(["In", "NotIn"]), "values": ["a"]}
        term = {"matchExpressions": [expression]}
        node_affinity: dict[str, Any] = {}
        if draw.random() < 0.6:
            node_affinity[REQUIRED] = {"nodeSelectorTerms": [term]}
        if draw.random() < 0.6:
            ssd = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
            node_affinity[PREFERRED] = [
                {"weight": draw.choice([5, 50]), "preference": preference}
                for preference in (term, ssd)
            ]
        affinity["nodeAffinity"] = node_affinity
    if draw.random() < 0.25:
        term = {
            "labelSelector": {"matchLabels": {"app": draw.choice("xy")}},
            "topologyKey": draw.choice(["zone", "kubernetes.io/hostname", "rack"]),
        }
        if draw.random() < 0.3:
            term["namespaces"] = ["other"]
        affinity["podAntiAffinity"] = {REQUIRED: [term]}
    return affinity


def _constraint(draw: random.Random) -> Json:
    constraint: dict[str, Any] = {
        "maxSkew": draw.choice([1, 1, 2]), "topologyKey": draw.choice(["zone", "disk"]),
        "whenUnsatisfiable": draw.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    }  # fmt: skip
    if draw.random() < 0.9:
        constraint["labelSelector"] = {"matchLabels": {"app": "x"}}
    if draw.random() < 0.2:
        constraint["matchLabelKeys"] = ["rev"]
    if draw.random() < 0.2:
        constraint["nodeAffinityPolicy"] = draw.choice(["Honor", "Ignore"])
    if draw.random() < 0.2:
        constraint["nodeTaintsPolicy"] = draw.choice(["Honor", "Ignore"])
    return constraint


def _evictor_args(draw: random.Random) -> Json:
    args: dict[str, Any] = {}
    options: dict[str, list[Any]] = {
        "nodeFit": [True], "minReplicas": [0, 1, 3], "noEvictionPolicy": ["Mandatory", "Preferred"],
        "nodeSelector": ["disk=ssd", "zone in (a,b)"], "minPodAge": ["400s"],
        "labelSelector": [{}, {"matchLabels": {"app": "x"}}],
        "namespaceLabelSelector": [{"matchLabels": {"tier": "spare"}}],
        "priorityThreshold": [{"value": 1000}, {"name": "web"}, {"value": 1, "name": "web"}],
    }  # fmt: skip
    for name, values in options.items():
        if draw.random() < 0.06:
            args[name] = draw.choice(values)
    if draw.random() < 0.25:
        args["podProtections"] = draw.choice([
            {"defaultDisabled": ["PodsWithLocalStorage", "DaemonSetPods"]},
            {"defaultDisabled": ["SystemCriticalPods", "FailedBarePods"]},
            {"extraEnabled": ["PodsWithPVC", "PodsWithoutPDB"]},
            {"extraEnabled": ["PodsWithPVC", "PodsWithPVC"]}, {"defaultDisabled": ["Unknown"]},
            {"extraEnabled": ["PodsWithPVC"],
             "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "ssd"}]}}},
        ])  # fmt: skip
    else:
        switches = ["evictLocalStoragePods", "evictDaemonSetPods", "evictSystemCriticalPods",
                    "ignorePvcPods", "ignorePodsWithoutPDB", "evictFailedBarePods"]  # fmt: skip
        args |= {switch: True for switch in switches if draw.random() < 0.15}
    return args


def _some(draw: random.Random, options: dict[str, list[Any]], chance: float = 0.4) -> Json:
    common: dict[str, list[Any]] = {
        "namespaces": [{"include": ["default"]}, {"exclude": ["default"]}],
        "labelSelector": [{"matchLabels": {"app": "x"}}],
    }
    args = {name: draw.choice(v) for name, v in options.items() if draw.random() < chance}
    return args | {name: draw.choice(v) for name, v in common.items() if draw.random() < 0.1}


def _life_time(draw: random.Random) -> Json:
    return _some(draw, {
        "maxPodLifeTimeSeconds": [0, 500, 3000, 6000],
        "states": [["Running"], ["ErrImagePull", "OOMKilled"], ["NodeLost"], ["Failed", "Error"]],
        "includingInitContainers": [True], "exitCodes": [[137], [0, 1]],
        "ownerKinds": [{"include": ["ReplicaSet"]}, {"exclude": ["ReplicaSet"]},
                       {"include": ["Job"], "exclude": ["Job"]}],
        "conditions": [
            [{"type": "Ready", "status": "False"}],
            [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 100}],
            [{"reason": "Other"}, {"status": "True", "minTimeSinceLastTransitionSeconds": 0}], [{}],
        ],
    }, 0.25)  # fmt: skip


def _failed(draw: random.Random) -> Json:
    return _some(draw, {
        "minPodLifetimeSeconds": [0, 500, 6000], "excludeOwnerKinds": [["Job"]],
        "reasons": [["OOMKilled"], ["Error", "NodeLost"], ["ErrImagePull"]],
        "exitCodes": [[1], [137, 0]], "includingInitContainers": [True],
    }, 0.3)  # fmt: skip


def _restarts(draw: random.Random) -> Json:
    threshold = {"podRestartThreshold": draw.choice([1, 1, 4, 9, 0])}
    options = {"includingInitContainers": [True],
               "states": [["Running"], ["CrashLoopBackOff"], ["Failed"]]}  # fmt: skip
    return threshold | _some(draw, options)


def _node_affinity(draw: random.Random) -> Json:
    kinds = [[REQUIRED], [PREFERRED], *[[REQUIRED, PREFERRED]] * 5, []]
    return {"nodeAffinityType": draw.choice(kinds)} | _some(draw, {})


def _taints(draw: random.Random) -> Json:
    names = [["dedicated"], ["dedicated=db"], ["old"], ["dedicated=web", "broken"], ["old="]]
    return _some(draw, {"includePreferNoSchedule": [True], "excludedTaints": names,
                        "includedTaints": names})  # fmt: skip


def _duplicates(draw: random.Random) -> Json:
    args = _some(draw, {"excludeOwnerKinds": [["ReplicaSet"], ["Job"]]}, 0.2)
    args.pop("labelSelector", None)
    return args


def _spread(draw: random.Random) -> Json:
    return _some(draw, {"constraints": [["ScheduleAnyway", "DoNotSchedule"], ["ScheduleAnyway"]],
                        "topologyBalanceNodeFit": [True, False]})  # fmt: skip


def _low(draw: random.Random) -> Json:
    names = draw.sample(["cpu", "memory", "pods"], draw.randint(1, 3))
    low, high = draw.choice([(20, 50), (40, 60), (10, 30), (30, 30), (60, 30)])
    args: dict[str, Any] = {
        "thresholds": dict.fromkeys(names, low),
        "targetThresholds": dict.fromkeys(names, high),
    }
    options: dict[str, list[Any]] = {
        "numberOfNodes": [1], "useDeviationThresholds": [True], "evictionLimits": [{"node": 1}],
        "evictableNamespaces": [{"exclude": ["other"]}, {"include": ["other"]}],
    }  # fmt: skip
    return args | {name: draw.choice(v) for name, v in options.items() if draw.random() < 0.15}


def _high(draw: random.Random) -> Json:
    names = draw.sample(["cpu", "memory", "pods"], draw.randint(1, 3))
    args: dict[str, Any] = {"thresholds": dict.fromkeys(names, draw.choice([30, 30, 50, 50, 101]))}
    options: dict[str, list[Any]] = {
        "numberOfNodes": [1], "evictionModes": [["OnlyThresholdingResources"], ["Unknown"]],
        "evictableNamespaces": [{"exclude": ["other"]}, {"include": ["other"]}],
    }  # fmt: skip
    return args | {name: draw.choice(v) for name, v in options.items() if draw.random() < 0.15}


_ARGS = {
    "PodLifeTime": _life_time,
    "RemoveFailedPods": _failed,
    "RemovePodsHavingTooManyRestarts": _restarts,
    "RemovePodsViolatingNodeAffinity": _node_affinity,
    "RemovePodsViolatingNodeTaints": _taints,
    "RemovePodsViolatingInterPodAntiAffinity": lambda draw: _some(draw, {}),
    "RemoveDuplicates": _duplicates,
    SPREAD: _spread,
    "LowNodeUtilization": _low,
    "HighNodeUtilization": _high,
}


def _once(theirs: Json) -> Json:
    if "evicted" not in theirs:
        return theirs
    return {"evicted": list(dict.fromkeys(theirs["evicted"]))}


class _Evictions:
    def __init__(self, refused: Json) -> None:
        self.names: list[str] = []
        self._refused = refused

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        if pod.metadata.name in self._refused:
            return False
        self.names.append(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return True


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    plugin = case["plugin"]
    point = "balance" if plugin in _BALANCE else "deschedule"
    evictions = _Evictions(case["refused"])
    try:
        rounds = make(point, plugin, case["args"], evictions, case["evictor"])
    except KoordError:
        return {"invalid": True}
    record = asyncio.run(rounds.run(_snapshot(case)))
    if record.errors:
        return {"failed": True}
    if plugin == SPREAD:
        return {"count": len(evictions.names)}
    return {"evicted": sorted(evictions.names) if plugin == "RemoveDuplicates" else evictions.names}


def _snapshot(case: Json) -> ClusterSnapshot:
    return ClusterSnapshot(
        [codec.convert(node, Node, "a node", "") for node in case["nodes"]],
        [_aged(pod, case["ages"][pod["metadata"]["name"]]) for pod in case["pods"]],
        {each["metadata"]["name"]: codec.convert(each, Namespace, "a namespace", "")
         for each in case["namespaces"]},
        {each["metadata"]["name"]: codec.convert(each, PriorityClass, "a class", "")
         for each in case["priorityClasses"]},
        [codec.convert(each, PodDisruptionBudget, "a budget", "") for each in case["budgets"]],
        {(each["metadata"]["namespace"], each["metadata"]["name"]):
         codec.convert(each, PersistentVolumeClaim, "a claim", "") for each in case["claims"]},
    )  # fmt: skip


def _aged(document: Json, age: int) -> Pod:
    pod = codec.convert(document, Pod, "a pod", "")
    now = datetime.fromtimestamp(NOW, UTC)
    pod.metadata.creation_timestamp = now - timedelta(seconds=age)
    if pod.status.start_time is not None:
        pod.status.start_time = pod.metadata.creation_timestamp
    for condition in pod.status.conditions:
        if condition.message:
            ago = timedelta(seconds=int(condition.message[:-1]))
            condition.last_transition_time = now - ago
    return pod
