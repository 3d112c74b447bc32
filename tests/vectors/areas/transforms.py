# SPDX-License-Identifier: Apache-2.0
"""What the scheduler makes of nodes, pods, Devices and quotas as it decodes them.

Node reservations are taken off what nodes offer, old resource names become the present ones.
Amounts of zero are left out of answers: they offer and ask for nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys
from koord.api.protocol.resources import DEPRECATED_NAMES, with_current_names
from koord.controllers.cluster.transforms import TRANSFORMS
from koord.kernels.quantity import Quantity
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

    from koord.api.kinds.meta import ResourceList

SEED = 20261

_OLD = list(DEPRECATED_NAMES)
_NEW = list(DEPRECATED_NAMES.values())
_PLAIN = ["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "kubernetes.io/mid-cpu"]
_TEXTS = [
    "0", "1", "2", "100", "100m", "1500m", "3999m", "0.5", "7", "8", "16", "1Gi", "512Mi", "1e3",
    "2k", "12345678901", "8Pi", "1u", "50",
]  # fmt: skip
_CPU_LISTS = ["0", "0-3", "0-4", "0,2,4", "1-1", "0-1,3-4", "3-1", "a", "0-", " 0-3", "0-3,2-5"]
_RESERVATIONS = ["{}", "null", "", "{", "[]", '{"resources":null}', '{"unknown":1}', '"x"']


def inputs(draw: random.Random) -> list[Json]:
    """Nodes, pods, Devices and quotas with old and new names of few resources, mixed."""
    makers = [(_node, 400), (_pod, 200), (_device, 120), (_quota, 120)]
    return [make(draw) for make, count in makers for _ in range(count)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    text = json.dumps(case["object"]).encode()
    if case["kind"] == "Node":
        status = _entered(codec.decode_json(text, Node, "Node")).status
        return {"allocatable": _texts(status.allocatable), "capacity": _texts(status.capacity)}
    if case["kind"] == "Pod":
        return _pod_answer(_entered(codec.decode_json(text, Pod, "Pod")))
    if case["kind"] == "Device":
        device = _entered(codec.decode_json(text, Device, "Device"))
        return [_texts(each.resources) for each in device.spec.devices]
    spec = codec.decode_json(text, ElasticQuota, "ElasticQuota").spec
    return {
        "max": _texts(with_current_names(spec.max)), "min": _texts(with_current_names(spec.min)),
    }  # fmt: skip


def _entered(value: Any) -> Any:
    return TRANSFORMS[type(value)](value)


def _pod_answer(pod: Pod) -> Json:
    containers = []
    for each in (*pod.spec.init_containers, *pod.spec.containers):
        containers += [_texts(each.resources.requests), _texts(each.resources.limits)]
    return {"overhead": _texts(pod.spec.overhead), "containers": containers}


def _texts(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items() if amount != Quantity()}


def _amounts(draw: random.Random, most: int = 6) -> dict[str, str]:
    few = draw.sample(range(len(_OLD)), draw.randint(0, 3))
    known = [_OLD[i] for i in few] + [_NEW[i] for i in few] + _PLAIN
    chosen = draw.sample(known, draw.randint(0, min(most, len(known))))
    return {name: draw.choice(_TEXTS) for name in chosen}


def _reservation(draw: random.Random) -> str:
    if draw.random() < 0.1:
        return draw.choice(_RESERVATIONS)
    found: dict[str, Any] = {}
    if draw.random() < 0.7:
        found["resources"] = _amounts(draw)
    if draw.random() < 0.4:
        found["reservedCPUs"] = draw.choice(_CPU_LISTS)
    if draw.random() < 0.4:
        found["applyPolicy"] = draw.choice(["", "Default", "ReservedCPUsOnly", "Other"])
    return json.dumps(found)


def _node(draw: random.Random) -> Json:
    meta: dict[str, Any] = {"name": "n"}
    if draw.random() < 0.85:
        meta["annotations"] = {keys.NODE_RESERVATION: _reservation(draw)}
    status = {"allocatable": _amounts(draw, 9), "capacity": _amounts(draw, 9)}
    if draw.random() < 0.6:
        status["allocatable"]["cpu"] = draw.choice(["8", "4", "5500m", "0", "32"])
    return {"kind": "Node", "object": {"metadata": meta, "status": status}}


def _container(draw: random.Random, number: int) -> Json:
    resources = {"requests": _amounts(draw), "limits": _amounts(draw)}
    return {"name": f"c{number}", "resources": resources}


def _pod(draw: random.Random) -> Json:
    spec: dict[str, Any] = {
        "containers": [_container(draw, i) for i in range(draw.randint(1, 2))],
        "initContainers": [_container(draw, 9) for _ in range(draw.randint(0, 1))],
    }
    if draw.random() < 0.3:
        spec["overhead"] = _amounts(draw, 3)
    return {"kind": "Pod", "object": {"metadata": {"name": "p", "namespace": "d"}, "spec": spec}}


def _device(draw: random.Random) -> Json:
    devices = [
        {"type": "gpu", "minor": i, "resources": _amounts(draw)} for i in range(draw.randint(0, 3))
    ]
    return {"kind": "Device", "object": {"metadata": {"name": "n"}, "spec": {"devices": devices}}}


def _quota(draw: random.Random) -> Json:
    spec = {"max": _amounts(draw), "min": _amounts(draw)}
    return {"kind": "ElasticQuota", "object": {"metadata": {"name": "q"}, "spec": spec}}


def _has_reservation(case: Json, theirs: Json, ours: Json) -> bool:
    annotations = case["object"]["metadata"].get("annotations", {})
    return case["kind"] == "Node" and keys.NODE_RESERVATION in annotations


def _is_named_then_trimmed(case: Json, theirs: Json, ours: Json) -> bool:
    if not _has_reservation(case, theirs, ours) or theirs["capacity"] != ours["capacity"]:
        return False
    where = [json.dumps(case["object"]["status"]["allocatable"])]
    where.append(case["object"]["metadata"]["annotations"][keys.NODE_RESERVATION])
    return any(f'"{name}"' in text for name in _OLD for text in where)


def _one_table(case: Json, theirs: Json, ours: Json) -> Json:
    if case["kind"] == "ElasticQuota":
        return {field: _mapped(theirs[field]) for field in theirs}
    # A Device of batch resources means nothing; both leave it so.
    return [_mapped(each) for each in theirs] if case["kind"] == "Device" else theirs


def _mapped(theirs: dict[str, str]) -> dict[str, str]:
    found = dict(theirs)
    for old, new in DEPRECATED_NAMES.items():
        if old in found and new not in found:
            found[new] = found.pop(old)
    return found


DIFFERENCES = {
    "protocol-old-names": Difference(
        "quotas take old names of devices as well, Devices those of batch resources",
        adjusted=_one_table,
    ),
    "scheduling-names-before-trimming": Difference(
        "names are made present ones before the reservation is taken off", _is_named_then_trimmed,
    ),
}  # fmt: skip

_TOMBSTONE = "the rest is for tombstones of objects whose deletion was missed, and for other types"
COVERAGE = {
    "transformer/device_transformer.go:TransformDevice": _TOMBSTONE,
    "transformer/elastic_quota_transformer.go:TransformElasticQuota": _TOMBSTONE,
    "transformer/node_transformer.go:TransformNode": _TOMBSTONE,
}
