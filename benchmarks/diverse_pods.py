# SPDX-License-Identifier: Apache-2.0
"""Pods no two of which are alike, and mixes of workloads: the same ones for the same seed.

Pods come as the JSON that an API server sends, so that decoding them can be timed too.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES = 3
SEED = 7
WORKLOADS = 5_000
"""How many workloads the mix is drawn from."""
NEW_SHAPES = 0.1
"""Which part of the mix's pods are of no workload."""
_ZIPF = 1.1
_TEAMS, _DISKS = 40, ("ssd", "hdd")
GANG_MEMBERS = 10
"""How many pods a gang has."""
QUOTAS = 50
"""How many quotas pods are charged to."""
_DOMAIN = "koordinator.sh/"
_QOS = _DOMAIN + "qosClass"
_GANG = "gang.scheduling.koordinator.sh/"
_QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
_PROD = 9500

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Parts = tuple[dict[str, str], dict[str, Any]]
"""Labels, and what is in the spec beside its container's image and requests."""


def _labels(number: int) -> dict[str, str]:
    return {"app": f"app-{number}", "team": f"team-{number % _TEAMS}", "tier": "backend"}


def _requests(cpu_milli: int = 100, memory_mi: int = 128) -> dict[str, Any]:
    return {"requests": {"cpu": f"{cpu_milli}m", "memory": f"{memory_mi}Mi"}}


def _equal(number: int) -> Parts:
    return _labels(0), {"resources": _requests()}


def _own_labels(number: int) -> Parts:
    return _labels(number), {"resources": _requests()}


