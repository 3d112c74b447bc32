# SPDX-License-Identifier: Apache-2.0
"""LoadAwareScheduling: what a pod is expected to use, whether its node takes it, and the score.

One node, whose NodeMetric and pods come in any order. Now is :data:`START`; the driver moves all
times to its own now.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.plugins.loadaware.reports import START, Load, text
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20263
_NODE = "n"
_CPU = ["0", "250m", "1", "1500m", "2", "3999m", "4", "5", "7"]
_MEMORY = ["0", "1", "200Mi", "1Gi", "3Gi", "7Gi", "8Gi"]
_STATISTICS = ["avg", "p50", "p90", "p95", "p99"]
_DURATIONS = ["0s", "5m0s", "10m0s", "30m0s"]
_CLASSES = ["", "koord-prod", "koord-mid", "koord-batch", "koord-free", "other"]
_PERCENTS = [0, 0, 30, 50, 65, 66, 80, 95, 100]


def inputs(draw: random.Random) -> list[Json]:
    """400 cases."""
    return [_case(draw) for _ in range(400)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    load = Load(**case["args"])
    load.put(_read(case["node"], Node))
    infos: dict[str, PodInfo] = {}
    row = load.table.row(_NODE)
    assert row is not None
    for step in case["steps"]:
        if "metric" in step:
            load.put(_read(step["metric"], NodeMetric))
        elif "pod" in step:
            info = load.world.shapes.info(_read(step["pod"], Pod))
            infos[info.uid] = info
            load.world.accounts.add(row, info)
        elif "drop" in step:
            load.views.view(NodeMetric).remove(step["drop"])
        else:
            load.world.accounts.drop(infos.pop(step["gone"]["metadata"]["uid"]))
    pod = _read(case["pod"], Pod)
    reasons, scores = load.ask(pod)
    amounts = load.plugin._pod_estimate(load.world.shapes.info(pod).shape).estimate
    estimate = {name: n for name, n in zip(load.plugin.names, amounts, strict=True) if n}
    return {"estimate": estimate, "refused": reasons[_NODE] or "", "score": scores[_NODE]}


def _read(document: Json, kind: Any) -> Any:
    return codec.decode_json(json.dumps(document).encode(), kind, kind.__name__)


def _case(draw: random.Random) -> Json:
    args, steps = _args(draw), []
    pods = [_pod(draw, f"p{number}", _NODE) for number in range(draw.randint(0, 4))]
    steps += [{"pod": pod} for pod in pods]
    for _ in range(draw.choice([0, 1, 1, 1, 1, 2])):
        steps.insert(draw.randint(0, len(steps)), {"metric": _metric(draw, pods, args)})
    if draw.random() < 0.05 and any("metric" in step for step in steps):
        steps.append({"drop": _NODE})
    if pods and draw.random() < 0.25:
        steps.append({"gone": draw.choice(pods)})
    pod = _pod(draw, "new", "")
    if draw.random() < 0.05:
        owner: dict[str, Any] = {"kind": draw.choice(["DaemonSet", "Job"]), "name": "d", "uid": "d"}
        owner |= {"controller": True} if draw.random() < 0.5 else {}
        pod["metadata"]["ownerReferences"] = [owner]
    return {"args": args, "node": _node(draw), "steps": steps, "pod": pod}


def _percents(draw: random.Random) -> dict[str, int]:
    names = ["cpu", "memory", "example.com/x"]
    return {name: draw.choice(_PERCENTS) for name in draw.sample(names, draw.randint(0, 2))}


def _args(draw: random.Random) -> Json:
    args: dict[str, Any] = {
        "filterExpiredNodeMetrics": draw.random() < 0.7,
        "enableScheduleWhenNodeMetricsExpired": draw.random() < 0.4,
        "nodeMetricExpirationSeconds": draw.choice([100, 180]),
        "resourceWeights": draw.choice([{"cpu": 1, "memory": 1}, {"cpu": 3}, {"memory": 100}]),
        "dominantResourceWeight": draw.choice([0, 0, 1, 5]),
        "usageThresholds": _percents(draw) or {"cpu": 65, "memory": 95},
        "prodUsageThresholds": _percents(draw) if draw.random() < 0.3 else {},
        "prodUsageIncludeSys": draw.random() < 0.4,
        "scoreAccordingProdUsage": draw.random() < 0.5,
        "estimatedScalingFactors": {
            "cpu": draw.choice([85, 100, 33, 1]), "memory": draw.choice([70, 100, 3]),
        },
        "allowCustomizeEstimation": draw.random() < 0.6,
    }  # fmt: skip
    if draw.random() < 0.3:
        args["estimatedScalingFactors"]["example.com/x"] = 50
    if draw.random() < 0.3:
        args["estimatedSecondsAfterPodScheduled"] = draw.choice([0, 60, 300])
    if draw.random() < 0.3:
        args["estimatedSecondsAfterInitialized"] = draw.choice([0, 60, 300])
    if draw.random() < 0.4:
        args["aggregated"] = {
            "usageThresholds": _percents(draw), "usageAggregationType": draw.choice(_STATISTICS),
            "usageAggregatedDuration": draw.choice(_DURATIONS),
            "scoreAggregationType": draw.choice(["", *_STATISTICS]),
            "scoreAggregatedDuration": draw.choice(_DURATIONS),
        }  # fmt: skip
    return args


def _node(draw: random.Random) -> Json:
    offered = {"cpu": draw.choice(["8", "4", "7500m"]), "memory": draw.choice(["8Gi", "10G", "0"])}
    offered |= {"example.com/x": "10"} if draw.random() < 0.3 else {}
    notes = {}
    if draw.random() < 0.2:
        raw = draw.choice(['{"cpu":"4"}', '{"cpu":"4","memory":"4Gi"}', "{}", "{", "null"])
        notes[keys.RAW_ALLOCATABLE] = raw
    if draw.random() < 0.3:
        own: dict[str, Any] = {"usageThresholds": _percents(draw)}
        own |= {"prodUsageThresholds": _percents(draw)} if draw.random() < 0.4 else {}
        if draw.random() < 0.5:
            part = {"usageThresholds": _percents(draw), "usageAggregatedDuration": "5m0s"}
            part["usageAggregationType"] = draw.choice([*_STATISTICS, ""])
            own["aggregatedUsage"] = part
        notes[keys.USAGE_THRESHOLDS] = draw.choice([json.dumps(own)] * 6 + ["{", "null"])
    meta = {"name": _NODE, "annotations": notes}
    return {"metadata": meta, "status": {"allocatable": offered}}


def _usage(draw: random.Random) -> Json:
    if draw.random() < 0.08:
        return {}
    found = {"cpu": draw.choice(_CPU), "memory": draw.choice(_MEMORY)}
    found |= {"example.com/x": draw.choice(["0", "3", "9"])} if draw.random() < 0.3 else {}
    return {"resources": found}


def _metric(draw: random.Random, pods: list[Json], args: Json) -> Json:
    status: dict[str, Any] = {}
    if draw.random() < 0.95:
        oldest = args["nodeMetricExpirationSeconds"]
        ages = [0, 10, 30, 30, 60, 60, oldest - 20, oldest, oldest + 50]
        status["updateTime"] = text(START - draw.choice(ages))
    if draw.random() < 0.93:
        status["nodeMetric"] = info = {"nodeUsage": _usage(draw), "systemUsage": _usage(draw)}
        if draw.random() < 0.5:
            info["aggregatedNodeUsages"] = [
                {"duration": each, "usage": {s: _usage(draw) for s in draw.sample(_STATISTICS, 4)}}
                for each in draw.sample(_DURATIONS, draw.randint(1, 3))
            ]
    status["podsMetric"] = [
        {
            "namespace": "d", "name": pod["metadata"]["name"], "podUsage": _usage(draw),
            "priority": draw.choice(_CLASSES[:4]),
        }
        for pod in pods if draw.random() < 0.7
    ]  # fmt: skip
    spec = {}
    if draw.random() < 0.4:
        spec["metricCollectPolicy"] = {"reportIntervalSeconds": draw.choice([0, 30, 60, 120])}
    return {"metadata": {"name": _NODE}, "spec": spec, "status": status}


def _amounts(draw: random.Random, prefix: str) -> dict[str, str]:
    found = {}
    if draw.random() < 0.7:
        milli = draw.choice(["0", "1", "100", "1500", "3000"])
        found[f"{prefix}cpu"] = milli if prefix else f"{milli}m"
    if draw.random() < 0.7:
        found[f"{prefix}memory"] = draw.choice(_MEMORY[:6])
    if draw.random() < 0.1:
        found["example.com/x"] = draw.choice(["0", "1", "7"])
    return found


def _pod(draw: random.Random, name: str, node: str) -> Json:
    prefix = draw.choice(["", "", "", "kubernetes.io/batch-", "kubernetes.io/mid-"])
    labels, notes = {}, {}
    if draw.random() < 0.6:
        labels[keys.PRIORITY_CLASS] = draw.choice(_CLASSES)
    if draw.random() < 0.3:
        factors = ['{"cpu":50}', '{"cpu":10,"memory":200}', "{}", "{", '{"example.com/x":100}']
        notes[keys.LOAD_ESTIMATED_SCALING_FACTORS] = draw.choice(factors)
    seconds = ["0", "-1", "60", "300", "x", ""]
    if draw.random() < 0.2:
        notes[keys.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED] = draw.choice(seconds)
    if draw.random() < 0.2:
        notes[keys.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED] = draw.choice(seconds)
    resources = {"requests": _amounts(draw, prefix), "limits": _amounts(draw, prefix)}
    conditions = []
    for kind, share in (("PodScheduled", 0.7), ("Initialized", 0.5)) if node else ():
        if draw.random() < share:
            when = text(START - draw.choice([0, 30, 60, 61, 90, 200, 400]))
            condition = {"type": kind, "status": draw.choice(["True", "True", "True", "False"])}
            conditions.append({**condition, "lastTransitionTime": when})
    meta = {"name": name, "namespace": "d", "uid": name, "labels": labels, "annotations": notes}
    containers = [{"name": "c", "resources": resources}]
    spec: dict[str, Any] = {"containers": containers, "nodeName": node}
    if draw.random() < 0.3:
        spec["priority"] = draw.choice([9500, 7500, 5500, 3500, 0])
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}


DIFFERENCES: dict[str, Difference] = {}
_FAILING = "the rest is for estimates that fail, as the default ones never do, and for logs"
COVERAGE = {
    "loadaware/load_aware.go:Score": _FAILING,
    "loadaware/load_aware.go:addEstimatedOfIncoming": _FAILING,
    "loadaware/pod_assign_cache.go:DeleteNodeMetric": "the rest is for events at the same time",
}
