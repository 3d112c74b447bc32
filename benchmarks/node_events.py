# SPDX-License-Identifier: Apache-2.0
"""What nodes say while nothing happens: ``python -m benchmarks.node_events --nodes 20000``.

The shipped profile follows a server that has Nodes and NodeMetrics and sends their updates over
watches as lines of JSON, many at a reading. Cases:

* ``heartbeats``: Nodes of 5 KB in which times and the version are new.
* ``cordons``: the same Nodes, each marked unschedulable or no longer so.
* ``metrics``: NodeMetrics of 28 pods, with other usage each time.

Microseconds of this process's CPU from the bytes of a watch to the last handler, the making of
lines not counted; and what share of a core an announced rate takes: 10,000 Nodes a second, and the
NodeMetrics of 100,000 nodes in a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.base.clock import SystemClock
from koord.controllers.cluster.trimmed_nodes import TrimmedNode
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.cluster.views import InformerViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kube.client import Client
from koord.kube.transport.messages import Request, Response

CASES = ("heartbeats", "cordons", "metrics")
A_SECOND = {"heartbeats": 10_000, "cordons": 10_000, "metrics": 100_000 / 60}
AT_ONCE, PODS, IMAGES = 100, 28, 18
_NODES = "/api/v1/nodes"
_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"


class Cost(NamedTuple):
    """CPU seconds an event, its bytes, and how many updates handlers of Nodes were told of."""

    seconds: float
    size: int
    told: int


def node(number: int, version: int, cordoned: bool = False) -> dict[str, Any]:
    """A Node as a kubelet writes it."""
    now = f"2030-01-14T{version // 3600 % 24:02}:{version // 60 % 60:02}:{version % 60:02}Z"
    name = f"node-{number:06}"
    amounts = {
        "cpu": "64", "ephemeral-storage": "500Gi", "hugepages-2Mi": "0",
        "memory": "263921312Ki", "pods": "110",
    }  # fmt: skip
    fields = {"f:status": {"f:conditions": {f'k:{{"type":"{t}"}}': {"f:lastHeartbeatTime": {}}
                                            for t in _CONDITIONS}}}  # fmt: skip
    meta = {
        "name": name, "uid": f"uid-{name}", "resourceVersion": str(version),
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                   "topology.kubernetes.io/zone": f"zone-{number % 3}"},
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1",
                           "time": now, "fieldsType": "FieldsV1", "fieldsV1": fields}],
    }  # fmt: skip
    conditions = [
        {"type": each, "status": "True" if each == "Ready" else "False", "reason": "Kubelet",
         "message": "kubelet says so", "lastHeartbeatTime": now,
         "lastTransitionTime": "2030-01-01T00:00:00Z"}
        for each in _CONDITIONS
    ]  # fmt: skip
    # Each node has pulled others.
    images = [
        {"names": [f"registry/team/app-{number * 7 + i}@sha256:{number * 31 + i:064x}",
                   f"registry/team/app-{number * 7 + i}:1.{i}"], "sizeBytes": 10_000_000 + i}
        for i in range(IMAGES)
    ]  # fmt: skip
    status = {
        "capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images,
        "addresses": [{"type": "InternalIP", "address": f"10.{number >> 8}.{number & 255}.1"}],
        "nodeInfo": {"kernelVersion": "6.1.0", "osImage": "Linux", "kubeletVersion": "v1.35.0"},
    }  # fmt: skip
    spec = {"unschedulable": True} if cordoned else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")


def metric(number: int, version: int) -> dict[str, Any]:
    """What a node's agent reports once a minute."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    name = f"node-{number:06}"

    def usage(of: int) -> dict[str, Any]:
        more = (version * 7 + of * 13) % 500
        return {"resources": {"cpu": f"{200 + more}m", "memory": f"{1000 + more}Mi"}}

    status = {
        "updateTime": now,
        "nodeMetric": {"nodeUsage": usage(number), "systemUsage": usage(1)},
        "podsMetric": [
            {"name": f"app-{number}-{i}", "namespace": "default", "priority": "koord-prod",
             "podUsage": usage(i)}
            for i in range(PODS)
        ],
    }  # fmt: skip
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 60, "aggregateDurationSeconds": 300}}
    return {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": meta,
            "spec": spec, "status": status}  # fmt: skip


