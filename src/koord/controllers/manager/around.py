# SPDX-License-Identifier: Apache-2.0
"""What every controller of the manager is given, and what it has to have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from koord.base.supervision import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import Object
    from koord.base.clock import Clock
    from koord.base.gates import FeatureGates
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.manager.config import ConfigCache
    from koord.controllers.manager.extenders import Extenders
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.controllers.manager.options import ManagerOptions
    from koord.kube.client import Client


class Tell(Protocol):
    """Writes an event; :meth:`koord.kube.events.EventRecorder.event` is one."""

    def __call__(
        self, about: Object, kind: Literal["Normal", "Warning"], reason: str, message: str, /
    ) -> None:
        """Says something of an object.

        Args:
            about: the object.
            kind: how bad it is.
            reason: one word in CamelCase.
            message: for people.
        """
        ...


class Part(Protocol):
    """A controller. It asks for its views when it is made, and attaches to them when it runs."""

    async def run(self) -> None:
        """Works until cancelled. Called once, when this process leads and all views are complete;
        ``config`` has been read.
        """
        ...


@dataclass(frozen=True)
class Around:
    """The world of a controller.

    Attributes:
        client: writes; every request as the field manager ``koord-manager``.
        views: an informer a kind, shared: ``views.view(Node)``. Pods are projected to
            :class:`koord.controllers.cluster.seen.SeenPod`.
        config: slo-controller-config, shared.
        clock: the time.
        tell: writes events.
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
    tell: Tell
    gates: FeatureGates
    metrics: ManagerMetrics
    options: ManagerOptions
    extenders: Extenders
    supervisor: Supervisor = field(default_factory=lambda: Supervisor("manager"))
    explanations: dict[str, Callable[[str], Any]] = field(default_factory=dict)
