# SPDX-License-Identifier: Apache-2.0
"""The whole of koord on an API server: manager, scheduler, and agents on stand-in machines.

The same parts run on the embedded control plane in virtual time, and on a real kube-apiserver over
HTTPS in real time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from koord.agent.app import Agent, AgentServices
from koord.agent.options import AgentOptions
from koord.agent.states.kubelet import Kubelet
from koord.api import ConfigMap, Node, Pod, definitions
from koord.api.kinds.registry import KINDS
from koord.base.clock import Clock, SystemClock, VirtualClock, VirtualLoop
from koord.base.metrics import registry
from koord.controllers.manager.app import ManagerApp as Manager
from koord.controllers.manager.options import ManagerOptions
from koord.controllers.scheduler.app import App as Scheduler
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.admission.webhook_client import LocalWebhook
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kernels.cgroup_parse import Version
from koord.kube import crds as installing
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.credentials import load_cluster_config
from koord.kube.transport.http import HttpTransport
from koord.kube.transport.messages import Request, Response, Transport
from tests.loop.standin import CPUS, StandInHost, StandInKubelet

SYSTEM, CONFIG = "koordinator-system", "slo-controller-config"
START = 1_900_000_000.0
PATIENCE_SECONDS = 150.0
# Usage is a difference of counters: in real time these move often, so that it is near the truth.
_VIRTUAL_STEP_SECONDS, _REAL_STEP_SECONDS = 1.0, 0.1
Document = dict[str, Any]
Story = Callable[["Cluster"], Awaitable[float]]


@dataclass(frozen=True)
class Plane:
    """An API server.

    Attributes:
        transport: a new way to it.
        clock: the time there.
        step_seconds: how often counters of stand-in machines move.
        look_seconds: how often a test looks.
        register_webhook: serves a webhook in the process; None where it is reached over TLS.
    """

    transport: Callable[[], Transport]
    clock: Clock
    step_seconds: float
    look_seconds: float
    register_webhook: Callable[[str, LocalWebhook], None] | None = None


class _Way:
    """A transport that notes which writes found nothing where they were sent."""

    def __init__(self, inner: Transport, missed: list[str]) -> None:
        self._inner, self._missed = inner, missed
        self.open = inner.open
        self.close = inner.close

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        if answer.status == 404 and request.method != "GET":
            self._missed.append(f"{request.method} {request.path}")
        return answer


class Cluster:
    """What a story acts on.

    Attributes:
        admin: a client of the story's own.
        hosts: stand-in machines, by node.
        manager: once it is started.
        scheduler: likewise.
        agents: by node.
        missed: writes that found nothing where they were sent.
    """

    manager: Manager
    scheduler: Scheduler

    def __init__(self, plane: Plane, folder: Path) -> None:
        self.plane, self._folder = plane, folder
        self.missed: list[str] = []
        self.admin = self._client("admin")
        self.hosts: dict[str, StandInHost] = {}
        self.agents: dict[str, Agent] = {}
        self._tasks: list[asyncio.Task[Any]] = []

    # -- what runs ------------------------------------------------------------------------------

    async def define(self, kinds: Iterable[Document]) -> None:
        """Installs definitions, and waits until they are served."""
        names = [name async for name, _ in installing.install(self.admin, kinds)]
        await installing.wait_established(self.admin, names, PATIENCE_SECONDS)

    async def start(self, kinds: Iterable[Document]) -> None:
        """Definitions, priority classes, the manager and the scheduler."""
        await self.define(kinds)
        classes = next(kind for kind in KINDS if kind.name == "PriorityClass")
        async for _ in installing.install(self.admin, definitions.priority_classes(), classes):
            pass
        meta = {"name": SYSTEM}
        await self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        clock = self.plane.clock
        client, events = self._named("koord-manager")
        self.manager = manager = Manager(client, ManagerOptions(), clock, events)
        client, events = self._named("koord-scheduler")
        plugins = Registry(())
        self.scheduler = scheduler = Scheduler(
            client, shipped(plugins), clock, events, registry=plugins
        )
        for app in (manager, scheduler):
            self._run(app.run())
            await app.ready()

    async def add_host(self, name: str, version: Version, **labels: str) -> None:
        """A node, its stand-in machine and kubelet, and its agent."""
        await self._add_node(name, labels)
        folder = self._folder / name
        host = self.hosts[name] = StandInHost(folder / "machine", version)
        plane = self.plane
        kubelet = StandInKubelet(self.admin, name, host, plane.clock, plane.step_seconds)
        self._run(kubelet.run())
        client, events = self._named("koordlet", name)
        options = replace(
            AgentOptions(), node_name=name, kubelet_sync_interval=1.0,
            runtime_hooks_reconcile_interval=1.0, audit_log_dir=str(folder / "audit"),
            prediction_checkpoint_filepath=str(folder / "checkpoints"),
        )  # fmt: skip
        around = AgentServices(client, events, Kubelet(kubelet), registry(), plane.clock)
        self.agents[name] = agent = Agent(options, host.machine, around)
        self._run(agent.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await agent.ready()

    async def stop(self) -> None:
        """Ends everything; what had failed before fails the test."""
        failed = [each.exception() for each in self._tasks if each.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert not failed, failed

    def _run(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _client(self, name: str) -> Client:
        way = _Way(self.plane.transport(), self.missed)
        return Client(way, name, requests_per_second=None)

    def _named(self, name: str, host: str = "") -> tuple[Client, EventRecorder]:
        client = self._client(name)
        events = EventRecorder(client, name, host=host, clock=self.plane.clock)
        self._run(events.run())
        return client, events

    async def _add_node(self, name: str, labels: dict[str, str]) -> None:
        amounts = {"cpu": str(CPUS), "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        await self.admin.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
        )
        # Servers taint new nodes, and nobody here takes the taint away.
        await self.admin.patch(Node, name, Patch.merge({"spec": {"taints": None}}))

    # -- what a story does ----------------------------------------------------------------------

    async def configure(self, **sections: Document) -> None:
        """Writes sections of slo-controller-config: ``colocation={...}`` and so on."""
        data = {f"{key.replace('_', '-')}-config": json.dumps(v) for key, v in sections.items()}
        try:
            await self.admin.patch(ConfigMap, CONFIG, Patch.merge({"data": data}), SYSTEM)
        except ApiError as error:
            if error.http_status != 404:
                raise
            meta = {"name": CONFIG, "namespace": SYSTEM}
            await self.admin.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            )

    async def submit(
        self,
        name: str,
        node: str,
        priority: str,
        labels: dict[str, str] | None = None,
        **amounts: str,
    ) -> None:
        """A pod for one node: best effort at ``koord-batch``, else a service."""
        qos = "BE" if priority == "koord-batch" else "LS"
        held = {_RESOURCES.get(key, key): amount for key, amount in amounts.items()}
        container = {"name": "main", "image": "none",
                     "resources": {"requests": held, "limits": held}}  # fmt: skip
        spec = {
            "schedulerName": "koord-scheduler", "priorityClassName": priority,
            "nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container],
        }  # fmt: skip
        told = {"koordinator.sh/qosClass": qos, **(labels or {})}
        meta = {"name": name, "namespace": "default", "labels": told}
        await self.admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def node(self, name: str) -> Node:
        """A node as the API server has it."""
        return await self.admin.get(Node, name)

    async def bound(self, name: str) -> str:
        """The node of a pod; empty while there is none."""
        return (await self.admin.get(Pod, name, "default")).spec.node_name

    async def message(self, name: str) -> str:
        """Why a pod is not scheduled; empty where nothing is said."""
        conditions = (await self.admin.get(Pod, name, "default")).status.conditions
        told = [c.message for c in conditions if c.type == "PodScheduled" and c.status == "False"]
        return told[0] if told else ""

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]]) -> float:
        """Waits for something, and gives the seconds that it took; AssertionError if it stays."""
        begin = self.plane.clock.monotonic_seconds()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await holds():
                    await asyncio.sleep(self.plane.look_seconds)
        except TimeoutError:
            raise AssertionError(f"not within {PATIENCE_SECONDS:.0f} s: {what}") from None
        return self.plane.clock.monotonic_seconds() - begin


_RESOURCES = {"batch_cpu": "kubernetes.io/batch-cpu", "batch_memory": "kubernetes.io/batch-memory"}


@asynccontextmanager
async def _running(plane: Plane, folder: Path, kinds: Iterable[Document]) -> AsyncIterator[Cluster]:
    cluster = Cluster(plane, folder)
    try:
        await cluster.start(kinds)
        yield cluster
    finally:
        await cluster.stop()


def on_embedded(
    folder: Path, story: Story, kinds: Callable[[], Iterable[Document]] = definitions.crds
) -> float:
    """Tells a story on the embedded control plane, in virtual time, where kinds are defined."""
    clock = VirtualClock(START)

    async def whole() -> float:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as server:
            register = server.options.webhooks.register_local
            plane = Plane(server.transport, clock, _VIRTUAL_STEP_SECONDS, 0.1, register)
            async with _running(plane, folder, kinds()) as cluster:
                return await story(cluster)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(whole())


def on_real(
    kubeconfig: Path,
    folder: Path,
    story: Story,
    kinds: Callable[[], Iterable[Document]] = definitions.crds,
) -> float:
    """Tells it on a kube-apiserver, each component over a connection of its own."""
    ways: list[HttpTransport] = []

    def transport() -> Transport:
        ways.append(HttpTransport(load_cluster_config(kubeconfig)))
        return ways[-1]

    async def whole() -> float:
        plane = Plane(transport, SystemClock(), _REAL_STEP_SECONDS, 0.05)
        try:
            async with _running(plane, folder, kinds()) as cluster:
                return await story(cluster)
        finally:
            for way in ways:
                await way.close()

    return asyncio.run(whole())
