# SPDX-License-Identifier: Apache-2.0
"""The whole shipped profile and an API server in one process, writes and watches counted.

Pods are there and queued before the clock starts. It stops when all are bound and the scheduler has
read that back from its watch. The first pods show what a shape costs once (all nodes are looked
at); the others what each of them costs.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

import msgspec

from koord.api import crds
from koord.base.clock import SystemClock
from koord.base.memory import garbage_collection
from koord.controllers.cluster.views import InformerViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.transport.messages import Request

_AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_CONTAINER = {"name": "main", "image": "app:1",
              "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}  # fmt: skip


_FIRST = 10
_ROUNDS = 5


class Cost(NamedTuple):
    """CPU seconds of the process.

    Attributes:
        once: for the first pods of a shape, whatever comes after.
        each: a pod then: decision, Binding, store, watch events, confirmation; the least of some
            rounds, for others on the machine only add.
        deciding: the part of it that deciding takes, in that round.
    """

    once: float
    each: float
    deciding: float


def measure(nodes: int, pods: int) -> Cost:
    """What so many equal pods cost among so many nodes."""
    return asyncio.run(_measure(nodes, pods))


async def _measure(nodes: int, pods: int) -> Cost:
    async with EmbeddedControlPlane(Options(port=0, insecure=True)) as plane:
        client = Client(plane.transport(), requests_per_second=None)
        names = [name async for name, _ in installing.install(client, crds())]
        await installing.wait_established(client, names, 60.0)
        await _create(client, "/api/v1/nodes", [_node(index) for index in range(nodes)])
        views = InformerViews(client)
        registry = Registry(outside=[])
        world = ClusterState(views, SystemClock(), client, None)
        found = shipped(registry, "koord-scheduler")
        scheduler = Scheduler(world, found.profiles, registry)
        tasks = [asyncio.create_task(views.run())]
        try:
            await views.synced()
            # As the programs do once they are ready.
            garbage_collection.collect_rarely()
            first, _ = await _place(client, scheduler, 0, _FIRST)
            size = max(1, (pods - _FIRST) // _ROUNDS)
            rounds = [
                await _place(client, scheduler, _FIRST + number * size, size)
                for number in range(_ROUNDS)
            ]
            each, deciding = (seconds / size for seconds in min(rounds))
            return Cost(max(0.0, first - _FIRST * each), each, deciding)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _place(
    client: Client, scheduler: Scheduler, there: int, more: int
) -> tuple[float, float]:
    """CPU seconds until so many more pods are bound and known to be, and those of deciding."""
    path, world = "/api/v1/namespaces/default/pods", scheduler.world
    await _create(client, path, [_pod(index) for index in range(there, there + more)])
    while len(scheduler.queue) < more:
        await asyncio.sleep(0.01)
    start, decided = time.process_time(), scheduler.loop.deciding_seconds
    task = asyncio.create_task(scheduler.loop.run())
    try:
        while len(world.accounts.pods()) < there + more or scheduler.feed.assumed:
            await asyncio.sleep(0.002)
        return time.process_time() - start, scheduler.loop.deciding_seconds - decided
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _create(client: Client, path: str, documents: list[dict[str, Any]]) -> None:
    for document in documents:
        await client.request(Request("POST", path, body=msgspec.json.encode(document)))


def _node(index: int) -> dict[str, Any]:
    name = f"node-{index:05}"
    labels = {"kubernetes.io/hostname": name}
    status = {"allocatable": _AMOUNTS, "capacity": _AMOUNTS,
              "conditions": [{"type": "Ready", "status": "True"}]}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": status}  # fmt: skip


def _pod(index: int) -> dict[str, Any]:
    # No controller takes the taint of new nodes away here.
    new = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    spec = {"schedulerName": "koord-scheduler", "containers": [_CONTAINER], "tolerations": [new]}
    meta = {"name": f"pod-{index:06}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
