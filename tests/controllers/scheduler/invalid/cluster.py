# SPDX-License-Identifier: Apache-2.0
"""A shipped scheduler on an embedded server in virtual time, and what people read there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from koord.api import crds
from koord.api.kinds.registry import Kind, kind_of
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as cluster_crds
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request

Document = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


class Cluster:
    """What a story is told with."""

    def __init__(self, plane: EmbeddedControlPlane, clock: VirtualClock) -> None:
        self.clock = clock
        self._plane = plane
        self.client = Client(plane.transport(), "user", requests_per_second=None)
        self._tasks: list[asyncio.Task[None]] = []
        self.app: App

    async def restart(self) -> None:
        """Another scheduler in the place of the one there is."""
        await self.stop()
        mine = Client(self._plane.transport(), "koord-scheduler", requests_per_second=None)
        recorder = EventRecorder(mine, "koord-scheduler", clock=self.clock)
        wish = shipped(Registry())
        self.app = App(mine, wish, self.clock, recorder)
        self._tasks = [asyncio.create_task(run()) for run in (self.app.run, recorder.run)]
        await self.app.ready()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def add(self, *documents: Document) -> None:
        for document in documents:
            await self.client.create(document)

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Document:
        found: Document = await self.client.get(kind, name, namespace)
        return found

    async def events(self, name: str) -> list[tuple[str, str, str, int]]:
        """Of an object: type, reason, message, how often."""
        listed = await self.client.list(known("v1", "Event"))
        return [
            (each["type"], each["reason"], each["message"], each.get("count", 1))
            for each in listed.items
            if each["involvedObject"]["name"] == name
        ]

    async def cell(self, path: str, name: str, column: str) -> Any:
        """What ``kubectl get`` shows of an object in a column."""
        answer = await self.client.request(Request("GET", path, accept=TABLE))
        table = json.loads(answer.body)
        at = [each["name"] for each in table["columnDefinitions"]].index(column)
        (row,) = [row for row in table["rows"] if row["cells"][0] == name]
        return row["cells"][at]


def known(version: str, name: str) -> Kind:
    found = kind_of(version, name)
    assert found is not None
    return found


def play(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Runs a story beside a scheduler; no time passes outside."""
    clock = VirtualClock(1_700_000_000.0)
    loop = VirtualLoop(clock)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            cluster = Cluster(plane, clock)
            names = [n async for n, _ in cluster_crds.install(cluster.client, crds(), force=True)]
            await cluster_crds.wait_established(cluster.client, names, 60.0)
            space = {"apiVersion": "v1", "kind": "Namespace"}
            await cluster.add({**space, "metadata": {"name": "koordinator-system"}}, NODE)
            # A new node is not ready, and nobody reports it here.
            ready = Patch.merge({"spec": {"taints": None}})
            await cluster.client.patch(known("v1", "Node"), "n", ready)
            await cluster.restart()
            try:
                await story(cluster)
            finally:
                await cluster.stop()

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()
