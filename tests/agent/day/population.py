# SPDX-License-Identifier: Apache-2.0
"""Pods, NodeSLOs and annotations of a simulated day, drawn by lot."""

from __future__ import annotations

import json
import random
from typing import Any

Document = dict[str, Any]
NODE = "n1"
BROKEN = ("{", "[]", '{"cpuset":7}', "null", "\u0000", '{"cpuset":"9-1"}')
_STATUS = "scheduling.koordinator.sh/resource-status"
_CLASSES = {
    "be": ("BE", {"kubernetes.io/batch-cpu": "1000",
                                "kubernetes.io/batch-memory": "1Gi"}),
    "ls": ("LS", {"cpu": "500m", "memory": "1Gi"}),
    "lsr": ("LSR", {"cpu": "2", "memory": "2Gi"}),
    "plain": ("", {"cpu": "250m"}),
}  # fmt: skip


def pod(name: str, draw: random.Random) -> tuple[Document, Document]:
    """What is created, and the status that its kubelet gives it."""
    kind = draw.choice(("be", "be", "ls", "ls", "lsr", "plain"))
    qos, amounts = _CLASSES[kind]
    containers = [f"c{index}" for index in range(draw.randint(1, 2))]
    annotations = {}
    if kind == "lsr":
        annotations[_STATUS] = json.dumps({"cpuset": draw.choice(("0", "0-1", "2,3"))})
    if draw.random() < 0.15:
        annotations[_STATUS] = draw.choice(BROKEN)
    resources = {"requests": amounts, "limits": amounts}
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    if draw.random() < 0.05:
        labels["koordinator.sh/qosClass"] = "Best"
    made = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels,
                     "annotations": annotations},
        "spec": {
            "nodeName": NODE,
            "priorityClassName": "koord-batch" if kind == "be" else "koord-prod",
            "containers": [{"name": c, "image": "i", "resources": resources} for c in containers],
        },
    }  # fmt: skip
    running = {"running": {"startedAt": "2030-03-17T17:46:40Z"}}
    statuses = [
        {"name": c, "containerID": f"containerd://{name}{c}", "state": running, "ready": True,
         "restartCount": 0, "image": "i", "imageID": "i"}
        for c in containers
    ]  # fmt: skip
    return made, {"phase": "Running", "containerStatuses": statuses}


def slo(draw: random.Random) -> Document:
    """The spec of a NodeSLO; now and then one that switches all off."""
    on = draw.random() < 0.8
    qos = {"enable": draw.random() < 0.7}
    return {
        "resourceUsedThresholdWithBE": {
            "enable": on,
            "cpuSuppressThresholdPercent": draw.choice((30, 65, 90)),
            "cpuSuppressPolicy": draw.choice(("cpuset", "cfsQuota")),
            "memoryEvictThresholdPercent": 70,
        },
        "resourceQOSStrategy": {
            "lsClass": {"memoryQOS": {**qos, "minLimitPercent": draw.choice((0, 30, 100))},
                        "cpuQOS": {**qos, "groupIdentity": draw.choice((0, 1, 2))}},
            "beClass": {"memoryQOS": {**qos, "throttlingPercent": draw.choice((0, 80))},
                        "cpuQOS": {**qos, "groupIdentity": -1}},
        },
        "cpuBurstStrategy": {
            "policy": draw.choice(("none", "auto", "cpuBurstOnly", "cfsQuotaBurstOnly")),
            "cpuBurstPercent": draw.choice((100, 1000)),
        },
        "systemStrategy": {"minFreeKbytesFactor": draw.choice((50, 100, 300)),
                           "watermarkScaleFactor": draw.choice((10, 150))},
    }  # fmt: skip


def node_annotations(draw: random.Random) -> dict[str, str | None]:
    """Annotations of the Node, some of them nonsense; None takes one away."""
    ratio = draw.choice(("1.2", "1.0", "-1", "fast", "1e400", None))
    reserved = draw.choice((json.dumps({"reservedCPUs": "0"}), "{", None))
    return {
        "node.koordinator.sh/cpu-normalization-ratio": ratio,
        "node.koordinator.sh/reservation": reserved,
    }
