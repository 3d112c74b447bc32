# SPDX-License-Identifier: Apache-2.0
"""The whole shipped profile and an API server in one process, writes and watches counted.

Pods are there and queued before the clock starts. It stops when all are bound and the scheduler has
read that back from its watch.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from koord.api import crds
from koord.base.clock import SystemClock
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.controllers.scheduler.views import InformerViews
from koord.controllers.scheduler.world import World
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.messages import Request

_AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_CONTAINER = {"name": "main", "image": "app:1",
              "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}  # fmt: skip


def seconds_a_pod(nodes: int, pods: int) -> float:
    """CPU seconds of the process a pod: decision, Binding, store, watch events, confirmation."""
    return asyncio.run(_measure(nodes, pods))


async def _measure(nodes: int, pods: int) -> float:
    async with EmbeddedControlPlane(Options(port=0, insecure=True)) as plane:
        client = Client(plane.transport(), requests_per_second=None)
        names = [name async for name, _ in installing.install(client, crds())]
        await installing.wait_established(client, names, 60.0)
        await _create(client, "/api/v1/nodes", [_node(index) for index in range(nodes)])
        views = InformerViews(client)
        registry = Registry(outside=[])
        world = World(views, SystemClock(), client, None)
        found = shipped(registry, "koord-scheduler")
        scheduler = Scheduler(world, found.profiles, registry)
        tasks = [asyncio.create_task(views.run())]
        try:
            await views.synced()
            path = "/api/v1/namespaces/default/pods"
            await _create(client, path, [_pod(index) for index in range(pods)])
            while len(scheduler.queue) < pods:
                await asyncio.sleep(0.01)
            start = time.process_time()
            tasks.append(asyncio.create_task(scheduler.loop.run()))
            while len(world.accounts.pods()) < pods or scheduler.feed.assumed:
                await asyncio.sleep(0.01)
            return (time.process_time() - start) / pods
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


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
