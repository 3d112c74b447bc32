# SPDX-License-Identifier: Apache-2.0
"""An embedded API server with simulated machines, on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from koord.api import Pod, crds, decode_as
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.transport.messages import Request
from koord.simulator.nodes.fleet import Fleet
from koord.simulator.nodes.pools import NodePools

START = 1_900_000_000.0


class World:
    """A server, a client of the test's own, and machines that run."""

    def __init__(self, plane: EmbeddedControlPlane, clock: VirtualClock) -> None:
        self.plane, self.clock = plane, clock
        self.requests: Counter[str] = Counter()
        self.events: list[tuple[str, str]] = []
        self.client = Client(plane.transport(), requests_per_second=None)
        self.tasks: list[asyncio.Task[None]] = []

    def fleet(self, pools: NodePools, seed: int = 1) -> Fleet:
        transport = self.plane.transport()
        inner = transport.send

        async def send(request: Request) -> Any:
            self.requests[f"{request.method} {request.path.split('/')[-2]}"] += 1
            return await inner(request)

        transport.send = send  # type: ignore[method-assign]
        client = Client(transport, requests_per_second=None)
        return Fleet(
            client, pools, self.clock, seed,
            lambda about, _, reason, text: self.events.append((about.metadata.name, reason)),
        )  # fmt: skip

    async def run(self, fleet: Fleet) -> asyncio.Task[None]:
        task = asyncio.create_task(fleet.run())
        self.tasks.append(task)
        ready = asyncio.create_task(fleet.ready())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        return task

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def pod(self, name: str, node: str, **fields: Any) -> Pod:
        metadata = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
        resources = {"requests": {"cpu": "2", "memory": "4Gi"}}
        container = {"name": "app", "image": "app:1", "resources": resources}
        spec = {"nodeName": node, "containers": [container], **fields}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return await self.client.create(decode_as(document, Pod))

    async def get(self, name: str) -> Pod | None:
        found = (await self.client.list(Pod, field_selector=f"metadata.name={name}")).items
        return found[0] if found else None


@asynccontextmanager
async def world(clock: VirtualClock) -> AsyncIterator[World]:
    async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
        made = World(plane, clock)
        names = [name async for name, _ in installing.install(made.client, crds())]
        await installing.wait_established(made.client, names, 10)
        try:
            yield made
        finally:
            await made.end()


def play(script: Callable[[World], Awaitable[None]]) -> None:
    """Runs a script in a world of its own, on virtual time."""
    clock = VirtualClock(START)

    async def main() -> None:
        async with world(clock) as made:
            await script(made)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(main())
