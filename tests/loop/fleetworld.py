# SPDX-License-Identifier: Apache-2.0
"""Simulated machines, the manager and the scheduler, each of which may stop and start anew."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

from koord.api import Node, NodeMetric, Pod, definitions
from koord.api.kinds.nodemetric import ResourceMap
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import SchedulerConfiguration, shipped
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane
from koord.kernels.quantity import Rounding
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.messages import Request
from koord.kube.patches import Patch
from koord.simulator.nodes.demand import Demand, DemandModel
from koord.simulator.nodes.pools import NodePools, Pool
from tests.controllers.manager.noderesource.scene import Scene
from tests.controllers.manager.noderesource.test_histories import JumpingClock
from tests.models import overcommit
from tests.simulator.world import World

CORES, GI = 16, 1 << 30
MANAGER = "noderesource,nodemetric,nodeslo"
_BATCH = (BATCH_CPU, BATCH_MEMORY)
# What the scheduler decides by may be as old as a write on its way.
_ON_ITS_WAY_SECONDS = 1.0
_RESTART_SECONDS = 20.0
_SEED = 1
_RESTLESS = DemandModel(
    services=Demand(cpu=0.5, noise=0.9), system=Demand(cpu=0.1, noise=0.9, memory=0.1)
)
"""Usage that swings, so that offers move by more and by less than the threshold."""
_NO_TAINTS = Patch.merge({"spec": {"taints": None}})
Amounts = tuple[int, int]


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
        pool = Pool(name="node", count=machines, cpu=CORES, memory="64Gi")
        self._pools = NodePools(pools=[pool], demand=_RESTLESS)
        self._fleet: asyncio.Task[None] | None = None
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
        fleet = self.scene.world.fleet(self._pools, _SEED)
        self._fleet = asyncio.create_task(fleet.run())
        self.silent = False
        await fleet.ready()
        for node in await self.nodes():
            # Servers taint new nodes, and nobody here takes the taint away.
            await self.client.patch(Node, node.metadata.name, _NO_TAINTS)
        await asyncio.sleep(_RESTART_SECONDS)

    async def silence(self) -> None:
        """They say nothing any more; their nodes stay."""
        self.silent = True
        await _end(self._fleet)
        self._fleet = None

    async def start_manager(self) -> None:
        """A new process, which knows nothing."""
        await self.scene.start(MANAGER)
        self.scene.patched = self._patched

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

    async def submit(self, name: str, batch: bool, cores: int) -> None:
        """A pod for any node: batch, or a service."""
        cpu, memory, amount = ("cpu", "memory", str(cores))
        if batch:
            cpu, memory, amount = BATCH_CPU, BATCH_MEMORY, str(1000 * cores)
        held = {cpu: amount, memory: f"{cores}Gi"}
        container = {"name": "c", "image": "i", "resources": {"requests": held, "limits": held}}
        labels = {"koordinator.sh/qosClass": "BE" if batch else "LS"}
        priority = "koord-batch" if batch else "koord-prod"
        meta = {"name": name, "namespace": "default", "labels": labels}
        spec = {"schedulerName": "koord-scheduler", "priorityClassName": priority,
                "containers": [container]}  # fmt: skip
        await self.client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )

    async def nodes(self) -> list[Node]:
        """All nodes."""
        return (await self.client.list(Node)).items

    async def formula(self, node: Node, strategy: dict[str, Any]) -> overcommit.Node:
        """The node as the plain model wants it, from what the API server has of it now."""
        name = node.metadata.name
        metric = await self._metric(name)
        told = None if metric is None else metric.status.update_time
        pods = (await self.client.list(Pod, field_selector=f"spec.nodeName={name}")).items
        info = metric and metric.status.node_metric
        model = overcommit.Node(
            _pair(node.status.capacity), _pair(node.status.allocatable), strategy,
            age_seconds=None if told is None else int(self.clock.wall_seconds() - told.timestamp()),
            body=bool(info), system=_used(info.system_usage if info else None),
            pods=[_pod(each) for each in pods],
        )  # fmt: skip
        known = {each.name for each in model.pods}
        for each in metric.status.pods_metric if metric else ():
            measured = overcommit.Metric(_used(each.pod_usage), each.priority)
            if each.name in known:
                model.metrics[each.name] = measured
            else:
                model.dangling.append(measured)
        return model

    async def _metric(self, name: str) -> NodeMetric | None:
        try:
            return await self.client.get(NodeMetric, name)
        except ApiError as error:
            if error.http_status != 404:
                raise
            return None

    # -- what is watched ------------------------------------------------------------------------

    async def _patched(self, before: Node, after: Node) -> None:
        now = self.clock.monotonic_seconds()
        self._offered.setdefault(after.metadata.name, []).append((now, _pair(before, _BATCH)))
        await self.changed(before, after)

    async def changed(self, before: Node, after: Node) -> None:
        """Told of each write of a node's status by the manager; a history may look at it."""

    async def _check_binding(self, request: Request) -> None:
        body = json.loads(request.body)
        pod = await self.client.get(Pod, body["metadata"]["name"], "default")
        asked = _requested(pod, _BATCH)
        if asked == (0, 0):
            return
        node = await self.client.get(Node, body["target"]["name"])
        name, now = node.metadata.name, self.clock.monotonic_seconds()
        there = (await self.client.list(Pod, field_selector=f"spec.nodeName={name}")).items
        lately = [was for at, was in self._offered.get(name, ()) if now - at <= _ON_ITS_WAY_SECONDS]
        offers = [_pair(node, _BATCH), *lately]
        for r, resource in enumerate(_BATCH):
            held = sum(
                _requested(p, _BATCH)[r] for p in there if p.metadata.name != pod.metadata.name
            )
            if held + asked[r] > max(offer[r] for offer in offers):
                self.wrong.append(f"{pod.title} on {name}: {resource} {held} + {asked} of {offers}")


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


def _pair(holder: Any, names: tuple[str, str] = ("cpu", "memory")) -> Amounts:
    """CPU in milli-cores (batch CPU is in them already) and memory in bytes; 0 for absent ones."""
    amounts = holder.status.allocatable if isinstance(holder, Node) else holder
    cpu, memory = (amounts.get(name) for name in names)
    whole = names[0] == BATCH_CPU
    milli = 0 if cpu is None else cpu.value(Rounding.UP) if whole else cpu.milli(Rounding.UP)
    return milli, 0 if memory is None else memory.value(Rounding.UP)


def _used(usage: ResourceMap | None) -> Amounts:
    return _pair({} if usage is None else usage.resources)


def _requested(pod: Pod, names: tuple[str, str]) -> Amounts:
    if pod.status.phase in ("Succeeded", "Failed"):
        return 0, 0
    return _pair(pod.spec.containers[0].resources.requests, names)


def _pod(pod: Pod) -> overcommit.Pod:
    return overcommit.Pod(
        pod.metadata.name, pod.status.phase, priority=pod.spec.priority,
        qos_label=pod.metadata.labels.get("koordinator.sh/qosClass"),
        request=_requested(pod, ("cpu", "memory")),
    )  # fmt: skip