def document(case: str, number: int, version: int) -> dict[str, Any]:
    """An object of a case at a version."""
    if case == "metrics":
        return metric(number, version)
    return node(number, version, case == "cordons" and version % 2 == 1)


class Server:
    """Has Nodes and NodeMetrics and nothing else.

    Args:
        case: what its watch tells of.
        nodes: how many there are.
    """

    def __init__(self, case: str, nodes: int) -> None:
        self._nodes = nodes
        self.watched: set[str] = set()
        self.lines: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.path = _METRICS if case == "metrics" else _NODES

    async def send(self, request: Request) -> Response:
        """A whole list."""
        items: list[dict[str, Any]] = []
        if request.path == _NODES:
            items = [node(number, 0) for number in range(self._nodes)]
        elif request.path == _METRICS:
            items = [metric(number, 0) for number in range(self._nodes)]
        body = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
        return Response(200, msgspec.json.encode({**body, "items": items}))

    async def open(self, request: Request) -> Watched:
        """A watch."""
        self.watched.add(request.path)
        return Watched(self.lines if request.path == self.path else asyncio.Queue())

    async def close(self) -> None:
        """Nothing is open."""


class Watched:
    """A watch's answer."""

    def __init__(self, lines: asyncio.Queue[list[bytes]]) -> None:
        self._lines = lines

    async def read(self) -> list[bytes]:
        """What came."""
        return await self._lines.get()

    async def close(self) -> None:
        """Nothing is open."""


def lines_of(case: str, nodes: int, events: int) -> Iterator[list[bytes]]:
    """Updates of all nodes in turn, some at a reading."""
    for first in range(0, events, AT_ONCE):
        yield [
            msgspec.json.encode(
                {
                    "type": "MODIFIED",
                    "object": document(case, i % nodes, 10 * nodes + i + i // nodes),
                }
            )
            for i in range(first, min(first + AT_ONCE, events))
        ]


def measure(case: str, nodes: int, events: int, told_apart: bool = True) -> Cost:
    """What events cost; the first of each node is not counted.

    Args:
        case: which.
        nodes: of the cluster.
        events: how many.
        told_apart: whether what nothing reads is told apart, as the program has it.
    """
    return asyncio.run(_measure(case, nodes, events, told_apart))


async def _measure(case: str, nodes: int, events: int, told_apart: bool) -> Cost:
    server = Server(case, nodes)
    followed: dict[type, dict[str, Any]] = {Pod: {"project": TrimmedPod}}
    if told_apart:
        followed[Node] = {"project": TrimmedNode, "skip_unread": True}
    views = InformerViews(Client(server, requests_per_second=None), options=followed)
    registry = Registry(outside=[])
    world = ClusterState(views, SystemClock())
    Scheduler(world, shipped(registry, "koord-scheduler").profiles, registry)
    told = 0

    def updated(old: Node, new: Node) -> None:
        nonlocal told
        told += 1

    views.view(Node).on_change(updated=updated)
    running = asyncio.create_task(views.run())
    try:
        await views.synced()
        view: Any = views.view(NodeMetric if case == "metrics" else Node)
        spent, size, before = 0.0, 0, 0
        for number, lines in enumerate(lines_of(case, nodes, nodes + events)):
            last = str(msgspec.json.decode(lines[-1])["object"]["metadata"]["resourceVersion"])
            start = time.process_time()
            server.lines.put_nowait(lines)
            while view.resource_version != last:
                await asyncio.sleep(0)
            if number * AT_ONCE < nodes:
                before = told
                continue
            spent += time.process_time() - start
            size += sum(map(len, lines))
        return Cost(spent / events, size // events, told - before)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--case", choices=CASES, nargs="+", default=CASES)
    options = parser.parse_args()
    print(f"{'case':12} {'bytes':>6} {'us an event':>12} {'events a s':>10} {'of a core':>9}")
    for case in options.case:
        cost = measure(case, options.nodes, options.events)
        rate = A_SECOND[case]
        print(
            f"{case:12} {cost.size:6,} {cost.seconds * 1e6:12.1f} {rate:10,.0f}"
            f" {cost.seconds * rate:9.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
