# SPDX-License-Identifier: Apache-2.0
"""What tenants can put onto one node: pods as their kubelet tells of them, drawn with a seed.

Such a pod has no cgroups yet, as any pod in its first moments. What it may not do is told by those
who look at koordlet and at the others' cgroups meanwhile.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]

FORGED_LINE = "level=error message=forged"
_STATUS = "scheduling.koordinator.sh/resource-status"
_DEVICES = "scheduling.koordinator.sh/device-allocated"
_SCORE, _SCORES = "koordinator.sh/oom-score-adj", "koordinator.sh/oom-score-adj-spec"
_NETWORK, _MEMORY = "koordinator.sh/networkQOS", "koordinator.sh/memoryQOS"
_BURST = "koordinator.sh/cpuBurst"
_SERVED = (
    _STATUS, _DEVICES, _SCORE, _SCORES, _NETWORK, _MEMORY, _BURST,
    "koordinator.sh/cpuQOS", "koordinator.sh/blkioQOS", "node.koordinator.sh/resctrl",
    "node.koordinator.sh/extended-resource-spec", "scheduling.koordinator.sh/soft-eviction",
)  # fmt: skip
_CLASSES = ("LSE", "LSR", "LS", "BE", "SYSTEM", "", "Ls", "\u0130", "x" * 63)
_MANY = 1500


def claims(cpus: str) -> dict[str, str]:
    """Annotations that ask for what no tenant may give itself, each well-formed.

    Args:
        cpus: that another pod has for its own.
    """
    card = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    return {
        _STATUS: json.dumps({"cpuset": cpus}),
        _DEVICES: json.dumps({"gpu": [{"minor": minor, "resources": card} for minor in range(64)]}),
        _SCORE: "-1000",
        _NETWORK: json.dumps({"ingressLimit": "-1", "egressLimit": "-9E"}),
        _MEMORY: json.dumps({"policy": "auto", "minLimitPercent": 10**9, "wmarkRatio": 0}),
        _BURST: json.dumps({"policy": "auto", "cfsQuotaBurstPercent": 10**9}),
    }


class NodePods:
    """Pods of one node that change at every round.

    Args:
        seed: of everything drawn.
        cpus: that a good pod has for its own.
        known: another pod's UID, which a label or a name may repeat.
    """

    def __init__(self, seed: int, cpus: str, known: str) -> None:
        self.random = random.Random(seed)
        self.cpus, self.known = cpus, known
        self.documents: list[Document] = []
        self.kinds: list[str] = []
        self._left: list[Callable[[NodePods], list[Document]]] = []

    def change(self) -> None:
        """Other pods than before, of half of the kinds: two rounds have each."""
        if not self._left:
            self._left = self.random.sample(KINDS, len(KINDS))
        half = len(KINDS) // 2
        kinds, self._left = self._left[:half], self._left[half:]
        self.kinds += [kind.__name__ for kind in kinds]
        self.documents = [document for kind in kinds for document in kind(self)]

    def uid(self) -> str:
        """As the API server makes them."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def pod(self, annotations: dict[str, str] | None = None, **changes: Any) -> Document:
        """One with a container; what ``changes`` names of metadata, spec and status is replaced."""
        uid = self.uid()
        metadata = {
            "name": f"m-{uid[:8]}", "namespace": "mallory", "uid": uid,
            "labels": {"koordinator.sh/qosClass": self.random.choice(_CLASSES)},
            "annotations": annotations or {}, "creationTimestamp": "2023-01-01T00:00:00Z",
        }  # fmt: skip
        asked = {"cpu": "1", "memory": "64Mi"}
        spec = {
            "nodeName": "scene",
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": asked, "limits": asked}}
            ],
        }
        status = {
            "phase": "Running", "qosClass": "Guaranteed",
            "containerStatuses": [
                {"name": "c", "containerID": f"containerd://{uid.replace('-', '')}", "image": "i",
                 "imageID": "i", "ready": True, "restartCount": 0, "state": {"running": {}}}
            ],
        }  # fmt: skip
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata | changes.get("metadata", {}),
            "spec": spec | changes.get("spec", {}),
            "status": status | changes.get("status", {}),
        }


def forged_claims(node: NodePods) -> list[Document]:
    """Each annotation alone and all together, also on pods that are older than the others'."""
    forged = claims(node.cpus)
    parts = [{key: text} for key, text in forged.items()] + [forged] * 20
    return [node.pod(part) for part in parts]


