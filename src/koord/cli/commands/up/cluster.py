# SPDX-License-Identifier: Apache-2.0
"""The cluster of ``koord up`` as its components see it, and how those of them that lead do so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from koord.base import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.base.clock import Clock
    from koord.controlplane.embedded import EmbeddedControlPlane
    from koord.kube.client import Client
    from koord.kube.daemon.endpoints import Endpoints
    from koord.kube.election import Timing
    from koord.kube.events import EventRecorder
    from koord.simulator.nodes.fleet import Fleet
    from koord.simulator.nodes.pools import NodePools

NAMESPACE = "koordinator-system"
ACCOUNTS = ("koord-scheduler", "koord-manager", "koord-webhook", "koord-descheduler", "koordlet")
"""Service accounts there, with the roles that deploy/rbac gives them."""


@dataclass
class UpCluster:
    """What a component finds when it is made.

    Attributes:
        plane: the API server, started.
        pools: the simulated machines.
        recorders: of events; run beside the components.
        fleet: the simulated machines; None until they are made.
        scheduler_gates: feature gates of the scheduler, as ``A=true,B=false``.
        manager_gates: those of the manager, which the webhooks share.
    """

    plane: EmbeddedControlPlane
    pools: NodePools
    clock: Clock
    seed: int
    recorders: list[EventRecorder] = field(default_factory=list)
    fleet: Fleet | None = None
    scheduler_gates: str = ""
    manager_gates: str = ""

    @property
    def lead_clock(self) -> Clock | None:
        """What leaders count their lead by; None for the machine's own clock."""
        from koord.base.clock import SystemClock

        return None if isinstance(self.clock, SystemClock) else self.clock

    def client(self, name: str) -> Client:
        """A way to the API server in the process, for a component of that name.

        Those that have a service account on a cluster come as that; others as the administrator.
        """
        from koord.controlplane.authorization.identity import ADMINISTRATOR, account
        from koord.kube.client import Client

        identity = account(NAMESPACE, name) if name in ACCOUNTS else ADMINISTRATOR
        transport = self.plane.transport(identity)
        return Client(transport, field_manager=name, requests_per_second=None)

    def recorder(self, name: str) -> EventRecorder:
        """A recorder of events that a component of that name tells of."""
        from koord.kube.events import EventRecorder

        recorder = EventRecorder(
            self.client(name), name, clock=self.clock, capacity=20_000, flush_seconds=0.5
        )
        self.recorders.append(recorder)
        return recorder


def lead_timing() -> Timing:
    """How leads last among parts of one process.

    A machine that is short of time for a while is no reason to end the whole cluster.
    """
    from koord.kube.election import Timing

    return Timing(30, 25.0, 2.0)


class ServedApp(Protocol):
    """What a part does beside its endpoints."""

    async def run(self) -> None:
        """Works until cancelled, or until the lead is lost."""

    async def ready(self) -> None:
        """Waits until all objects are known."""


async def run_served(app: ServedApp, endpoints: Endpoints, ready: asyncio.Event) -> None:
    """Runs a part beside its endpoints, which end with it.

    Args:
        app: the part.
        endpoints: listening already.
        ready: set once the part is.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(app.run())
            await app.ready()
            ready.set()
    finally:
        await endpoints.stop()


async def keep_leading(name: str, life: Callable[[], Awaitable[None]]) -> None:
    """Does a part's work, and begins anew where its lead is lost.

    A process that is stopped (Ctrl-Z) or whose machine sleeps loses its lead; a daemon ends then
    and is started again, while here nobody would start it and the whole cluster would end.

    Args:
        name: of the part, for the log.
        life: all that the part makes and does, from its caches on.
    """
    from koord.kube.election import LeadLostError

    lost = True
    while lost:
        lost = False
        try:
            await life()
        except* LeadLostError:
            lost = True
            fields = log.fields(part=name, why="the process was stopped, or the machine slept")
            log.get("up").warning("begins anew", extra=fields)
