# SPDX-License-Identifier: Apache-2.0
"""koord-descheduler with planned rounds, in the world of migrations: server, scheduler, kubelet."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from koord.api.kinds.nodemetric import NodeMetric
from koord.api.timestamps import seconds_text
from koord.controllers.descheduler.app import NAME, DeschedulerApp
from koord.controllers.descheduler.config.load import decode
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration.world import NOW, SilentRecorder, World
from tests.kube.harness import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from koord.base.clock import Clock, VirtualClock
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.kube.transport.messages import Transport

BY_LOAD = {
    "LowNodeLoad": {
        "lowThresholds": {"cpu": 45, "memory": 90}, "highThresholds": {"cpu": 70, "memory": 95},
        "anomalyCondition": {"consecutiveAbnormalities": 1},
    },
}  # fmt: skip


def configuration(
    balance: Mapping[str, Any],
    deschedule: Mapping[str, Any] | None = None,
    migration: Mapping[str, Any] | None = None,
    **more: Any,
) -> DeschedulerConfiguration:
    """Strategies with their arguments; pods move by PodMigrationJobs.

    Args:
        balance: by plugin its arguments.
        deschedule: the same.
        migration: of MigrationController.
        more: other fields of the file.
    """
    points = {"balance": balance, "deschedule": deschedule or {}}
    plugins = {**balance, **(deschedule or {}), "MigrationController": migration or {}}
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration",
        "deschedulingInterval": "10s",
        "profiles": [{
            "plugins": {
                point: {"enabled": [{"name": name} for name in named]}
                for point, named in points.items()
            },
            "pluginConfig": [{"name": name, "args": args} for name, args in plugins.items()],
        }],
        **more,
    }  # fmt: skip
    return decode(document, "the test's", PluginRegistry([]))


@cache
def _library() -> SchedulerLibrary:
    """koord's own, read once."""
    return SchedulerLibrary.read(None)


class PlannedProgram:
    """One process of koord-descheduler.

    Args:
        transport: its way to the server.
        clock: the time.
        wish: what it does.
        library: the scheduler's; koord's own if not given.
        silent: whether it writes no events.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        wish: DeschedulerConfiguration,
        library: SchedulerLibrary | None = None,
        silent: bool = False,
    ) -> None:
        told = DryRun() if wish.dry_run else None
        client = Client(transport, NAME, requests_per_second=None, dry_run=told)
        self.recorder = (SilentRecorder if silent else EventRecorder)(client, NAME, clock=clock)
        library = library or _library()
        self.app = DeschedulerApp(client, wish, clock, self.recorder, library=library)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once its caches are complete."""
        for run in (self.app.run, self.recorder.run):
            self._tasks.append(asyncio.create_task(run()))
        await self.app.ready()

    async def stop(self) -> None:
        """The process dies where it stands."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


class PlannedWorld(World):
    """A world whose descheduler plans.

    Args:
        plane: the server.
        clock: the time.
        wish: what the descheduler does.
    """

    def __init__(
        self, plane: EmbeddedControlPlane, clock: VirtualClock, wish: DeschedulerConfiguration
    ) -> None:
        super().__init__(plane, clock)
        self.program = PlannedProgram(plane.transport(), clock, wish)
        self.descheduler = self.program  # type: ignore[assignment]

    async def load(self, node: str, cpu_by_pod: Mapping[str, int], system: str = "0") -> None:
        """A NodeMetric as of now: what pods of the default namespace use, in milli-cores."""
        status = {
            "updateTime": seconds_text(self.clock.wall_seconds()),
            "nodeMetric": {"systemUsage": {"resources": {"cpu": system, "memory": "1Mi"}}},
            "podsMetric": [
                {"namespace": "default", "name": name,
                 "podUsage": {"resources": {"cpu": f"{milli}m", "memory": "1Mi"}}}
                for name, milli in cpu_by_pod.items()
            ],
        }  # fmt: skip
        if not any(
            each.metadata.name == node for each in (await self.client.list(NodeMetric)).items
        ):
            await self.client.create(
                {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                 "metadata": {"name": node}, "spec": {}}
            )  # fmt: skip
        change = Patch.merge({"status": status})
        await self.client.patch(NodeMetric, node, change, subresource="status")


def play(
    story: Callable[[PlannedWorld], Awaitable[None]],
    wish: DeschedulerConfiguration,
    clock: VirtualClock,
) -> None:
    """Runs a story on virtual time; its nodes and workloads are there before the descheduler."""

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(port=None, clock=clock, seed=1)) as plane:
            world = PlannedWorld(plane, clock, wish)
            try:
                await world.start()
                await story(world)
            finally:
                await world.stop()

    run_virtual(asyncio.wait_for(whole(), 100_000), clock)


__all__ = ["BY_LOAD", "NOW", "PlannedProgram", "PlannedWorld", "configuration", "play"]
