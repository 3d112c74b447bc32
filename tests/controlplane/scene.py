# SPDX-License-Identifier: Apache-2.0
"""An embedded control plane with its controllers and a kubelet, all in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from koord.api.kinds.meta import ObjectReference
from koord.api.kinds.registry import Kind
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.documents import Document
from koord.controlplane.controllers import BuiltinControllers
from koord.controlplane.controllers.base.objects import LEASE, NODE, POD, timestamp
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

START = 1_900_000_000.0
_KUBELET_SECONDS = 0.25
_RENEW_SECONDS = 10.0


class Scene:
    """What a story acts on.

    Attributes:
        client: an administrator's.
        silent: nodes whose kubelet does nothing.
        events: reasons of the events that controllers told, by object name.
    """

    def __init__(
        self,
        plane: EmbeddedControlPlane,
        clock: VirtualClock,
        which: Collection[str] | None = None,
    ) -> None:
        self.plane = plane
        self.clock = clock
        self.client = Client(plane.transport(), requests_per_second=None)
        self.silent: set[str] = set()
        self.events: list[tuple[str, str, str]] = []
        self._renewed: dict[str, float] = {}
        self._which = which
        self._controllers: BuiltinControllers | None = None

    async def start(self) -> None:
        """Starts the controllers."""
        client = Client(self.plane.transport(), requests_per_second=None)
        self._controllers = BuiltinControllers(client, self.clock, self._which, recorder=self)
        await self._controllers.start()

    async def stop(self) -> None:
        """Stops the controllers wherever they are."""
        if self._controllers is not None:
            await self._controllers.stop()

    async def restart(self) -> None:
        """New controllers take the place of the old ones, which remember nothing."""
        await self.stop()
        await self.start()

    def event(self, about: ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Takes the place of the events recorder."""
        self.events.append((about.name, reason, message))

    @property
    def now(self) -> str:
        """The time as the API writes it."""
        return timestamp(self.clock.wall_seconds())

    async def add_nodes(self, count: int, cpu: int = 8) -> None:
        """Adds nodes that are ready, each with a kubelet."""
        for number in range(count):
            amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
            condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": self.now}
            status = {"allocatable": amounts, "conditions": [condition]}
            await self.client.create(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"},
                 "status": status}
            )  # fmt: skip

    async def pods(self, selector: str = "", namespace: str = "default") -> list[Document]:
        """The pods there are."""
        found = await self.client.list(POD, namespace=namespace, label_selector=selector)
        return found.items

    async def get(self, kind: Kind, name: str, namespace: str = "default") -> Document | None:
        """An object, or None."""
        try:
            return await self.client.get(kind, name, namespace if kind.namespaced else "")
        except ApiError as error:
            if error.http_status != 404:
                raise
            return None

    async def until(self, holds: Callable[[], Awaitable[object]], seconds: float = 120) -> None:
        """Waits until something holds."""
        async with asyncio.timeout(seconds):
            while not await holds():
                await asyncio.sleep(0.5)

    async def live(self) -> None:
        """The kubelets of all nodes: heartbeats, pods that start at once and end at once."""
        while True:
            for node in (await self.client.list(NODE)).items:
                if node["metadata"]["name"] not in self.silent:
                    await self._renew(node["metadata"]["name"])
            for pod in (await self.client.list(POD)).items:
                node = pod["spec"].get("nodeName")
                if node and node not in self.silent:
                    with suppress(ApiError):
                        await self._tend(pod)
            await asyncio.sleep(_KUBELET_SECONDS)

    async def _renew(self, name: str) -> None:
        now = self.clock.wall_seconds()
        if now - self._renewed.get(name, 0.0) < _RENEW_SECONDS:
            return
        self._renewed[name] = now
        await self.client.apply(
            {"apiVersion": LEASE.api_version, "kind": "Lease",
             "metadata": {"name": name, "namespace": "kube-node-lease"},
             "spec": {"holderIdentity": name, "renewTime": self.now[:-1] + ".000000Z"}},
            force=True,
        )  # fmt: skip

    async def _tend(self, pod: Document) -> None:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            await self.client.delete(
                POD, meta["name"], meta["namespace"], uid=meta["uid"], grace_period_seconds=0
            )
        elif pod["status"].get("phase") == "Pending":
            done = meta.get("labels", {}).get("ends")
            condition = {"type": "Ready", "status": str(not done), "lastTransitionTime": self.now}
            status = {"phase": done or "Running", "conditions": [condition]}
            change = Patch.strategic({"metadata": {"uid": meta["uid"]}, "status": status})
            await self.client.patch(POD, meta["name"], change, meta["namespace"], "status")


def play(story: Callable[[Scene], Awaitable[None]], which: Collection[str] | None = None) -> Scene:
    """Runs a story from start to end; no time passes outside."""
    clock = VirtualClock(START)
    loop = VirtualLoop(clock)

    async def whole() -> Scene:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            scene = Scene(plane, clock, which)
            await scene.start()
            kubelets = asyncio.create_task(scene.live())
            try:
                await story(scene)
            finally:
                kubelets.cancel()
                with suppress(asyncio.CancelledError):
                    await kubelets
                await scene.stop()
            return scene

    try:
        return loop.run_until_complete(whole())
    finally:
        loop.close()
