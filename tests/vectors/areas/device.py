# SPDX-License-Identifier: Apache-2.0
"""Which devices of a node a pod gets: shares, whole cards, partitions, virtual functions, joint.

Without reservations. Cards are compared by minor; of errors in a pod only what stands before the
first colon, since the original goes on with the order of a map.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol import resources as res
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions, ScoringType
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    read_card_allocations,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import resource_list
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random

SEED = 20263

_CASES = 900
_NAME = "DeviceShare"
_GIB = 1 << 30


def inputs(draw: random.Random) -> list[Json]:
    """Nodes of few cards, some in use, and pods that ask in every way."""
    return [_case(draw) for _ in range(_CASES)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    cluster = Cluster(DeviceShareOptions(scoring=ScoringType(case["scoring"])))
    row = cluster.add("n", labels=case["node"]["metadata"]["labels"])
    cluster.put(convert(case["device"], Device, "Device"))
    for each in case["holders"]:
        info = cluster.world.shapes.info(convert(each, Pod, "pod"))
        # They ask for nothing (docs/reference/devices.md#what-a-bound-pod-holds), and hold it here
        # all the same.
        info.allocations[_NAME] = read_card_allocations(info.pod)[0]
        cluster.accounts.add(row, info)
    info = cluster.world.shapes.info(convert(case["pod"], Pod, "pod"))
    cycle, plugin, rows = Cycle(info, cluster.table), cluster.plugin, np.array([row])
    refusal = plugin.pre_filter(cycle)
    if refusal is not None:
        return {"stops": refusal.reasons[0].partition(":")[0]}
    if not plugin.filter(cycle, rows)[0]:
        (found,) = plugin.diagnose(cycle, rows)
        return {"filter": sorted(found.reasons), "final": found.unresolvable}
    made: dict[str, Any] = {"score": int(plugin.score(cycle, rows)[0])}
    refusal = plugin.reserve(cycle, row)
    if refusal is not None:
        return {**made, "refused": sorted(refusal.reasons)}
    held: dict[str, list[Json]] = {}
    for each in info.allocations[_NAME]:
        amounts = resource_list(each.type, each.amounts)
        held.setdefault(each.type, []).append({
            "minor": each.minor,
            "resources": {name: str(amount) for name, amount in amounts.items()},
            "functions": [function.bus_id for function in each.functions],
        })  # fmt: skip
    return {**made, "held": held}


def _card(draw: random.Random, kind: str, minor: int, where: Json | None) -> Json:
    amounts: dict[str, str] = {f"koordinator.sh/{kind}": "100"}
    if kind == "gpu":
        size = "16Gi"
        amounts = {res.GPU_CORE: "100", res.GPU_MEMORY: size, res.GPU_MEMORY_RATIO: "100"}
    card: dict[str, Any] = {
        "type": kind, "minor": minor, "id": f"{kind}-{minor}", "health": draw.random() < 0.93,
        "resources": amounts, "labels": {"kind": draw.choice(["a", "b"])},
    }  # fmt: skip
    if where is not None:
        card["topology"] = where
    if kind == "rdma" and draw.random() < 0.6:
        buses = [f"0000:{minor:02d}:00.{each}" for each in range(draw.randint(1, 3))]
        draw.shuffle(buses)
        vfs = [{"minor": number, "busID": bus} for number, bus in enumerate(buses)]
        card["vfGroups"] = [{"labels": {"type": draw.choice(["x", "y"])}, "vfs": vfs}]
    return card


def _device(draw: random.Random) -> Json:
    nowhere = draw.random() < 0.25
    per_root = draw.choice([1, 2, 2, 4])
    cards = [
        _card(draw, "gpu", minor, None if nowhere else _place(minor, per_root))
        for minor in range(draw.choice([1, 2, 4, 4, 8, 8]))
    ]
    cards += [
        _card(draw, "rdma", minor, _place(minor, draw.choice([1, 2])))
        for minor in range(draw.choice([0, 1, 2, 4]))
    ]
    cards += [
        _card(draw, "fpga", minor, _place(minor, 1)) for minor in range(draw.choice([0, 0, 0, 2]))
    ]
    meta: dict[str, Any] = {"name": "n", "labels": {}, "annotations": {}}
    if draw.random() < 0.25:
        meta["annotations"][keys.GPU_PARTITIONS] = json.dumps(_partitions(draw))
    if draw.random() < 0.2:
        meta["labels"][keys.GPU_PARTITION_POLICY] = draw.choice(["Honor", "Prefer"])
    if draw.random() < 0.15:
        meta["labels"][keys.SECONDARY_DEVICE_WELL_PLANNED] = "true"
    return {"metadata": meta, "spec": {"devices": cards}}


def _place(minor: int, per_root: int) -> Json:
    return {"socketID": minor // 4, "nodeID": minor // 4, "pcieID": str(minor // per_root)}


def _partitions(draw: random.Random) -> Json:
    """Aligned ones, of one score a size: among several the original takes the lowest first."""
    found = {}
    for size in (1, 2, 4, 8):
        if draw.random() < 0.2:
            continue
        bandwidth = draw.choice([None, "100Gi", "400Gi"])
        each: dict[str, Any] = {"gpuLinkType": "NVLink", "allocationScore": 1}
        if bandwidth is not None:
            each["ringBusBandwidth"] = bandwidth
        found[str(size)] = [
            {**each, "minors": list(range(start, start + size))} for start in range(0, 8, size)
        ]
    return found


def _holders(draw: random.Random, device: Json) -> list[Json]:
    holders = []
    for number, card in enumerate(device["spec"]["devices"]):
        chance = draw.random()
        if chance > 0.4:
            continue
        share = draw.choice([100, 100, 50, 30, 1])
        kind = card["type"]
        amounts = {f"koordinator.sh/{kind}": str(share)}
        if kind == "gpu":
            amounts = {
                res.GPU_CORE: str(share), res.GPU_MEMORY_RATIO: str(share),
                res.GPU_MEMORY: str(16 * _GIB * share // 100),
            }  # fmt: skip
        held: dict[str, Any] = {"minor": card["minor"], "resources": amounts}
        if card.get("vfGroups") and draw.random() < 0.7:
            function = draw.choice(card["vfGroups"][0]["vfs"])
            held["resources"] = {res.RDMA: "1"}
            held["extension"] = {"vfs": [function]}
        notes = {keys.DEVICE_ALLOCATED: json.dumps({kind: [held]})}
        holders.append(_pod(f"h{number}", {}, annotations=notes))
    return holders


def _pod(name: str, amounts: dict[str, str], **meta: Any) -> Json:
    containers = [{"name": "m", "resources": {"requests": amounts, "limits": amounts}}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **meta},
        "spec": {"containers": containers},
    }


_ASKS: list[dict[str, list[str]]] = [
    {res.GPU: ["50", "100", "200", "400", "800", "30", "150"]},
    {res.NVIDIA_GPU: ["1", "2", "4", "8"]},
    {res.GPU_CORE: ["50", "100", "200"], res.GPU_MEMORY_RATIO: ["50", "100", "200", "150"]},
    {res.GPU_CORE: ["30", "0"], res.GPU_MEMORY: ["8Gi", "16Gi", "4Gi", "17Gi", "123456789"]},
    {res.GPU_MEMORY_RATIO: ["1", "50", "71", "100", "300"]},
    {res.GPU_MEMORY: ["1Gi", "1"]},
    {res.GPU_SHARED: ["1", "2", "3"], res.GPU_MEMORY_RATIO: ["100", "60", "200", "50"]},
    {res.GPU_SHARED: ["1", "2"], res.GPU_CORE: ["60", "100"], res.GPU_MEMORY: ["8Gi", "3Gi"]},
    {res.GPU_CORE: ["50", "100"]},
    {res.GPU_SHARED: ["1", "2"]},
    {res.GPU: ["100"], res.GPU_MEMORY: ["1Gi"]},
    {res.AMD_GPU: ["1"], res.NVIDIA_GPU: ["1"]},
]


def _asked(draw: random.Random) -> dict[str, str]:
    amounts: dict[str, str] = {}
    if draw.random() < 0.8:
        weights = [6, 3, 2, 2, 2, 1, 2, 1, 0.3, 0.3, 0.3, 0.2]
        (chosen,) = draw.choices(_ASKS, weights)
        amounts = {name: draw.choice(texts) for name, texts in chosen.items()}
    if not amounts or draw.random() < 0.35:
        amounts[res.RDMA] = draw.choice(["1", "50", "100", "100", "200", "3", "150", "400"])
    if draw.random() < 0.06:
        amounts[res.FPGA] = draw.choice(["50", "100", "200"])
    return amounts


def _hints(draw: random.Random) -> Json:
    hints: dict[str, Any] = {}
    if draw.random() < 0.4:
        hints["gpu"] = {"requiredTopologyScope": draw.choice(["PCIe", "NUMANode", "Node"])}
    if draw.random() < 0.3:
        hints.setdefault("gpu", {})["selector"] = {"matchLabels": {"kind": "a"}}
    if draw.random() < 0.6:
        hints["rdma"] = {}
        if draw.random() < 0.5:
            labels = draw.choice([{}, {"type": "x"}])
            hints["rdma"]["vfSelector"] = {"matchLabels": labels} if labels else {}
        if draw.random() < 0.4:
            hints["rdma"]["allocateStrategy"] = draw.choice(["ApplyForAll", "RequestsAsCount"])
        if draw.random() < 0.2:
            hints["rdma"]["exclusivePolicy"] = "DeviceLevel"
        if draw.random() < 0.2:
            hints["rdma"]["selector"] = {"matchLabels": {"kind": "b"}}
    return hints


def _case(draw: random.Random) -> Json:
    device = _device(draw)
    notes: dict[str, str] = {}
    if draw.random() < 0.4:
        notes[keys.DEVICE_ALLOCATE_HINT] = json.dumps(_hints(draw))
    amounts = _asked(draw)
    if res.RDMA in amounts and len(amounts) > 1 and draw.random() < 0.8:
        joint: dict[str, Any] = {"deviceTypes": ["gpu", "rdma"]}
        if draw.random() < 0.4:
            joint["requiredScope"] = "SamePCIe"
        notes[keys.DEVICE_JOINT_ALLOCATE] = json.dumps(joint)
    if draw.random() < 0.15:
        spec: dict[str, Any] = {}
        if draw.random() < 0.5:
            spec["allocatePolicy"] = draw.choice(["Restricted", "BestEffort"])
        if draw.random() < 0.4:
            spec["ringBusBandwidth"] = draw.choice(["50Gi", "200Gi", "500Gi"])
        notes[keys.GPU_PARTITION_SPEC] = json.dumps(spec)
    labels = {}
    if draw.random() < 0.15:
        labels["node.koordinator.sh/gpu-model"] = draw.choice(["H100", "A100"])
        labels[keys.GPU_PARTITION_POLICY] = draw.choice(["Honor", "Prefer"])
    return {
        "node": {"metadata": {"name": "n", "labels": labels}}, "device": device,
        "holders": _holders(draw, device), "pod": _pod("p", amounts, annotations=notes),
        "scoring": draw.choice(["LeastAllocated", "MostAllocated"]),
    }  # fmt: skip


def _requests(case: Json) -> dict[str, str]:
    found: dict[str, str] = case["pod"]["spec"]["containers"][0]["resources"]["requests"]
    return found


def _is_shared_in_topology(case: Json, theirs: Json, ours: Json) -> bool:
    """Only which card a part of one is given differs, and all GPUs say where they sit."""
    if theirs.get("score") != ours.get("score") or not ("held" in theirs and "held" in ours):
        return False
    cards = [each for each in case["device"]["spec"]["devices"] if each["type"] == "gpu"]
    given = [each["resources"] for each in theirs["held"].get("gpu", ())]
    shared = any(int(each.get(res.GPU_MEMORY_RATIO, "100")) < 100 for each in given)
    by_bytes = res.GPU_MEMORY in _requests(case)
    return (shared or by_bytes) and all("topology" in each for each in cards)


def _is_sick_in_use(case: Json, theirs: Json, ours: Json) -> bool:
    """Only which cards are given differs, and pods hold some that are not healthy."""
    if theirs.get("score") != ours.get("score") or not ("held" in theirs and "held" in ours):
        return False
    cards = case["device"]["spec"]["devices"]
    sick = {each["minor"] for each in cards if each["type"] == "gpu" and not each["health"]}
    notes = [json.loads(each["metadata"]["annotations"][keys.DEVICE_ALLOCATED])
             for each in case["holders"]]  # fmt: skip
    return any(each["minor"] in sick for held in notes for each in held.get("gpu", ()))


def _exceeds_cards(case: Json, theirs: Json, ours: Json) -> bool:
    """More of each card is asked for than cards have, and there are partitions."""
    asked = _requests(case)
    more = int(asked.get(res.GPU_CORE, "0")) > int(asked.get(res.GPU_MEMORY_RATIO, "1000"))
    return more and "held" in theirs and "held" not in ours


def _are_too_many(case: Json, theirs: Json, ours: Json) -> bool:
    return "filter" in theirs and ours == {"stops": "Insufficient rdma devices"}


def _is_another_type(case: Json, theirs: Json, ours: Json) -> bool:
    """Several types are wrong or lacking; the original takes them in the order of a map."""
    asked = _requests(case)
    several = len(asked) > 1 and (res.RDMA in asked or res.FPGA in asked)
    return several and "held" not in theirs and theirs.keys() == ours.keys()


DIFFERENCES: dict[str, Difference] = {
    "device-shared-topology-score": Difference(
        "cards in the topology are scored by real use", _is_shared_in_topology,
    ),
    "device-unhealthy-in-use": Difference(
        "a card that is not healthy is in use while a pod holds it", _is_sick_in_use,
    ),
    "device-partition-amounts": Difference(
        "cards of a partition have to have what is asked for of each", _exceeds_cards,
    ),
    "device-minors": Difference(
        "more cards than there are minors are refused before nodes are looked at", _are_too_many,
    ),
    "device-first-type": Difference(
        "which type is named of several that are lacking", _is_another_type,
    ),
}  # fmt: skip

_CONFIGURED = "the rest is for GPU shared resource templates and errors"
COVERAGE = {
    "deviceshare/device_cache.go:updateDeviceUsed": "the rest is for pods that leave",
    "deviceshare/utils.go:ConvertDeviceRequest": "the rest is for requests that are not valid",
    "deviceshare/utils.go:parseGPURequirements": _CONFIGURED,
}
