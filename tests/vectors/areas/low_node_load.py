# SPDX-License-Identifier: Apache-2.0
"""LowNodeLoad: what some rounds over a small cluster evict, in which order and for which reason.

The original walks nodes in a map; cases of which the order of nodes decides the outcome are left
out. Ages are told beside pods and reports, in seconds before now.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.controllers.descheduler.framework.handle import DeschedulerHandle, StrategyEvictor
from koord.controllers.descheduler.framework.limiter import EvictionLimiter, EvictionLimits
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.plugins.loadaware.low_node_load import LowNodeLoad
from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import LowNodeLoadArgs
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

    from koord.controllers.descheduler.framework.points import PodEviction

SEED = 20291
COVERAGE = {"loadaware/low_node_load.go:NewLowNodeLoad": "the rest makes a client of a cluster"}
DIFFERENCES: dict[str, Difference] = {}

_NOW = 1_700_000_000.0
_EXPIRED = 200
_PRIORITIES = [9500, 9000, 7500, 5500, 3500, None, 100]
_GI = 1024**3


def inputs(draw: random.Random) -> list[Json]:
    """Four hundred clusters."""
    cases: list[Json] = []
    while len(cases) < 400:
        case = _case(draw)
        if _answer(case, reverse=False) == _answer(case, reverse=True):
            cases.append(case)
    return cases


def _case(draw: random.Random) -> Json:
    nodes = [_node(draw, f"n{number}") for number in range(draw.randint(2, 5))]
    pods: list[Json] = []
    for node in nodes:
        for _ in range(draw.choice([0, 2, 5, 8] if pods else [4, 8])):
            pods.append(_pod(draw, len(pods), node["metadata"]["name"]))
    ages = draw.sample(range(1, 100), len(pods))
    metrics = {node["metadata"]["name"]: _metric(draw, node, pods) for node in nodes}
    if draw.random() < 0.1:
        del metrics[draw.choice(sorted(metrics))]
    return {
        "args": _args(draw),
        "nodes": nodes,
        "pods": pods,
        "ages": {pod["metadata"]["name"]: age for pod, age in zip(pods, ages, strict=True)},
        "rounds": [metrics] * draw.choice([1, 1, 3]),
        "old": {name: _EXPIRED if draw.random() < 0.05 else 20 for name in metrics},
    }


def _node(draw: random.Random, name: str) -> Json:
    cpu = draw.choice([8, 16, 32])
    allocatable = {"cpu": str(cpu), "memory": f"{cpu * 2}Gi", "pods": "20"}
    meta: dict[str, Any] = {"name": name, "labels": {"pool": draw.choice("ab")}}
    if draw.random() < 0.15:
        raw = f'{{"cpu":"{cpu // 2}","memory":"{cpu * 2}Gi","pods":"20"}}'
        meta["annotations"] = {"node.koordinator.sh/raw-allocatable": draw.choice([raw, "{"])}
    return {
        "metadata": meta,
        "spec": {"unschedulable": draw.random() < 0.07},
        "status": {"allocatable": allocatable},
    }


def _pod(draw: random.Random, number: int, node_name: str) -> Json:
    labels = {"app": draw.choice("xxxy")}
    for label in ("stay", "refuse"):
        if draw.random() < 0.06:
            labels[label] = "yes"
    if draw.random() < 0.3:
        labels["koordinator.sh/qosClass"] = draw.choice(["LS", "BE", "LSR"])
    annotations = {}
    for key in ("controller.kubernetes.io/pod-deletion-cost",
                "scheduling.koordinator.sh/eviction-cost"):  # fmt: skip
        if draw.random() < 0.1:
            annotations[key] = draw.choice(["1", "-5", "+5", "008", "x"])
    spec: dict[str, Any] = {
        "nodeName": node_name,
        "containers": [
            {"name": "c", "resources": {"requests": {"cpu": draw.choice(["100m", "1"]),
                                                     "memory": "512Mi"}}},
        ],
    }  # fmt: skip
    priority = draw.choice(_PRIORITIES)
    if priority is not None:
        spec["priority"] = priority
    meta = {"name": f"p{number:02}", "namespace": draw.choice(["default", "default", "other"]),
            "labels": labels, "annotations": annotations}  # fmt: skip
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def _metric(draw: random.Random, node: Json, pods: list[Json]) -> Json:
    name = node["metadata"]["name"]
    cpu = int(node["status"]["allocatable"]["cpu"])
    levels = [0.7, 0.9, 1.1] if name == "n0" else [0.0, 0.1, 0.1, 0.3, 0.5, 0.9]
    level = draw.choice(levels)
    own = [pod["metadata"] for pod in pods if pod["spec"]["nodeName"] == name]
    usages = []
    for meta in own:
        if draw.random() < 0.08:
            continue
        part = level * draw.choice([0.5, 1, 1.5]) / max(len(own), 1)
        milli, size = int(part * cpu * 1000), int(part * cpu * 2 * _GI)
        resources = {"cpu": f"{milli}m", "memory": str(size)}
        usages.append({"name": meta["name"], "namespace": meta["namespace"],
                       "podUsage": {"resources": resources}})  # fmt: skip
    system = {"cpu": f"{int(cpu * 1000 * draw.choice([0, 0.05]))}m", "memory": f"{_GI}"}
    status: dict[str, Any] = {
        "updateTime": "2023-01-01T00:00:00Z",
        "nodeMetric": {"systemUsage": {"resources": system}},
        "podsMetric": usages,
    }
    for key in ("updateTime", "nodeMetric"):
        if draw.random() < 0.02:
            del status[key]
    return {"metadata": {"name": name}, "status": status}


def _args(draw: random.Random) -> Json:
    args = _thresholds(draw)
    abnormalities = draw.choice([1, 1, 1, 1, 2, 0])
    options: dict[str, tuple[float, list[Any]]] = {
        "anomalyCondition": (0.95, [{"timeout": "60s", "consecutiveAbnormalities": abnormalities,
                                     "consecutiveNormalities": draw.choice([1, 3])}]),
        "nodeFit": (0.5, [False, True]),
        "numberOfNodes": (0.1, [1, 2]),
        "dryRun": (0.05, [True]),
        "paused": (0.03, [True]),
        "useDeviationThresholds": (0.2, [True]),
        "evictableNamespaces": (0.1, [{"include": ["default"]}, {"exclude": ["default"]}]),
        "podSelectors": (0.1, [[{"name": "x", "selector": {"matchLabels": {"app": "x"}}}]]),
        "nodeSelector": (0.1, [{"matchLabels": {"pool": "a"}}]),
        "resourceWeights": (0.2, [{"cpu": 3, "memory": 1}, {"cpu": 0}]),
        "nodePools": (0.15, [[{"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}},
                               **_thresholds(draw)}]]),
    }  # fmt: skip
    return args | {
        name: draw.choice(values) for name, (chance, values) in options.items()
        if draw.random() < chance
    }  # fmt: skip


def _thresholds(draw: random.Random) -> Json:
    names = draw.choice([["cpu"], ["cpu", "memory"], ["cpu", "memory"], ["cpu", "pods"]])
    low, high = draw.choice([*[(20, 50), (40, 60), (45, 75), (30, 30)] * 3, (70, 60)])
    kinds: dict[str, Any] = {
        "lowThresholds": dict.fromkeys(names, low), "highThresholds": dict.fromkeys(names, high),
    }  # fmt: skip
    if draw.random() < 0.5:
        kinds["prodLowThresholds"] = dict.fromkeys(names, low - 10)
        kinds["prodHighThresholds"] = dict.fromkeys(names, high - 5)
    if draw.random() < 0.1:
        kinds["highThresholds"]["memory"] = 80
    return kinds


class _Evictions:
    """Filters and evicts as the driver does."""

    def __init__(self) -> None:
        self.evicted: list[list[str]] = []

    def filter(self, pod: Pod) -> bool:
        return not pod.metadata.labels.get("stay")

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return True

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        if pod.metadata.labels.get("refuse"):
            return False
        self.evicted.append([f"{pod.metadata.namespace}/{pod.metadata.name}", request.reason])
        return True


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    return _answer(case, reverse=False)


def _answer(case: Json, *, reverse: bool) -> Json:
    try:
        args = LowNodeLoadArgs.read(case["args"], FieldPath("args"))
    except KoordError:
        return {"invalid": True}
    evictions, clock = _Evictions(), VirtualClock(_NOW)
    evictor = StrategyEvictor(EvictionLimiter(EvictionLimits()), False, RoundRecord())
    evictor.filters, evictor.evict_plugin = [evictions], evictions
    handle = DeschedulerHandle(evictor, evictions, clock)
    plugin = LowNodeLoad(args, handle)
    answers = []
    for metrics in case["rounds"]:
        snapshot = _snapshot(case, metrics, reverse=reverse)
        handle.begin_round(snapshot)
        evictions.evicted = []
        asyncio.run(plugin.balance(snapshot.nodes))
        answers.append(evictions.evicted)
    return {"rounds": answers}


def _snapshot(case: Json, metrics: Json, *, reverse: bool) -> ClusterSnapshot:
    nodes = [codec.convert(node, Node, "a node", "") for node in case["nodes"]]
    pods = [codec.convert(pod, Pod, "a pod", "") for pod in case["pods"]]
    now = datetime.fromtimestamp(_NOW, UTC)
    for pod in pods:
        age = timedelta(seconds=case["ages"][pod.metadata.name])
        pod.metadata.creation_timestamp = now - age
    measured = {
        name: codec.convert(metric, NodeMetric, "a metric", "") for name, metric in metrics.items()
    }
    for name, metric in measured.items():
        if metric.status.update_time is not None:
            metric.status.update_time = now - timedelta(seconds=case["old"][name])
    return ClusterSnapshot(nodes[::-1] if reverse else nodes, pods, node_metrics=measured)
