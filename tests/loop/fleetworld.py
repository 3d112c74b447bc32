# SPDX-License-Identifier: Apache-2.0
"""Simulated machines, the manager and the scheduler, each of which may stop and start anew."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any, TypeVar

from koord.api import Node, NodeMetric, NodeResourceTopology, Pod, definitions
from koord.api.protocol import keys
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import SchedulerConfiguration, shipped
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request
from koord.simulator.nodes.demand import DemandModel, UsageDemand
from koord.simulator.nodes.pools import NodePool, NodePools
from tests.controllers.manager.noderesource.scene import Scene
from tests.controllers.manager.noderesource.test_histories import JumpingClock
from tests.loop import reading
from tests.loop.reading import BATCH, MID
from tests.models import overcommit
from tests.simulator.simulated_cluster import World

CORES, GI = 16, 1 << 30
MANAGER = "noderesource,nodemetric,nodeslo"
# What the scheduler decides by may be as old as a write on its way.
_ON_ITS_WAY_SECONDS = 1.0
_RESTART_SECONDS = 20.0
_SEED = 1
_RESTLESS = DemandModel(
    services=UsageDemand(cpu=0.5, noise=0.9), system=UsageDemand(cpu=0.1, noise=0.9, memory=0.1)
)
"""Usage that swings, so that offers move by more and by less than the threshold."""
# By kind of pod: QoS class, priority class, what it asks for, annotations.
_KINDS: dict[str, tuple[str, str, tuple[str, str], dict[str, str]]] = {
    "batch": ("BE", "koord-batch", BATCH, {}),
    "mid": ("BE", "koord-mid", MID, {}),
    "service": ("LS", "koord-prod", ("cpu", "memory"), {}),
    "bound": ("LSR", "koord-prod", ("cpu", "memory"),
              {keys.NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}),
    "unlent": ("LSE", "koord-prod", ("cpu", "memory"), {}),
}  # fmt: skip
PODS = tuple(_KINDS)
_NO_TAINTS = Patch.merge({"spec": {"taints": None}})
Amounts = tuple[int, ...]
T = TypeVar("T", NodeMetric, NodeResourceTopology)


class FleetWorld:
    """What a history acts on, and what it found wrong.

    Attributes:
        wrong: bindings above what was offered.
        silent: whether the agents and kubelets are stopped.
    """

    def __init__(self, plane: EmbeddedControlPlane, clock: JumpingClock, machines: int) -> None:
        self.clock, self.plane = clock, plane
        self.scene = Scene(World(plane, clock))
        self.client = self.scene.client
        self.wrong: list[str] = []
        self.silent = True
        self._pools = [NodePool(name="node", count=machines, cpu=CORES, memory="64Gi")]
        self._fleets: list[asyncio.Task[None]] = []
        self._scheduler: asyncio.Task[None] | None = None
        # What nodes offered, each time with when it was seen to change.
        self._offered: dict[str, list[tuple[float, Amounts]]] = {}

    async def open(self) -> None:
        """Definitions and priority classes; nothing runs yet."""
        for document in _definitions():
            await self.client.create(document, kind=installing.CRD)
        names = [each["metadata"]["name"] for each in _definitions()]
        await installing.wait_established(self.client, names, 10)
        for document in _priority_classes():
            await self.client.create(document)

    async def close(self) -> None:
        """Ends all that runs."""
        await self.silence()
        await self.stop_scheduler()
        await self.scene.stop()

    # -- what starts and stops ------------------------------------------------------------------

    async def speak(self) -> None:
        """Machines live: kubelets run pods, agents report."""
        self.silent = False
        for pool in self._pools:
            await self._run(pool)
        await asyncio.sleep(_RESTART_SECONDS)

    async def silence(self) -> None:
        """They say nothing any more; their nodes stay."""
        self.silent = True
        for fleet in self._fleets:
            await _end(fleet)
        self._fleets.clear()

    async def join(self, cores: int, zones: int) -> None:
        """A machine of another shape comes; while all are silent, once they speak."""
        name = f"late{len(self._pools)}"
        pool = NodePool(
            name=name, cpu=cores, memory=f"{3 * cores}Gi", sockets=1, numa_nodes_per_socket=zones,
            kubelet_reserved={"cpu": "2", "memory": "1Gi"},
        )  # fmt: skip
        self._pools.append(pool)
        if not self.silent:
            await self._run(pool)

    @property
    def joined(self) -> int:
        """How many machines have come since the beginning."""
        return len(self._pools) - 1

    async def _run(self, pool: NodePool) -> None:
        fleet = self.scene.world.fleet(NodePools(pools=[pool], demand=_RESTLESS), _SEED)
        self._fleets.append(asyncio.create_task(fleet.run()))
        await fleet.ready()
        for machine in fleet.machines:
            # Servers taint new nodes, and nobody here takes the taint away.
            await self.client.patch(Node, machine.name, _NO_TAINTS)

    async def start_manager(self) -> None:
        """A new process, which knows nothing."""
        await self.scene.start(MANAGER)
        self.scene.patched = self._patched
        self.scene.zoned = self.zoned

    async def start_scheduler(self) -> None:
        """A new process, whose bindings are looked at."""
        transport = self.plane.transport()
        inner = transport.send

        async def send(request: Request) -> Any:
            if request.path.endswith("/binding"):
                await self._check_binding(request)
            return await inner(request)

        transport.send = send  # type: ignore[method-assign]
        client = Client(transport, "koord-scheduler", requests_per_second=None)
        plugins, configuration = _scheduler_configuration()
        app = App(client, configuration, self.clock, registry=plugins)
        self._scheduler = asyncio.create_task(app.run())
        await app.ready()

    async def stop_scheduler(self) -> None:
        """It is gone."""
        await _end(self._scheduler)
        self._scheduler = None

    # -- what is there --------------------------------------------------------------------------

    async def submit(self, name: str, kind: str, cores: int) -> None:
        """A pod for any node, of a kind of :data:`PODS`."""
        qos, priority, (cpu, memory), annotations = _KINDS[kind]
        amount = str(cores if cpu == "cpu" else 1000 * cores)
        held = {cpu: amount, memory: f"{cores}Gi"}
        container = {"name": "c", "image": "i", "resources": {"requests": held, "limits": held}}
        meta = {"name": name, "namespace": "default", "labels": {keys.QOS_CLASS: qos},
                "annotations": annotations}  # fmt: skip
        spec = {"schedulerName": "koord-scheduler", "priorityClassName": priority,
                "containers": [container]}  # fmt: skip
        await self.client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )

    async def leave(self, name: str) -> None:
        """A node goes, and what it owns, as a garbage collector would have it."""
        await self.client.delete(Node, name)
        for kind in (NodeResourceTopology, NodeMetric):
            if await self._found(kind, name) is not None:
                await self.client.delete(kind, name)

    async def reserve(self, name: str, text: str) -> None:
        """Annotates a node with a reservation of :data:`reading.RESERVATIONS`."""
        change = Patch.merge({"metadata": {"annotations": {keys.NODE_RESERVATION: text}}})
        await self.client.patch(Node, name, change)

    async def nodes(self) -> list[Node]:
        """All nodes."""
        return (await self.client.list(Node)).items

    async def formula(self, node: Node, strategy: dict[str, Any]) -> overcommit.Node:
        """The node as the plain model wants it, from what the API server has of it now."""
        name = node.metadata.name
        pods = (await self.client.list(Pod, field_selector=f"spec.nodeName={name}")).items
        metric, topology = await self._found(NodeMetric, name), await self.topology(name)
        now = self.clock.wall_seconds()
        return reading.node(node, strategy, metric, pods, topology, now)

    async def topology(self, name: str) -> NodeResourceTopology | None:
        """The zones of a node, None where its agent has not told them."""
        return await self._found(NodeResourceTopology, name)

    async def _found(self, kind: type[T], name: str) -> T | None:
        try:
            return await self.client.get(kind, name)
        except ApiError as error:
            if error.http_status != 404:
                raise
            return None

    # -- what is watched ------------------------------------------------------------------------

    async def _patched(self, before: Node, after: Node) -> None:
        now = self.clock.monotonic_seconds()
        self._offered.setdefault(after.metadata.name, []).append((now, _offers(before)))
        await self.changed(before, after)

    async def changed(self, before: Node, after: Node) -> None:
        """Told of each write of a node's status by the manager; a history may look at it."""

    async def zoned(self, before: NodeResourceTopology, after: NodeResourceTopology) -> None:
        """Told of each write of a node's zones by the manager; a history may look at it."""

    async def _check_binding(self, request: Request) -> None:
        body = json.loads(request.body)
        pod = await self.client.get(Pod, body["metadata"]["name"], "default")
        asked = _asked(pod)
        if not any(asked):
            return
        node = await self.client.get(Node, body["target"]["name"])
        name, now = node.metadata.name, self.clock.monotonic_seconds()
        there = (await self.client.list(Pod, field_selector=f"spec.nodeName={name}")).items
        lately = [was for at, was in self._offered.get(name, ()) if now - at <= _ON_ITS_WAY_SECONDS]
        offers = [_offers(node), *lately]
        for r, resource in enumerate((*BATCH, *MID)):
            held = sum(_asked(p)[r] for p in there if p.metadata.name != pod.metadata.name)
            if asked[r] and held + asked[r] > max(offer[r] for offer in offers):
                self.wrong.append(f"{pod.title} on {name}: {resource} {held} + {asked} of {offers}")


def _offers(node: Node) -> tuple[int, ...]:
    return *reading.pair(node.status.allocatable, BATCH), *reading.pair(
        node.status.allocatable, MID
    )


def _asked(pod: Pod) -> tuple[int, ...]:
    return *reading.requested(pod, BATCH), *reading.requested(pod, MID)


# Read once for all examples: parsing YAML takes longer than a cluster's minutes.
_definitions = cache(definitions.crds)
_priority_classes = cache(definitions.priority_classes)


@cache
def _scheduler_configuration() -> tuple[Registry, SchedulerConfiguration]:
    plugins = Registry(())
    return plugins, shipped(plugins)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        for failure in await asyncio.gather(task, return_exceptions=True):
            assert failure is None or isinstance(failure, asyncio.CancelledError), failure
