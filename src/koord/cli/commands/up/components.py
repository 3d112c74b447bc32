# SPDX-License-Identifier: Apache-2.0
"""What runs in ``koord up``: by name, in the order in which it starts.

A further component is one more line of :data:`COMPONENTS`; its factory imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.cli.commands.up.cluster import UpCluster
    from koord.kube.daemon.lifecycle import Component

AGENT_SERIES = "/simulator/metrics"
"""Where the API server tells what simulated agents measured and decided, as Prometheus series."""


class ComponentEntry(NamedTuple):
    """A component that can be left out.

    Attributes:
        doc: what it does, in a few words.
        make: makes it for a cluster.
    """

    doc: str
    make: Callable[[UpCluster], Component]


def _controllers(cluster: UpCluster) -> Component:
    from koord.controlplane.controllers.manager import NAMES

    names = [name for name in NAMES if name != "binder"]
    return _builtin(cluster, "controllers", "kube-controller-manager", names)


def _binder(cluster: UpCluster) -> Component:
    return _builtin(cluster, "binder", "default-scheduler", ["binder"])


def _scheduler(cluster: UpCluster) -> Component:
    from koord.cli.commands.up.scheduler_component import scheduler_component

    return scheduler_component(cluster)


def _manager(cluster: UpCluster) -> Component:
    from koord.cli.commands.up.manager_component import manager_component

    return manager_component(cluster)


def _descheduler(cluster: UpCluster) -> Component:
    from koord.cli.commands.up.descheduler_component import descheduler_component

    return descheduler_component(cluster)


def _webhooks(cluster: UpCluster) -> Component:
    from koord.cli.commands.up.webhooks_component import webhooks_component

    return webhooks_component(cluster)


def _builtin(cluster: UpCluster, name: str, manager: str, which: list[str]) -> Component:
    from koord.controlplane.controllers.manager import BuiltinControllers
    from koord.kube.daemon.lifecycle import Component

    made = BuiltinControllers(
        cluster.client(manager), cluster.clock, which, recorder=cluster.recorder(manager)
    )
    return Component(name, made.run)


def _nodes(cluster: UpCluster) -> Component:
    from koord.controlplane.nonresource import text_page
    from koord.kube.daemon.lifecycle import Component
    from koord.simulator.nodes.fleet import Fleet

    recorder, agents = cluster.recorder("kubelet"), cluster.recorder("koordlet")
    cluster.fleet = fleet = Fleet(
        cluster.client("kubelet"), cluster.pools, cluster.clock, cluster.seed, recorder.event,
        record_agent=agents.event, agent_client=cluster.client("koordlet"),
    )  # fmt: skip
    cluster.plane.server.pages[AGENT_SERIES] = text_page(fleet.series)
    return Component("nodes", fleet.run, fleet.ready)


COMPONENTS: dict[str, ComponentEntry] = {
    "controllers": ComponentEntry(
        "workloads, garbage collection, node life cycle, namespaces", _controllers
    ),
    "scheduler": ComponentEntry("koord-scheduler, for pods of default-scheduler too", _scheduler),
    "manager": ComponentEntry(
        "koord-manager: batch and mid resources, NodeSLOs, quota roots", _manager
    ),
    "webhooks": ComponentEntry("admission: profiles, rules of pods and quotas", _webhooks),
    "binder": ComponentEntry(
        "without the scheduler: binds pods of default-scheduler to the first node with room",
        _binder,
    ),
    "nodes": ComponentEntry("simulated machines with their kubelets and agents", _nodes),
    "descheduler": ComponentEntry(
        "koord-descheduler, with --descheduler: moves pods from busy nodes, carries out migrations",
        _descheduler,
    ),
}


class GateTexts(NamedTuple):
    """Feature gates as ``A=true,B=false``, by who has them."""

    scheduler: str
    manager: str


def gate_texts(text: str) -> GateTexts:
    """Gives each gate to the components that have it; manager and webhooks share theirs.

    Args:
        text: of ``--feature-gates``.

    Raises:
        KoordError: malformed, or a gate that neither the scheduler nor the manager has.
    """
    from koord.base.feature_gates import FeatureGates
    from koord.controllers.manager import feature_gates as manager
    from koord.controllers.scheduler import feature_gates as scheduler

    known = [gates.known() for gates in (scheduler.feature_gates(), manager.feature_gates())]
    FeatureGates(gate for gates in known for gate in gates).set_from(text)
    items = [item.strip() for item in text.split(",") if item.strip()]
    owned = [{gate.name for gate in gates} | {"AllAlpha", "AllBeta"} for gates in known]
    return GateTexts(
        *(",".join(i for i in items if i.partition("=")[0].strip() in names) for names in owned)
    )


def has_webhooks(gates: GateTexts) -> bool:
    """Whether gates leave any webhook: none without ``WebhookFramework``."""
    from koord.controllers.manager.feature_gates import feature_gates

    return feature_gates(gates.manager).enabled("WebhookFramework")


def chosen(without: Iterable[str], descheduler: bool = False) -> list[str]:
    """The names of the components that run.

    Args:
        without: names, or several separated by commas.
        descheduler: whether it runs, too: only where somebody asks for it.

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
    if not descheduler:
        left_out.add("descheduler")
    return [name for name in COMPONENTS if name not in left_out]
