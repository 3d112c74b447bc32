# SPDX-License-Identifier: Apache-2.0
"""What a node offers as batch and mid resources, of itself and by NUMA zone.

Milli-cores and bytes; memory of zones in thousandths of a byte. None where nothing is offered.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol import annotation, keys
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20263
COVERAGE: dict[str, str] = {}

NOW = 1_800_000_000
_GIB = 1 << 30
_CLASSES = ["koord-prod", "koord-mid", "koord-batch", "koord-free"]
_QOS = ["LSE", "LSR", "LS", "BE", "SYSTEM"]


def inputs(draw: random.Random) -> list[Json]:
    """Nodes with pods, reports, strategies and zones."""
    return [_case(draw) for _ in range(500)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    ledger = OvercommitCache()
    strategy = codec.convert({"enable": True, **case["strategy"]}, ColocationStrategy, "strategy")
    ledger.put_node(codec.convert(case["node"], Node, "node"), strategy)
    for each in case["pods"]:
        ledger.put_pod(codec.convert(each, Pod, "pod"))
    metric = case["metric"]
    if case["ageSeconds"] is not None:
        moment = datetime.fromtimestamp(NOW - case["ageSeconds"], UTC)
        metric["status"]["updateTime"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    ledger.put_metric(codec.convert(metric, NodeMetric, "metric"))
    if case["topology"] is not None:
        ledger.put_topology(codec.convert(case["topology"], NodeResourceTopology, "topology"))
    ledger.recompute(NOW)
    found = {}
    for kind, offer in (("batch", ledger.batch), ("mid", ledger.mid)):
        found[kind] = None if offer.degraded[0] else offer.amounts[:, 0].tolist()
    there = [] if found["batch"] is None else np.flatnonzero(ledger.zones.present[:, 0]).tolist()
    zones = {f"node-{number}": ledger.zone_amounts[:, number, 0].tolist() for number in there}
    return {**found, "zones": zones}


def _amounts(draw: random.Random, cpu: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{draw.randint(0, cpu)}m", "memory": str(draw.randint(0, memory))}


def _usage(draw: random.Random, cpu: int, memory: int) -> Json:
    return {"resources": _amounts(draw, cpu, memory)}


def _pod(draw: random.Random, number: int, zones: int) -> Json:
    labels, annotations = {}, {}
    if draw.random() < 0.6:
        labels[keys.PRIORITY_CLASS] = draw.choice([*_CLASSES, "strange"])
    if draw.random() < 0.5:
        labels[keys.QOS_CLASS] = draw.choice(_QOS)
    if zones and draw.random() < 0.4:
        numa = [{"node": draw.randint(-1, zones)} for _ in range(draw.randint(1, 2))]
        unique = list({each["node"]: each for each in numa}.values())
        annotations[keys.RESOURCE_STATUS] = annotation.text({"numaNodeResources": unique})
    spec: dict[str, Any] = {"nodeName": "n"}
    containers = range(draw.randint(1, 2))
    spec["containers"] = [
        {"name": f"c{i}", "resources": {"requests": _amounts(draw, 4000, 8 * _GIB)}}
        for i in containers
    ]
    if draw.random() < 0.2:
        first = {"name": "i", "resources": {"requests": _amounts(draw, 9000, 9 * _GIB)}}
        spec["initContainers"] = [first]
    if draw.random() < 0.5:
        spec["priority"] = draw.choice([0, 2999, 3000, 5500, 5999, 7000, 7999, 9000, 9999, 10000])
    meta = {"name": f"p{number}", "namespace": "d", "uid": f"p{number}", "labels": labels}
    phase = draw.choice(["Running"] * 5 + ["Pending", "Succeeded", "Failed"])
    qos = draw.choice(["Guaranteed", "Burstable", "BestEffort"])
    return {
        "metadata": {**meta, "annotations": annotations}, "spec": spec,
        "status": {"phase": phase, "qosClass": qos},
    }  # fmt: skip


def _strategy(draw: random.Random) -> Json:
    found: dict[str, Any] = {"degradeTimeMinutes": draw.choice([1, 2, 15])}
    policies = ["usage", "request", "maxUsageRequest", "other"]
    for name in ("cpuCalculatePolicy", "memoryCalculatePolicy"):
        if draw.random() < 0.7:
            found[name] = draw.choice(policies)
    for name in ("cpuReclaimThresholdPercent", "memoryReclaimThresholdPercent"):
        if draw.random() < 0.7:
            found[name] = draw.choice([0, 1, 33, 60, 65, 99, 100, 110, 130])
    for name in ("batchCPUThresholdPercent", "batchMemoryThresholdPercent"):
        if draw.random() < 0.3:
            found[name] = draw.choice([0, 7, 29, 50, 57, 100, 120])
    if draw.random() < 0.4:
        found["midReclaimMode"] = draw.choice(["static", "dynamic"])
    for name in (
        "midCPUThresholdPercent", "midMemoryThresholdPercent", "midUnallocatedPercent",
        "midStaticCPUReservedPercent", "midStaticMemoryReservedPercent",
    ):  # fmt: skip
        if draw.random() < 0.5:
            found[name] = draw.choice([0, 7, 29, 33, 57, 58, 100])
    return found


def _node(draw: random.Random) -> Json:
    cpu, memory = draw.randint(8_000, 96_000), draw.randint(16 * _GIB, 256 * _GIB)
    capacity = {"cpu": f"{cpu}m", "memory": str(memory), "pods": "110"}
    held_cpu, held_memory = draw.choice([(0, 0), (500, _GIB), (3_000, 9 * _GIB)])
    allocatable = {"cpu": f"{cpu - held_cpu}m", "memory": str(memory - held_memory), "pods": "110"}
    annotations = {}
    if draw.random() < 0.3:
        reservation: dict[str, Any] = {"resources": _amounts(draw, 4_000, 8 * _GIB)}
        if draw.random() < 0.4:
            reservation["reservedCPUs"] = draw.choice(["0-3", "0,2", "x", "1-1"])
        if draw.random() < 0.4:
            reservation["applyPolicy"] = draw.choice(["", "Default", "ReservedCPUsOnly"])
        annotations[keys.NODE_RESERVATION] = annotation.text(reservation)
    return {
        "metadata": {"name": "n", "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }


def _metric(draw: random.Random, pods: list[Json], missing: float) -> Json:
    named = [pod["metadata"]["name"] for pod in pods if draw.random() >= missing]
    if draw.random() < 0.3:
        named.append("gone")
    reports = []
    for name in named:
        entry = {"name": name, "namespace": "d", "podUsage": _usage(draw, 6000, 9 * _GIB)}
        if draw.random() < 0.6:
            entry["priority"] = draw.choice(_CLASSES)
        reports.append(entry)
    body = {"systemUsage": _usage(draw, 3000, 6 * _GIB)}
    if draw.random() < 0.9:
        body["nodeUsage"] = _usage(draw, 40_000, 90 * _GIB)
    status: dict[str, Any] = {"podsMetric": reports, "nodeMetric": body}
    if draw.random() < 0.3:
        app = {"name": "a", "priority": draw.choice(_CLASSES), "usage": _usage(draw, 2000, _GIB)}
        status["hostApplicationMetric"] = [app]
    if draw.random() < 0.7:
        status["prodReclaimableMetric"] = {"resource": _usage(draw, 20_000, 40 * _GIB)}
    return {"metadata": {"name": "n"}, "status": status}


def _topology(draw: random.Random, zones: int) -> Json:
    found = []
    for number in range(zones):
        amounts = _amounts(draw, 48_000, 128 * _GIB)
        resources = [
            {"name": name, "capacity": text, "allocatable": text, "available": text}
            for name, text in amounts.items()
        ]
        found.append({"name": f"node-{number}", "type": "Node", "resources": resources})
    return {"metadata": {"name": "n"}, "topologyPolicies": ["None"], "zones": found}


def _case(draw: random.Random) -> Json:
    zones = draw.choice([0, 0, 1, 2, 2, 4])
    pods = [_pod(draw, number, zones) for number in range(draw.randint(0, 8))]
    return {
        "strategy": _strategy(draw), "node": _node(draw), "pods": pods,
        "metric": _metric(draw, pods, draw.choice([0, 0, 0.3])),
        "ageSeconds": draw.choice([0, 0, 0, 0, 30, 58, 62, 118, 122, 898, 902, None]),
        "topology": _topology(draw, zones) if zones else None,
    }  # fmt: skip


def _counted_without_metric(case: Json, theirs: Json, ours: Json) -> Json:
    measured = {each["name"] for each in case["metric"]["status"]["podsMetric"]}
    counted = {
        pod["metadata"]["name"] for pod in case["pods"]
        if pod["status"]["phase"] in ("Running", "Pending")
    }  # fmt: skip
    if counted <= measured or not theirs["batch"]:
        return theirs
    batch = list(theirs["batch"])
    for at, resource in enumerate(("cpu", "memory")):
        policy = case["strategy"].get(f"{resource}CalculatePolicy")
        if policy == "maxUsageRequest":
            batch[at] = min(batch[at], ours["batch"][at])
    return {**theirs, "batch": batch}


_CPUS = {"0-3": 4, "0,2": 2, "1-1": 1}
_PARTS = 1, 1000
_NAMES = ("cpu", "CPU"), ("memory", "Memory")


def _at(amounts: Json, at: int) -> int:
    """Milli-cores or bytes."""
    text: str = amounts.get(("cpu", "memory")[at], "0")
    return int(text.removesuffix("m"))


def _reserved(case: Json, at: int) -> int:
    """What the kubelet or the annotation holds back, whichever is more."""
    status = case["node"]["status"]
    kubelet = _at(status["capacity"], at) - _at(status["allocatable"], at)
    text = case["node"]["metadata"]["annotations"].get(keys.NODE_RESERVATION)
    if text is None:
        return kubelet
    annotation = json.loads(text)
    listed = annotation.get("reservedCPUs")
    if listed and listed not in _CPUS:
        return kubelet
    if listed and at == 0:
        return max(kubelet, 1000 * _CPUS[listed])
    return max(kubelet, _at(annotation["resources"], at))


def _lent(case: Json, at: int, amount: int, ours: int, capacity: int, parts: int) -> int:
    """What is left of an offer where no share is more than the whole."""
    lower, upper = _NAMES[at]
    reclaim = case["strategy"].get(f"{lower}ReclaimThresholdPercent", 0)
    cap = case["strategy"].get(f"batch{upper}ThresholdPercent")
    bound = None if cap is None else int(capacity * (cap / 100)) * parts
    if reclaim > 100:
        # What was cut by the bound cannot be known from what the cut has left.
        if bound is not None and amount == bound:
            amount = min(amount, ours)
        else:
            amount = max(0, amount + int(capacity * ((100 - reclaim) / 100)) * parts)
    return amount if bound is None else min(amount, capacity * parts)


def _above_the_whole(case: Json, theirs: Json, ours: Json) -> Json:
    if theirs["batch"] is None:
        return theirs
    capacity = case["node"]["status"]["capacity"]
    batch = [
        _lent(case, at, amount, ours["batch"][at], _at(capacity, at), 1)
        for at, amount in enumerate(theirs["batch"])
    ]
    zones = dict(theirs["zones"])
    for zone in case["topology"]["zones"] if zones else []:
        name = zone["name"]
        there = {each["name"]: each["allocatable"] for each in zone["resources"]}
        zones[name] = [
            _lent(case, at, amount, ours["zones"][name][at], _at(there, at), _PARTS[at])
            for at, amount in enumerate(zones[name])
        ]
    return {**theirs, "batch": batch, "zones": zones}


def _beyond_the_machine(case: Json, theirs: Json, ours: Json) -> Json:
    if theirs["batch"] is None:
        return theirs
    capacity = case["node"]["status"]["capacity"]
    room = [max(0, _at(capacity, at) - _reserved(case, at)) for at in (0, 1)]
    mid = [min(each, most) for each, most in zip(theirs["mid"], room, strict=True)]
    left = [most - each for each, most in zip(mid, room, strict=True)]
    batch = [min(each, most) for each, most in zip(theirs["batch"], left, strict=True)]
    return {**theirs, "batch": batch, "mid": mid}


DIFFERENCES = {
    "nodeslo-percentages-above-100": Difference(
        "a share of more than 100 percent is taken as 100",
        adjusted=_above_the_whole,
    ),
    "overcommit-beyond-the-machine": Difference(
        "batch and mid together are what the machine has less its reservation, at most",
        adjusted=_beyond_the_machine,
    ),
    "overcommit-pod-without-metric": Difference(
        "a pod without a metric counts by its request, of the node as of its zones",
        adjusted=_counted_without_metric,
    ),
}  # fmt: skip
