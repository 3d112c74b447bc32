# SPDX-License-Identifier: Apache-2.0
"""A scheduler with its shipped configuration on an embedded server, and what users put there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from koord.api import definitions
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import KINDS
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.consistency.checker import drift
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.kube.harness import run_virtual

Document = dict[str, Any]
RESERVATION = "node.koordinator.sh/reservation"


class Cluster:
    """What a story acts on."""

    def __init__(self, plane: EmbeddedControlPlane, clock: VirtualClock) -> None:
        self.client = Client(plane.transport(), "user", requests_per_second=None)
        client = Client(plane.transport(), "koord-scheduler", requests_per_second=None)
        registry = Registry(outside=[])
        self.app = App(
            client, shipped(registry, "koord-scheduler", "second"), clock, registry=registry
        )

    async def node(self, name: str, amounts: dict[str, str], **annotations: str) -> None:
        """A node that is ready; annotations by short key."""
        offered = {"cpu": "8", "memory": "16Gi", "pods": "110", **amounts}
        ready = [{"type": "Ready", "status": "True"}]
        notes = {f"node.koordinator.sh/{key}": text for key, text in annotations.items()}
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name},
                "annotations": notes,
            },
            "status": {"capacity": offered, "allocatable": offered, "conditions": ready},
        }
        await self.client.create(made)
        # Without the taint that servers put on new ones.
        await self.note(name, {}, {"taints": None})

    async def note(self, node: str, annotations: dict[str, str | None], spec: Any = None) -> None:
        """Writes annotations on a node; None takes one away."""
        change = {"metadata": {"annotations": annotations}, "spec": spec or {}}
        await self.client.patch(Node, node, Patch.merge(change))

    async def add(self, *documents: Document) -> None:
        """Objects as users write them."""
        for each in documents:
            await self.client.create(each)

    async def placed(self, *names: str, seconds: float = 20) -> dict[str, str]:
        """The nodes of pods once all of them have one, or after some time."""
        found: dict[str, str] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not found or not all(found.values()):
                    await asyncio.sleep(0.25)
                    pods = [await self.client.get(Pod, name, "default") for name in names]
                    found = {each.metadata.name: each.spec.node_name for each in pods}
        return found

    async def offered(self, node: str) -> dict[str, int]:
        """What the scheduler takes a node to offer, as soon as it has heard of all."""
        await asyncio.sleep(1)
        table = self.app.world.table
        row = table.row(node)
        assert row is not None
        amounts = zip(table.resources, table.allocatable[:, row].tolist(), strict=True)
        return {name: amount for name, amount in amounts if amount}


def play(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Runs a story; no time passes outside. The scheduler's accounts agree in the end."""
    clock = VirtualClock(1_700_000_000.0)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(port=None, clock=clock, seed=1)) as plane:
            cluster = Cluster(plane, clock)
            await _install(cluster.client)
            running = asyncio.create_task(cluster.app.run())
            try:
                await cluster.app.ready()
                await story(cluster)
                await asyncio.sleep(1)
                assert not any(drift(cluster.app.scheduler).values())
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    run_virtual(whole(), clock)


async def _install(client: Client) -> None:
    names = [each async for each, _ in installing.install(client, definitions.crds())]
    await installing.wait_established(client, names, 60.0)
    classes = next(kind for kind in KINDS if kind.name == "PriorityClass")
    async for _ in installing.install(client, definitions.priority_classes(), classes):
        pass


def pod(name: str, requests: dict[str, str], **spec: Any) -> Document:
    """A pod of one container that may use just what it asks for."""
    resources = {"requests": requests, "limits": requests}
    containers = [{"name": "main", "image": "i", "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **spec.pop("metadata", {})},
        "spec": {"schedulerName": "koord-scheduler", "containers": containers, **spec},
    }
