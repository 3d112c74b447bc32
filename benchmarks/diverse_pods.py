# SPDX-License-Identifier: Apache-2.0
"""Pods no two of which are alike, and mixes of workloads: the same ones for the same seed.

Pods come as the JSON that an API server sends, so that decoding them can be timed too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
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


KINDS: dict[str, Callable[[int], Parts]] = {
    "equal": _equal,
    "labels": _own_labels,
    "requests": _own_requests,
    "nodeaffinity": _own_node_affinity,
    "selectors": _own_selectors,
    "in": _own_in,
    "negative": _negative,
}
"""Pods by what is their own."""

CASES = (*KINDS, "zipf")
"""All cases; ``zipf`` is the mix."""


def documents(case: str, pods: int, seed: int = SEED) -> Iterator[bytes]:
    """Pending pods as JSON.

    Args:
        case: one of :data:`CASES`.
        pods: how many.
        seed: of the mix.
    """
    make = KINDS.get(case)
    numbers = range(pods) if make is not None else _mixed(pods, random.Random(seed))
    for index, number in enumerate(numbers):
        labels, spec = (make or _workload)(number)
        yield _document(index, labels, spec)


def _mixed(pods: int, draw: random.Random) -> Iterator[int]:
    """Numbers of workloads: few often, most seldom; beyond them numbers that come once."""
    weights = [1 / rank**_ZIPF for rank in range(1, WORKLOADS + 1)]
    often = draw.choices(range(WORKLOADS), weights, k=pods)
    for index, number in enumerate(often):
        yield WORKLOADS + index if draw.random() < NEW_SHAPES else number


def _document(index: int, labels: dict[str, str], spec: dict[str, Any]) -> bytes:
    meta = {"name": f"pod-{index}", "namespace": "default", "uid": f"uid-{index}", "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z"}  # fmt: skip
    resources = spec.pop("resources")
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    whole = {"containers": [container], "schedulerName": "koord-scheduler", **spec}
    return msgspec.json.encode({"metadata": meta, "spec": whole, "status": {"phase": "Pending"}})
