# SPDX-License-Identifier: Apache-2.0
"""What runs in ``koord up``: by name, in the order in which it starts.

A further component is one more line of :data:`COMPONENTS`; its factory imports what it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from koord.base import log
from koord.base.errors import KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.clock import Clock
    from koord.controlplane.embedded import EmbeddedControlPlane
    from koord.kube.client import Client
    from koord.kube.election import Timing
    from koord.kube.events import EventRecorder
    from koord.kube.lifecycle import Component
    from koord.kube.messages import Request, Response
    from koord.simulator.nodes.fleet import Fleet
    from koord.simulator.nodes.pools import NodePools

AGENT_SERIES = "/simulator/metrics"
"""Where the API server tells what the simulated agents decided, as Prometheus series."""


@dataclass
class Cluster:
    """What a component finds when it is made.

    Attributes:
        plane: the API server, started.
        pools: the simulated machines.
        recorders: of events; run beside the components.
        fleet: the simulated machines; None until they are made.
    """

    plane: EmbeddedControlPlane
    pools: NodePools
    clock: Clock
    seed: int
    recorders: list[EventRecorder] = field(default_factory=list)
    fleet: Fleet | None = None

    @property
    def lead_clock(self) -> Clock | None:
        """What leaders count their lead by; None for the machine's own clock."""
        from koord.base.clock import SystemClock

        return None if isinstance(self.clock, SystemClock) else self.clock

    def client(self, name: str) -> Client:
        """A way to the API server in the process, for a component of that name."""
        from koord.kube.client import Client

        return Client(self.plane.transport(), field_manager=name, requests_per_second=None)

    def recorder(self, name: str) -> EventRecorder:
        """A recorder of events that a component of that name tells of."""
        from koord.kube.events import EventRecorder

        recorder = EventRecorder(
            self.client(name), name, clock=self.clock, capacity=20_000, flush_seconds=0.5
        )
        self.recorders.append(recorder)
        return recorder


class Entry(NamedTuple):
    """A component that can be left out.

    Attributes:
        doc: what it does, in a few words.
        make: makes it for a cluster.
    """

    doc: str
    make: Callable[[Cluster], Component]


def lead_timing() -> Timing:
    """How leads last among parts of one process.

    A machine that is short of time for a while is no reason to end the whole cluster.
    """
    from koord.kube.election import Timing

    return Timing(30, 25.0, 2.0)


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


def _controllers(cluster: Cluster) -> Component:
    from koord.controlplane.controllers.manager import NAMES

    names = [name for name in NAMES if name != "binder"]
    return _builtin(cluster, "controllers", "kube-controller-manager", names)


def _binder(cluster: Cluster) -> Component:
    return _builtin(cluster, "binder", "default-scheduler", ["binder"])


def _scheduler(cluster: Cluster) -> Component:
    from koord.cli.scheduler import in_process

    return in_process(cluster)


def _manager(cluster: Cluster) -> Component:
    from koord.cli.manager import in_process

    return in_process(cluster)


def _builtin(cluster: Cluster, name: str, manager: str, which: list[str]) -> Component:
    from koord.controlplane.controllers.manager import BuiltinControllers
    from koord.kube.lifecycle import Component

    made = BuiltinControllers(
        cluster.client(manager), cluster.clock, which, recorder=cluster.recorder(manager)
    )
    return Component(name, made.run)


def _nodes(cluster: Cluster) -> Component:
    from koord.kube.lifecycle import Component
    from koord.simulator.nodes.fleet import Fleet

    recorder, agents = cluster.recorder("kubelet"), cluster.recorder("koordlet")
    cluster.fleet = fleet = Fleet(
        cluster.client("kubelet"), cluster.pools, cluster.clock, cluster.seed, recorder.event,
        record_agent=agents.event,
    )  # fmt: skip
    cluster.plane.server.pages[AGENT_SERIES] = _page(fleet.series)
    return Component("nodes", fleet.run, fleet.ready)


def _page(text: Callable[[], bytes]) -> Callable[[Request], Awaitable[Response]]:
    """Serves a text that is made anew for each request."""
    from koord.kube.messages import Response

    async def serve(request: Request) -> Response:
        del request
        return Response(200, text(), "text/plain; version=0.0.4; charset=utf-8")

    return serve


COMPONENTS: dict[str, Entry] = {
    "controllers": Entry(
        "workloads, garbage collection, node life cycle, namespaces", _controllers
    ),
    "scheduler": Entry("koord-scheduler, for pods of default-scheduler too", _scheduler),
    "manager": Entry("koord-manager: batch and mid resources, NodeSLOs, quota roots", _manager),
    "binder": Entry(
        "without the scheduler: binds pods of default-scheduler to the first node with room",
        _binder,
    ),
    "nodes": Entry("simulated machines with their kubelets and agents", _nodes),
}


def chosen(without: Iterable[str]) -> list[str]:
    """The names of the components that run.

    Args:
        without: names, or several separated by commas.

    Raises:
        KoordError: there is no component of that name.
    """
    left_out = {name.strip() for text in without for name in text.split(",") if name.strip()}
    for name in sorted(left_out):
        if name not in COMPONENTS:
            guess = nearest(name, list(COMPONENTS))
            expected = (
                f"a component, such as {guess}" if guess else "one of " + ", ".join(COMPONENTS)
            )
            raise KoordError("--without", "", name, expected)
    if "scheduler" not in left_out:
        if "binder" in left_out:
            expected = "scheduler beside it: the binder runs only where that is left out"
            raise KoordError("--without", "", "binder", expected)
        left_out.add("binder")
    return [name for name in COMPONENTS if name not in left_out]
