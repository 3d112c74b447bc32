# SPDX-License-Identifier: Apache-2.0
"""Pods of realistic size and mixture, as many as wanted, the same for the same seed.

``tests/data/pods`` holds one pod of each sort as an API server gave it back, with its managed
fields, probes, volumes and statuses (9 to 13 KB of JSON), and placeholders where pods of one sort
differ. A cluster of N pods has N/20 workloads in 40 namespaces on N/30 nodes; pods of one workload
share what pods of one workload share.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from koord.base.rng import stream

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[1] / "data" / "pods"

# How many of a hundred pods are of each sort.
_SHARES = {"web": 30, "sidecar": 20, "batch": 25, "agent": 10, "database": 5, "training": 10}
_NAMESPACES = 40
_PODS_A_WORKLOAD = 20
_PODS_A_NODE = 30
_FIRST_VERSION = 1_000_000


class Workload(msgspec.Struct, frozen=True):
    """What the pods of one workload have in common."""

    sort: str
    name: str
    namespace: str
    uid: str


def pods(count: int, seed: int = 7, *, by_key: bool = False, nodes: int = 0) -> Iterator[bytes]:
    """The JSON of each pod, without apiVersion and kind, as in the items of a list.

    Args:
        count: how many.
        seed: of all that is drawn.
        by_key: those of one workload one after the other, as API servers list them; else mixed.
        nodes: on how many; one for 30 pods where that is 0.
    """
    draw = stream(seed, "pods")
    sorts = list(_SHARES)
    workloads = [
        _workload(draw, draw.choices(sorts, list(_SHARES.values()))[0], number)
        for number in range(max(1, count // _PODS_A_WORKLOAD))
    ]
    nodes = nodes or max(1, count // _PODS_A_NODE)
    of_pods = [workloads[draw.randrange(len(workloads))] for _ in range(count)]
    if by_key:
        of_pods.sort(key=lambda workload: (workload.namespace, workload.name))
    for number, workload in enumerate(of_pods):
        yield _pod(draw, workload, number, draw.randrange(nodes))


def pages(
    count: int, page: int = 500, seed: int = 7, *, by_key: bool = False, nodes: int = 0
) -> Iterator[bytes]:
    """The bodies of the list answers that hold ``count`` pods, as :func:`pods` gives them.

    The continue token of a page is the number of the next one, from 1 on; the last has none.
    """
    held: list[bytes] = []
    given = 0
    for pod in pods(count, seed, by_key=by_key, nodes=nodes):
        held.append(pod)
        if len(held) == page and given + page < count:
            given += page
            yield _page(held, count, f"{given // page}", count - given)
            held = []
    yield _page(held, count, "", 0)


def node_name(number: int) -> str:
    """The name of a node that pods are bound to."""
    return f"node-{number:05d}.eu-1.example.com"


def _page(items: list[bytes], count: int, token: str, remaining: int) -> bytes:
    more = f',"continue":"{token}","remainingItemCount":{remaining}' if token else ""
    version = f'"resourceVersion":"{_FIRST_VERSION + count}"'
    head = f'{{"kind":"PodList","apiVersion":"v1","metadata":{{{version}{more}}},"items":['
    return head.encode() + b",".join(items) + b"]}\n"


def _workload(draw: Random, sort: str, number: int) -> Workload:
    namespace = f"team-{draw.randrange(_NAMESPACES):02d}"
    return Workload(sort, f"{sort}-{number:04d}", namespace, _uid(draw))


def _pod(draw: Random, workload: Workload, number: int, node: int) -> bytes:
    suffix = "".join(draw.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
    minute, second = draw.randrange(60), draw.randrange(50)
    values = {
        "name": f"{workload.name}-{number}-{suffix}",
        "namespace": workload.namespace,
        "workload": workload.name,
        "owner_uid": workload.uid,
        "uid": _uid(draw),
        "version": str(_FIRST_VERSION + number),
        "node": node_name(node),
        "host_ip": f"10.1.{node >> 8 & 255}.{node & 255}",
        "pod_ip": f"10.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}",
        "created": f"2030-01-14T09:{minute:02d}:{second:02d}Z",
        "started": f"2030-01-14T09:{minute:02d}:{second + 9:02d}Z",
        # The API server names the volume of a pod's token by lot.
        "token": suffix[::-1],
        "container_0": f"{draw.getrandbits(256):064x}",
        "container_1": f"{draw.getrandbits(256):064x}",
        "container_9": f"{draw.getrandbits(256):064x}",
    }
    texts, names = _template(workload.sort)
    filled = [text + values[name] for text, name in zip(texts, names, strict=False)]
    return "".join([*filled, texts[-1]]).encode()


def _uid(draw: Random) -> str:
    text = f"{draw.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


@cache
def _template(sort: str) -> tuple[list[str], list[str]]:
    """The texts between placeholders, and the names of those; compact as a server writes."""
    whole = msgspec.json.format((FOLDER / f"{sort}.json").read_bytes(), indent=-1).decode()
    parts = re.split(r"\$\{(\w+)\}", whole)
    return parts[0::2], parts[1::2]
