# SPDX-License-Identifier: Apache-2.0
"""What runs in ``koord up``: by name, in the order in which it starts.

A further component is one more line of :data:`COMPONENTS`; its factory imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.clock import Clock
    from koord.controlplane.embedded import EmbeddedControlPlane
    from koord.kube.client import Client
    from koord.kube.events import EventRecorder
    from koord.kube.lifecycle import Component
    from koord.simulator.nodes.pools import NodePools


@dataclass
class Cluster:
    """What a component finds when it is made.

    Attributes:
        plane: the API server, started.
        pools: the simulated machines.
        recorders: of events; run beside the components.
    """

    plane: EmbeddedControlPlane
    pools: NodePools
    clock: Clock
    seed: int
    recorders: list[EventRecorder]

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


def _controllers(cluster: Cluster) -> Component:
    from koord.controlplane.controllers.manager import NAMES

    names = [name for name in NAMES if name != "binder"]
    return _builtin(cluster, "controllers", "kube-controller-manager", names)


def _binder(cluster: Cluster) -> Component:
    return _builtin(cluster, "binder", "default-scheduler", ["binder"])


def _scheduler(cluster: Cluster) -> Component:
    from koord.cli.scheduler import in_process

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

    recorder = cluster.recorder("kubelet")
    fleet = Fleet(
        cluster.client("kubelet"), cluster.pools, cluster.clock, cluster.seed, recorder.event
    )
    return Component("nodes", fleet.run, fleet.ready)


COMPONENTS: dict[str, Entry] = {
    "controllers": Entry(
        "workloads, garbage collection, node life cycle, namespaces", _controllers
    ),
    "scheduler": Entry("koord-scheduler, for pods of default-scheduler too", _scheduler),
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
        left_out.add("binder")
    return [name for name in COMPONENTS if name not in left_out]