def _own_requests(number: int) -> Parts:
    return _labels(0), {"resources": _requests(100 + number % 400, 128 + number // 400)}


def _own_node_affinity(number: int) -> Parts:
    wanted = [{"key": "disk", "operator": "In", "values": [_DISKS[number % 2]]},
              {"key": HOSTNAME, "operator": "NotIn", "values": [f"retired-{number}"]}]  # fmt: skip
    liked = {"key": ZONE, "operator": "In", "values": [f"zone-{number % ZONES}"]}
    affinity = {
        _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": wanted}]},
        _PREFERRED: [{"weight": 1 + number % 100, "preference": {"matchExpressions": [liked]}}],
    }
    return _labels(0), {"resources": _requests(), "affinity": {"nodeAffinity": affinity}}


def _selecting(labels: dict[str, str], selector: dict[str, Any]) -> Parts:
    """Away from each other by node, and spread over zones."""
    spread = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": selector}  # fmt: skip
    far = {_REQUIRED: [{"labelSelector": selector, "topologyKey": HOSTNAME}]}
    more = {"affinity": {"podAntiAffinity": far}, "topologySpreadConstraints": [spread]}
    return labels, {"resources": _requests(), **more}


def _own_selectors(number: int) -> Parts:
    return _selecting(_labels(number), {"matchLabels": {"app": f"app-{number}"}})


def _own_in(number: int) -> Parts:
    values = [f"app-{number}", f"canary-{number}"]
    wanted = {"key": "app", "operator": "In", "values": values}
    return _selecting(_labels(number), {"matchExpressions": [wanted]})


def _negative(number: int) -> Parts:
    """Spread among all pods but those of one other app: nearly all pods match."""
    others = {"key": "app", "operator": "NotIn", "values": [f"app-{number + 1}"]}
    spread = {"maxSkew": 100_000, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
              "labelSelector": {"matchExpressions": [others]}}  # fmt: skip
    return _labels(number), {"resources": _requests(), "topologySpreadConstraints": [spread]}


def _rich(number: int) -> Parts:
    """Selectors, requests and node affinity of its own, with what else pods may ask for."""
    labels, spec = _own_selectors(number)
    near = {"labelSelector": {"matchLabels": {"team": f"team-{number % 7}"}}, "topologyKey": ZONE}
    affinity = {
        **spec["affinity"],
        **_own_node_affinity(number)[1]["affinity"],
        "podAffinity": {_PREFERRED: [{"weight": 10, "podAffinityTerm": near}]},
    }
    tolerated = {"key": f"dedicated-{number % 10}", "operator": "Exists", "effect": "NoSchedule"}
    resources = _own_requests(number)[1]["resources"]
    more = {"affinity": affinity, "tolerations": [tolerated], "resources": resources}
    return labels, {**spec, **more}


def _workload(number: int) -> Parts:
    """One of a cluster's workloads: by its number, with or without affinity of each kind."""
    draw = random.Random(f"workload {number}")
    kind = draw.choices(
        (_own_labels, _own_node_affinity, _own_selectors), weights=(0.6, 0.25, 0.15)
    )[0]
    labels, spec = kind(number)
    cpu = draw.choice((50, 100, 250, 500, 1000)) + draw.randrange(10) * 5
    resources = _requests(cpu, draw.choice((64, 128, 256, 512, 1024)))
    return {**_labels(number), **labels}, {**spec, "resources": resources}


@cache
def _traced() -> list[dict[str, str]]:
    """Pods of a cluster of 2023 with GPUs, in 162 kinds by what they request and their QoS."""
    examples = Path(__file__).resolve().parents[1] / "examples" / "openb"
    with (examples / "openb_pod_list_default.csv").open(newline="") as rows:
        return list(csv.DictReader(rows))


def _of_trace(number: int) -> Parts:
    """In the order in which they came, and from the first on again."""
    pods = _traced()
    pod = pods[number % len(pods)]
    resources = _requests(int(pod["cpu_milli"]), int(pod["memory_mib"]))
    percent = int(pod["num_gpu"]) * int(pod["gpu_milli"]) // 10
    if percent:
        cards = (_DOMAIN + "gpu-core", _DOMAIN + "gpu-memory-ratio")
        resources["requests"] |= dict.fromkeys(cards, str(percent))
    return {"qos": pod["qos"]}, {"resources": resources}


def _binding(number: int) -> Parts:
    """CPUs of its own: LSR pods, one to four CPUs, no two with the same requests."""
    labels = {**_labels(0), _QOS: "LSR"}
    resources = _requests(1000 * (1 + number % 4), 256 + number)
    return labels, {"resources": resources, "priority": _PROD}


def _gpu_share(number: int) -> Parts:
    """A twentieth to a fifth of a GPU."""
    share = str(5 * (1 + number % 4))
    cards = {_DOMAIN + "gpu-core": share, _DOMAIN + "gpu-memory-ratio": share}
    resources = _requests(100 + number % 400, 128 + number // 400)
    return _labels(0), {"resources": {"requests": {**resources["requests"], **cards}}}


def _owner(number: int) -> Parts:
    """Owners of every reservation, with requests of their own."""
    labels, spec = _own_requests(number)
    return {**labels, "app": "x"}, spec


def _member(number: int) -> Parts:
    """In gangs of :data:`GANG_MEMBERS`, each with requests of its own."""
    labels, spec = _own_requests(number)
    gang = {_GANG + "name": f"gang-{number // GANG_MEMBERS}"}
    return labels, {**spec, "annotations": {**gang, _GANG + "min-available": str(GANG_MEMBERS)}}


def _charged(number: int) -> Parts:
    """Charged to one of :data:`QUOTAS` quotas, with requests of its own."""
    labels, spec = _own_requests(number)
    return {**labels, _QUOTA_NAME: f"quota-{number % QUOTAS}"}, spec


KINDS: dict[str, Callable[[int], Parts]] = {
    "equal": _equal,
    "labels": _own_labels,
    "requests": _own_requests,
    "nodeaffinity": _own_node_affinity,
    "selectors": _own_selectors,
    "in": _own_in,
    "negative": _negative,
    "rich": _rich,
    "trace": _of_trace,
}
"""Pods by what is their own."""

KOORD_KINDS: dict[str, Callable[[int], Parts]] = {
    "binding": _binding,
    "gpushare": _gpu_share,
    "reservation": _owner,
    "gang": _member,
    "quota": _charged,
}
"""The same for what koord's profile alone knows, over nodes that have it; for all of them what
containers request is each pod's own."""

CASES = (*KINDS, "zipf", "turns", *KOORD_KINDS)
"""All cases; ``zipf`` is the mix, ``turns`` its workloads one after the other, again and again."""


def documents(
    case: str, pods: int, seed: int = SEED, workloads: int = WORKLOADS
) -> Iterator[bytes]:
    """Pending pods as JSON.

    Args:
        case: one of :data:`CASES`.
        pods: how many.
        seed: of the mix.
        workloads: how many there are in ``zipf`` and ``turns``.
    """
    make = KINDS.get(case) or KOORD_KINDS.get(case)
    numbers: Iterable[int] = range(pods)
    if case == "zipf":
        numbers = _mixed(pods, workloads, random.Random(seed))
    elif case == "turns":
        numbers = (index % workloads for index in range(pods))
    for index, number in enumerate(numbers):
        labels, spec = (make or _workload)(number)
        yield _document(index, labels, spec)


def _mixed(pods: int, workloads: int, draw: random.Random) -> Iterator[int]:
    """Numbers of workloads: few often, most seldom; beyond them numbers that come once."""
    weights = [1 / rank**_ZIPF for rank in range(1, workloads + 1)]
    often = draw.choices(range(workloads), weights, k=pods)
    for index, number in enumerate(often):
        yield workloads + index if draw.random() < NEW_SHAPES else number


def _document(index: int, labels: dict[str, str], spec: dict[str, Any]) -> bytes:
    meta = {"name": f"pod-{index}", "namespace": "default", "uid": f"uid-{index}", "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": spec.pop("annotations", {})}  # fmt: skip
    resources = spec.pop("resources")
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    whole = {"containers": [container], "schedulerName": "koord-scheduler", **spec}
    return msgspec.json.encode({"metadata": meta, "spec": whole, "status": {"phase": "Pending"}})
