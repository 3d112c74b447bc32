# SPDX-License-Identifier: Apache-2.0
"""A manager on an embedded API server with simulated machines, on virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api import ConfigMap, Event, Node, NodeMetric, NodeResourceTopology
from koord.controllers.manager.app import ManagerApp
from koord.controllers.manager.noderesource.controller import NodeResource
from koord.controllers.manager.options import ManagerOptions
from koord.kernels.quantity import Rounding
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request
from koord.simulator.nodes.pools import NodePool, NodePools
from tests.simulator.simulated_cluster import World, play

NAMESPACE, CONFIG = "koordinator-system", "slo-controller-config"
BATCH = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
MID = ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
ON: dict[str, object] = {"enable": True}


class Scene:
    """The world and its manager.

    Attributes:
        writes: what the manager wrote: ``verb kind/subresource``, in order.
        patched: told of each write of a node's status: the node before and after.
        zoned: told likewise of each write of a node's zones.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = world.client
        self.writes: list[str] = []
        self.patched: Callable[[Node, Node], Awaitable[None]] | None = None
        self.zoned: (
            Callable[[NodeResourceTopology, NodeResourceTopology], Awaitable[None]] | None
        ) = None
        self.app: ManagerApp | None = None
        self._running: list[asyncio.Task[None]] = []

    async def start(self, controllers: str = "noderesource", **options: Any) -> ManagerApp:
        """Starts a manager, and waits until it knows everything."""
        transport = self.world.plane.transport()
        inner = transport.send

        async def send(request: Request) -> Any:
            if request.method in ("GET", "DELETE") or "events" in request.path:
                return await inner(request)
            kind = request.path.split("/")[-2:]
            self.writes.append(f"{request.method} {'/'.join(kind)}")
            if kind[1] == "status" and self.patched is not None:
                before = await self.node(kind[0])
                answer = await inner(request)
                if answer.status == 200:
                    await self.patched(before, await self.node(kind[0]))
                return answer
            if kind[0] == "noderesourcetopologies" and self.zoned is not None:
                zones = await self.topology(kind[1])
                answer = await inner(request)
                if answer.status == 200:
                    await self.zoned(zones, await self.topology(kind[1]))
                return answer
            return await inner(request)

        transport.send = send  # type: ignore[method-assign]
        client = Client(transport, "koord-manager", requests_per_second=None)
        recorder = EventRecorder(client, "koord-manager", clock=self.world.clock)
        wish = ManagerOptions(controllers=controllers, **options)
        self.app = ManagerApp(client, wish, self.world.clock, recorder)
        self._running = [
            asyncio.create_task(self.app.run()), asyncio.create_task(recorder.run())
        ]  # fmt: skip
        await self.app.ready()
        return self.app

    async def stop(self) -> None:
        """Stops the manager; the next start is another process."""
        for task in self._running:
            task.cancel()
        ended = await asyncio.gather(*self._running, return_exceptions=True)
        failed = [e for e in ended if isinstance(e, Exception)]
        assert not failed, failed
        self._running = []

    @property
    def controller(self) -> NodeResource:
        """The running node-resource controller."""
        assert self.app is not None
        found = self.app.parts["noderesource"]
        assert isinstance(found, NodeResource)
        return found

    async def configure(self, colocation: object, **sections: object) -> None:
        """Writes the ConfigMap; values that are no text become JSON."""
        data = {
            key.replace("_", "-"): value if isinstance(value, str) else json.dumps(value)
            for key, value in {"colocation_config": colocation, **sections}.items()
        }
        meta = {"name": CONFIG, "namespace": NAMESPACE}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        if not await self._created(document):
            change = Patch.merge({"data": data})
            await self.client.patch(ConfigMap, CONFIG, change, namespace=NAMESPACE)

    async def _created(self, document: dict[str, Any]) -> bool:
        """Creates an object in the manager's namespace, which is made with it; False if it is."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        for each in (space, document):
            try:
                await self.client.create(each)
            except ApiError as error:
                if error.http_status != 409:
                    raise
                if each is document:
                    return False
        return True

    async def node(self, name: str = "node-001") -> Node:
        """The node as the API server has it."""
        return await self.client.get(Node, name)

    async def topology(self, name: str = "node-001") -> NodeResourceTopology:
        """Its zones as the API server has them."""
        return await self.client.get(NodeResourceTopology, name)

    async def offers(self, name: str = "node-001", names: tuple[str, ...] = BATCH) -> Any:
        """Allocatable amounts; None where the node has none of them."""
        return shown(await self.node(name), names)

    async def annotate(self, name: str, **values: Any) -> None:
        """Sets annotations or labels of a node: ``annotations={...}``, ``labels={...}``."""
        await self.client.patch(Node, name, Patch.merge({"metadata": values}))

    async def events(self, reason: str) -> list[str]:
        """Messages of events."""
        found = (await self.client.list(Event)).items
        return [event.message for event in found if event.reason == reason]

    async def report(self, name: str) -> NodeMetric:
        """What a node's agent said last."""
        return await self.client.get(NodeMetric, name)

    async def settle(self, seconds: float = 1.0) -> None:
        """Lets time pass."""
        await asyncio.sleep(seconds)


def shown(node: Node, names: tuple[str, ...] = BATCH) -> Any:
    """Allocatable amounts of a node as numbers; None where it has none of them."""
    allocatable = node.status.allocatable
    assert {name: allocatable.get(name) for name in names} == {
        name: node.status.capacity.get(name) for name in names
    }
    found = tuple(allocatable[name].value(Rounding.UP) for name in names if name in allocatable)
    return found or None


def pools(count: int = 2, **pool: Any) -> NodePools:
    """Machines of 32 CPUs and 128Gi with two NUMA nodes."""
    return NodePools(pools=[NodePool(name="node", count=count, **pool)])


def perform(script: Callable[[Scene], Awaitable[None]]) -> None:
    """Runs a script on virtual time."""

    async def inner(world: World) -> None:
        scene = Scene(world)
        try:
            await script(scene)
        finally:
            await scene.stop()

    play(inner)
