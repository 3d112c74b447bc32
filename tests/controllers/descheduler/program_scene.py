# SPDX-License-Identifier: Apache-2.0
"""Deschedulers over an embedded API server on virtual time, with plugins that tests drive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from koord.api.definitions import crds
from koord.api.kinds.cluster import Event
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.app import NAME, DeschedulerApp
from koord.controllers.descheduler.config.load import DeschedulerConfiguration, decode
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.metrics import DeschedulerMetrics
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as definitions
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.election import LeaderElector
from koord.kube.events import EventRecorder
from koord.kube.transport.messages import Request
from tests.kube.harness import run_virtual

START_SECONDS = 1_900_000_000.0
SYSTEM = "koordinator-system"
Script = Callable[["ProgramScene"], Awaitable[None]]


class MarkedPods(DeschedulerPlugin):
    """Wants every pod with the label ``go`` to go."""

    name = "MarkedPods"

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            for pod in self.handle.snapshot.pods_on(node.metadata.name):
                if "go" in pod.metadata.labels and self.handle.evictor.accepts(pod):
                    await self.handle.evictor.evict(pod, "it is marked")


class Spoiled(DeschedulerPlugin):
    """Fails in each of its turns."""

    name = "Spoiled"

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        raise ZeroDivisionError("of the test")


class Watchful(DeschedulerPlugin):
    """A plugin that is a controller."""

    name = "Watchful"
    begun: ClassVar[int] = 0
    running: ClassVar[int] = 0

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        del nodes

    async def run(self) -> None:
        assert self.handle.cluster is not None
        type(self).begun += 1
        type(self).running += 1
        try:
            await asyncio.Event().wait()
        finally:
            type(self).running -= 1


def configuration(*plugins: str, **more: Any) -> DeschedulerConfiguration:
    """A profile of these deschedule plugins; DefaultEvictor filters and evicts."""
    registry = PluginRegistry([])
    for plugin in (MarkedPods, Spoiled, Watchful):
        registry.register(plugin)
    evictor = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}
    enabled = [{"name": name} for name in plugins]
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration",
        "deschedulingInterval": "10s",
        "profiles": [{"plugins": {"deschedule": {"enabled": enabled}, "filter": evictor,
                                  "evict": evictor}}],
        **more,
    }  # fmt: skip
    return decode(document, "the test's", registry)


class ProgramScene:
    """A cluster of two nodes, and who runs on it.

    Attributes:
        client: the administrator's.
        sent: requests of each descheduler by method, by its name.
    """

    def __init__(self, plane: EmbeddedControlPlane, clock: VirtualClock) -> None:
        self.plane, self.clock = plane, clock
        self.client = Client(plane.transport(), "admin", requests_per_second=None)
        self.sent: dict[str, Counter[str]] = {}

    async def add_node(self, name: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
        await self.client.create(
            {
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                "status": {"capacity": amounts, "allocatable": amounts,
                           "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )  # fmt: skip

    async def add_pod(self, name: str, node: str = "n1", **more: Any) -> Pod:
        """A pod of a ReplicaSet that carries the label ``go``."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web",
                 "controller": True}  # fmt: skip
        meta = {"name": name, "namespace": "default", "labels": {"go": ""},
                "ownerReferences": [owner]} | more.pop("metadata", {})  # fmt: skip
        made = await self.client.create(
            {
                "apiVersion": "v1", "kind": "Pod", "metadata": meta,
                "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
                         "containers": [{"name": "c", "image": "i"}]} | more,
            }
        )  # fmt: skip
        return await self.client.get(Pod, made["metadata"]["name"], "default")

    async def pods(self) -> list[str]:
        return sorted(pod.metadata.name for pod in (await self.client.list(Pod)).items)

    async def events(self) -> list[tuple[str, str, str]]:
        """Kind and name of what each is about, and the reason; in order."""
        found = (await self.client.list(Event)).items
        return sorted(
            (each.involved_object.kind, each.involved_object.name, each.reason) for each in found
        )

    def app(
        self,
        wish: DeschedulerConfiguration,
        name: str = "",
        dry_run: bool = False,
        supervisor: Supervisor | None = None,
        metrics: DeschedulerMetrics | None = None,
    ) -> tuple[DeschedulerApp, EventRecorder]:
        """A descheduler; with a name it stands for election."""
        transport, counted = self.plane.transport(), self.sent.setdefault(name, Counter())
        inner = transport.send

        async def send(request: Request) -> Any:
            counted[request.method] += 1
            return await inner(request)

        transport.send = send  # type: ignore[method-assign]
        told = DryRun() if dry_run else None
        client = Client(transport, NAME, requests_per_second=None, dry_run=told)
        recorder = EventRecorder(client, NAME, clock=self.clock)
        elector = None
        if name:
            elector = LeaderElector(client, NAME, SYSTEM, name, clock=self.clock)
        app = DeschedulerApp(client, wish, self.clock, recorder, elector, metrics, supervisor)
        return app, recorder

    @asynccontextmanager
    async def running(
        self, wish: DeschedulerConfiguration, name: str = "", dry_run: bool = False
    ) -> AsyncIterator[DeschedulerApp]:
        """A descheduler that runs until the end of the block."""
        app, recorder = self.app(wish, name, dry_run)
        tasks = [asyncio.create_task(app.run()), asyncio.create_task(recorder.run())]
        await app.ready()
        try:
            yield app
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def perform(script: Script) -> None:
    """Runs a script on a cluster of two nodes."""
    clock = VirtualClock(START_SECONDS)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            scene = ProgramScene(plane, clock)
            names = [name async for name, _ in definitions.install(scene.client, crds())]
            await definitions.wait_established(scene.client, names, 30.0)
            await scene.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
            )
            for name in ("n1", "n2"):
                await scene.add_node(name)
            await script(scene)

    run_virtual(asyncio.wait_for(whole(), 100_000), clock)
