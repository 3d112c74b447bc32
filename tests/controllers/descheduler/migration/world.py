# SPDX-License-Identifier: Apache-2.0
"""A server, koord's scheduler, a small kubelet and MigrationController, all on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from koord.api import crds
from koord.api.kinds.cluster import Event
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import KINDS, kind_of_type
from koord.api.kinds.reservation import Reservation
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.supervision import Supervisor
from koord.controllers.cluster.views import InformerViews
from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
from koord.controllers.descheduler.framework.handle import DeschedulerHandle, StrategyEvictor
from koord.controllers.descheduler.framework.limiter import EvictionLimiter, EvictionLimits
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.framework.pod_evictions import PodEvictions
from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs
from koord.controllers.descheduler.migration.migration_controller import MigrationController
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.config.load import SchedulerConfiguration, shipped
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.controllers import NAMES, BuiltinControllers
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as cluster_crds
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.messages import Transport
from tests.controllers.descheduler.stored_objects import StoredObjects

NOW = 1_700_000_000.0
Document = dict[str, Any]
Story = Callable[["World"], Awaitable[None]]
_SCHEDULER = "koord-scheduler"


def args_of(**args: Any) -> MigrationControllerArgs:
    """Arguments as a file has them."""
    return MigrationControllerArgs.read(args, FieldPath("the test", "args"))


class SilentRecorder(EventRecorder):
    """Takes events, and writes none."""

    def event(self, *args: Any, **kwargs: Any) -> None:
        """See :class:`koord.kube.events.EventRecorder`."""

    async def run(self) -> None:
        """Has nothing to do."""
        await asyncio.Event().wait()


class Descheduler:
    """One process of MigrationController.

    Args:
        transport: its way to the server.
        clock: the time.
        args: of the plugin.
        dry_run: of the program.
        silent: whether it writes no events.
    """

    def __init__(
        self,
        transport: Transport,
        clock: VirtualClock,
        args: MigrationControllerArgs,
        dry_run: bool = False,
        silent: bool = False,
    ) -> None:
        client = Client(transport, "koord-descheduler", requests_per_second=None)
        supervisor = Supervisor("descheduler", clock=clock)
        self.informers = InformerViews(client, supervisor=supervisor)
        recorder_of = SilentRecorder if silent else EventRecorder
        self.recorder = recorder_of(client, "koord-descheduler", clock=clock)
        self.cluster = ClusterAccess(client, self.informers, supervisor, self.recorder, dry_run)
        evictor = StrategyEvictor(EvictionLimiter(EvictionLimits()), dry_run, RoundRecord())
        evictions = PodEvictions(client, self.recorder.event)
        self.handle = DeschedulerHandle(evictor, evictions, clock, self.cluster)
        self.plugin = MigrationController(args, self.handle)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once its caches are complete."""
        for run in (self.informers.run, self.recorder.run):
            self._tasks.append(asyncio.create_task(run()))
        await self.informers.synced()
        self._tasks.append(asyncio.create_task(self.plugin.run()))

    async def stop(self) -> None:
        """The process dies where it stands."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


class World:
    """What a story does with it.

    Args:
        plane: the server.
        clock: the time.
        silent: whether nobody writes events, and only what moves pods runs.
        args: of MigrationController.

    Attributes:
        ready: whether pods become ready.
        stored: what the server holds.
    """

    def __init__(
        self,
        plane: EmbeddedControlPlane,
        clock: VirtualClock,
        silent: bool = False,
        **args: Any,
    ) -> None:
        self.plane, self.clock, self.args = plane, clock, args_of(**args)
        self.client = Client(plane.transport(), "test", requests_per_second=None)
        self.stored = StoredObjects(plane.store)
        self._silent = silent
        self.ready = True
        self._tasks: list[asyncio.Task[None]] = []
        self.descheduler = Descheduler(plane.transport(), clock, self.args)

    async def start(self) -> None:
        names = [name async for name, _ in cluster_crds.install(self.client, crds(), force=True)]
        await cluster_crds.wait_established(self.client, names, 60.0)
        scheduler = Client(self.plane.transport(), _SCHEDULER, requests_per_second=None)
        recorder_of = SilentRecorder if self._silent else EventRecorder
        recorder = recorder_of(scheduler, _SCHEDULER, clock=self.clock)
        registry, configuration = _scheduler_configuration()
        app = App(scheduler, configuration, self.clock, recorder, registry=registry)
        built_in = Client(self.plane.transport(), "controllers", requests_per_second=None)
        # No kubelet here says that its node is well.
        which = [name for name in NAMES if name not in ("binder", "nodelifecycle")]
        if self._silent:
            which = ["deployment", "replicaset", "disruption", "garbage"]
        said = recorder if self._silent else None
        controllers = BuiltinControllers(built_in, self.clock, which, recorder=said)
        for run in (app.run, recorder.run, controllers.run, self._kubelet):
            self._tasks.append(asyncio.create_task(run()))
        await app.ready()
        await self.descheduler.start()

    async def stop(self) -> None:
        await self.descheduler.stop()
        for task in reversed(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def restart(self) -> None:
        """The descheduler's process ends, and another one begins."""
        await self.descheduler.stop()
        self.descheduler = Descheduler(self.plane.transport(), self.clock, self.args)
        await self.descheduler.start()

    async def node(self, name: str, cpu: str = "4") -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
        await self.client.create(node)
        await self.client.patch(Node, name, Patch.merge({"spec": {"taints": None}}))

    async def budget(self, name: str, least: int) -> None:
        """A PodDisruptionBudget of a Deployment, once its status is known."""
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": name}}}
        await self.create("policy/v1", "PodDisruptionBudget", name, spec=spec)
        await asyncio.sleep(2.0)

    async def deployment(
        self,
        name: str,
        replicas: int,
        cpu: str = "1",
        metadata: Document | None = None,
        more_labels: Mapping[str, str] | None = None,
        **template: Any,
    ) -> None:
        labels = {"app": name, **(more_labels or {})}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        pod = {
            "metadata": {"labels": labels, **template},
            "spec": {"containers": [container], "schedulerName": _SCHEDULER},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
        await self.create("apps/v1", "Deployment", name, spec=spec, metadata=metadata or {})

    async def create(self, version: str, kind: str, name: str, **rest: Any) -> Document:
        known = next(each for each in KINDS if (each.api_version, each.name) == (version, kind))
        meta: Document = {"name": name, **rest.pop("metadata", {})}
        if known.namespaced:
            meta["namespace"] = "default"
        return await self.client.create(
            {"apiVersion": version, "kind": kind, "metadata": meta, **rest}
        )

    async def job(self, name: str, pod: str, metadata: Document | None = None, **spec: Any) -> None:
        ref = {"namespace": "default", "name": pod}
        given = {"ttl": "5m", "mode": "ReservationFirst", "podRef": ref, **spec}
        version = "scheduling.koordinator.sh/v1alpha1"
        await self.create(version, "PodMigrationJob", name, spec=given, metadata=metadata or {})

    async def pods(self) -> list[Pod]:
        """Pods that have not ended, by name."""
        return [pod for pod in self.stored.all(Pod) if pod.metadata.deletion_timestamp is None]

    async def running(self, number: int) -> list[Pod]:
        """The pods once so many are ready."""
        async with asyncio.timeout(120):
            while True:
                pods = await self.pods()
                if len(pods) == number and all(_is_ready(pod) for pod in pods):
                    return pods
                await asyncio.sleep(0.2)

    async def ended(self, name: str, seconds: float = 600) -> PodMigrationJob:
        """A job once it has ended."""
        async with asyncio.timeout(seconds):
            while True:
                job = await self.client.get(PodMigrationJob, name)
                if job.status.phase in ("Succeeded", "Failed", "Aborted"):
                    return job
                await asyncio.sleep(0.2)

    async def until(self, name: str, holds: Callable[[PodMigrationJob], Any]) -> PodMigrationJob:
        """A job once something holds of it."""
        async with asyncio.timeout(600):
            while True:
                job = await self.client.get(PodMigrationJob, name)
                if holds(job):
                    return job
                await asyncio.sleep(0.05)

    async def reservations(self) -> list[Reservation]:
        """Those that hold anything."""
        found = self.stored.all(Reservation)
        return [each for each in found if each.status.phase not in ("Succeeded", "Failed")]

    async def jobs(self) -> list[PodMigrationJob]:
        return list(self.stored.all(PodMigrationJob))

    async def events(self, kind: str) -> list[Event]:
        found = [e for e in (await self.client.list(Event)).items if e.involved_object.kind == kind]
        return sorted(found, key=lambda each: each.metadata.name)

    async def _kubelet(self) -> None:
        """Pods with a node become ready; those that are deleted go after a second."""
        done: tuple[int, bool] | None = None
        while True:
            now = self.stored.generation(Pod), self.ready
            if now != done:
                for pod in self.stored.all(Pod):
                    with suppress(ApiError):
                        await self._tend(pod)
                # Where nothing was to be done, there is nothing until anybody writes.
                done = now if self.stored.generation(Pod) == now[0] else None
            await asyncio.sleep(1.0)

    async def _tend(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            await self.client.delete(
                Pod, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0
            )
        elif pod.spec.node_name and self.ready and not _is_ready(pod):
            conditions = [{"type": "Ready", "status": "True"}]
            change = {"status": {"phase": "Running", "conditions": conditions}}
            await self.client.patch(
                kind_of_type(Pod), meta.name, Patch.strategic(change), meta.namespace, "status"
            )


def play(story: Story, nodes: int = 3, **args: Any) -> None:
    """Runs a story; no time passes outside."""
    clock = VirtualClock(NOW)
    loop = VirtualLoop(clock)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(port=None, clock=clock, seed=1)) as plane:
            world = World(plane, clock, **args)
            try:
                await world.start()
                for number in range(nodes):
                    await world.node(f"n{number}")
                await story(world)
            finally:
                await world.stop()

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


@cache
def _scheduler_configuration() -> tuple[Registry, SchedulerConfiguration]:
    """koord's own, read once."""
    registry = Registry(outside=[])
    return registry, shipped(registry)


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
