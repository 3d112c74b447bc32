# SPDX-License-Identifier: Apache-2.0
"""What every controller of the manager is given, and what it has to have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from koord.base.supervision import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.clock import Clock
    from koord.base.feature_gates import FeatureGates
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.manager.event_writer import EventWriter
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.controllers.manager.node_objects.nodeslo_extenders import NodeSLOExtenders
    from koord.controllers.manager.options import ManagerOptions
    from koord.controllers.manager.sloconfig.config_cache import ConfigCache
    from koord.kube.client import Client


class ManagerController(Protocol):
    """A controller. It asks for its views when it is made, and attaches to them when it runs."""

    async def run(self) -> None:
        """Works until cancelled. Called once, when this process leads and all views are complete;
        ``config`` has been read.
        """
        ...


@dataclass(frozen=True)
class ControllerDependencies:
    """What a controller works with.

    Attributes:
        client: writes; every request as the field manager ``koord-manager``.
        views: an informer a kind, shared: ``views.view(Node)``. Pods are projected to
            :class:`koord.controllers.cluster.trimmed_pods.TrimmedPod`.
        config: slo-controller-config, shared.
        clock: the time.
        write_event: writes events.
        gates: feature gates.
        metrics: registries.
        options: flags.
        extenders: of NodeSLOs.
        supervisor: keeps the loops of controllers going.
        explanations: by kind of object in the plural, who answers
            ``/apis/v1/explain/KIND/NAME`` with a document; a KeyError says that there is no such
            object.
    """

    client: Client
    views: InformerViews
    config: ConfigCache
    clock: Clock
    write_event: EventWriter
    gates: FeatureGates
    metrics: ManagerMetrics
    options: ManagerOptions
    extenders: NodeSLOExtenders
    supervisor: Supervisor = field(default_factory=lambda: Supervisor("manager"))
    explanations: dict[str, Callable[[str], Any]] = field(default_factory=dict)