def malformed_annotations(node: NodePods) -> list[Document]:
    """What is no JSON, or of another type, or beyond any number."""
    texts = [
        "{", "[" * 50_000, '{"a":' * 50_000, "null", "[]", "7", '"x"', "1e999", "-" * 1000,
        '{"cpuset":[]}', '{"cpuset":"0-4294967295"}', '{"gpu":[{"minor":-1},{"minor":1e30}]}',
        '{"gpu":{}}', '{"groupIdentity":99999999999999999999}', "\x00", "\ud7ff\ufffd",
        '{"containers":{"c":{"limits":{"kubernetes.io/batch-cpu":"1e400"}}}}',
        '{"policy":"\\u0000"}', "9" * 5000,
    ]  # fmt: skip
    return [
        node.pod({key: node.random.choice(texts) for key in node.random.sample(_SERVED, 4)})
        for _ in range(60)
    ]


def huge_annotations(node: NodePods) -> list[Document]:
    """As large as an object may be, in one value or in thousands."""
    rows = [{"minor": minor, "resources": {"koordinator.sh/rdma": "1"}} for minor in range(4000)]
    one = {_DEVICES: json.dumps({"rdma": rows})}
    letters = {f"{node.random.getrandbits(64):x}": "y" * 100 for _ in range(2000)}
    text = {_NETWORK: json.dumps({"ingressLimit": "1" * 200_000})}
    return [node.pod(part) for part in (one, letters, text) for _ in range(4)]


def odd_identities(node: NodePods) -> list[Document]:
    """UIDs, names and container ids that are none."""
    uids = ["../../../etc", "u" * 5000, "", "a\nb", "\ud7ff" * 90, ".", "a/b", node.known + "/"]
    ids = ["containerd://../../x", "", "containerd://" + "h" * 3000, "://", node.known, "docker://"]
    found = [node.pod(metadata={"uid": uid}) for uid in uids]
    for each in ids:
        status = {"name": "c", "containerID": each, "state": {"running": {}}}
        found.append(node.pod(status={"containerStatuses": [status] * 3}))
    twin = node.pod()
    named = node.pod(metadata={"name": f"x\n{FORGED_LINE}", "namespace": f"y\r\n{FORGED_LINE}"})
    return [*found, twin, twin, named]


def odd_documents(node: NodePods) -> list[Document]:
    """Fields that are missing, of another type, or absurd."""
    specs: list[Document] = [
        {"containers": []}, {"containers": None}, {"containers": "x"}, {"priority": 2**70},
        {"priority": -(2**31)}, {"overhead": {"cpu": "-1"}}, {"runtimeClassName": "kata"},
        {"initContainers": [{"name": "c"}] * 500},
    ]  # fmt: skip
    for amount in ("9223372036854775807", "1e400", "-1", "0.0000001n", "1E", "\u0663", "9" * 500):
        asked = {"cpu": amount, "memory": amount, "kubernetes.io/batch-cpu": amount}
        container = {"name": "c", "resources": {"requests": asked, "limits": asked}}
        specs.append({"containers": [container]})
    status = [{"phase": None}, {"phase": "x" * 1000}, {"qosClass": "x"}, {"containerStatuses": 1}]
    times = ["", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "now", 7]
    found = [node.pod(spec=spec) for spec in specs] + [node.pod(status=each) for each in status]
    return found + [node.pod(metadata={"creationTimestamp": each}) for each in times]


def many_pods(node: NodePods) -> list[Document]:
    """Far more than a node has."""
    forged = claims(node.cpus)
    keys = list(forged)
    return [
        node.pod({key: forged[key] for key in node.random.sample(keys, 2)}) for _ in range(_MANY)
    ]


def many_containers(node: NodePods) -> list[Document]:
    """Pods of a thousand containers, whose cgroups have gone."""
    names = [f"c{number}" for number in range(1000)]
    containers = [{"name": name, "image": "i"} for name in names]
    statuses = [
        {"name": name, "containerID": f"containerd://{node.uid().replace('-', '')}",
         "state": {"running": {}}}
        for name in names
    ]  # fmt: skip
    # Cards of a type that koordlet gives nobody.
    cards = {"fpga": [{"minor": 0, "resources": {"koordinator.sh/fpga": "1"}}] * len(names)}
    notes = (
        {_SCORES: json.dumps(dict.fromkeys(names, -1000))},
        {_SCORES: json.dumps(dict.fromkeys(names, 1000)), _DEVICES: json.dumps(cards)},
    )
    return [
        node.pod(each, spec={"containers": containers}, status={"containerStatuses": statuses})
        for each in notes
    ]


def core_sched_groups(node: NodePods) -> list[Document]:
    """Groups named as another pod's."""
    labels = {"koordinator.sh/core-sched-group-id": node.known}
    return [node.pod(metadata={"labels": labels}) for _ in range(40)]


KINDS: list[Callable[[NodePods], list[Document]]] = [
    forged_claims, malformed_annotations, huge_annotations, odd_identities, odd_documents,
    many_pods, many_containers, core_sched_groups,
]  # fmt: skip
