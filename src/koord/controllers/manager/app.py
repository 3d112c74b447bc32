# SPDX-License-Identifier: Apache-2.0
"""koord-manager on a cluster: informers, leader election, and the controllers that were chosen.

Everything is rebuilt from the API at a start; nothing is kept on disk. Informers follow the cluster
whether or not this process leads; only the leader acts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.api.kinds.cluster import ConfigMap, Namespace
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.kinds.profile import ClusterColocationProfile
from koord.api.kinds.quota import ElasticQuota, ElasticQuotaProfile
from koord.api.kinds.topology import NodeResourceTopology
from koord.base import log
from koord.base.supervision import Supervisor
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.cluster.views import InformerViews
from koord.controllers.manager.colocationprofile.controller import ColocationProfiles
from koord.controllers.manager.dependencies import ControllerDependencies
from koord.controllers.manager.metrics import ManagerMetrics
from koord.controllers.manager.node_objects.nodemetric import NodeMetrics
from koord.controllers.manager.node_objects.nodeslo import NodeSLOs
from koord.controllers.manager.node_objects.nodeslo_extenders import NodeSLOExtenders
from koord.controllers.manager.noderesource.controller import NodeResource
from koord.controllers.manager.quotaprofile.controller import QuotaProfiles
from koord.controllers.manager.sloconfig.config_cache import ConfigCache
from koord.controllers.manager.sloconfig.config_events import NodeConfigEvents
from koord.kube.daemon.leading import work_while_leading
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.base.clock import Clock
    from koord.controllers.manager.dependencies import ManagerController
    from koord.controllers.manager.options import ManagerOptions
    from koord.kube.client import Client
    from koord.kube.election import LeaderElector
    from koord.kube.events import EventRecorder

NAME = "koord-manager"
LEASE = "koordinator-manager"
"""The Lease of the lead; the original's, so that the two never act at once."""

CONTROLLERS: Mapping[str, Callable[[ControllerDependencies], ManagerController]] = {
    "colocationprofile": ColocationProfiles,
    "nodemetric": NodeMetrics,
    "noderesource": NodeResource,
    "nodeslo": NodeSLOs,
    "quotaprofile": QuotaProfiles,
}
"""What runs, by name: one line each."""

_LOG = log.get("manager")
_WITHOUT = {
    "ClusterColocationProfile": "no pod is changed by a profile",
    "Device": "nodes do not offer GPU shares",
    "ElasticQuota.scheduling.sigs.k8s.io": "quota trees have no roots",
    "ElasticQuotaProfile": "there are no quota trees by node pool",
    "NodeMetric": "no batch or mid resources are offered",
    "NodeResourceTopology": "nothing is offered by NUMA zone",
    "NodeSLO": "agents get no settings",
}
"""What is not done without a kind, by its informer's name."""


class ManagerApp:
    """One manager process, or the part of one.

    Args:
        client: the way to the API server.
        options: flags; checked.
        clock: the time.
        recorder: writes events; run by the caller.
        elector: where several run; None leads at once.
        metrics: counts and times.
        extenders: of NodeSLOs.
        supervisor: of the program's parts; None for the manager's own.

    Attributes:
        supervisor: keeps each loop going, whatever another fails of.
    """

    def __init__(
        self,
        client: Client,
        options: ManagerOptions,
        clock: Clock,
        recorder: EventRecorder,
        elector: LeaderElector | None = None,
        metrics: ManagerMetrics | None = None,
        extenders: NodeSLOExtenders | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self.metrics = metrics or ManagerMetrics()
        self.supervisor = supervisor or supervise(self.metrics, clock)
        self.views = InformerViews(
            client,
            InformerMetrics(self.metrics.controllers),
            _informers(options),
            self.supervisor,
        )
        config_maps = self.views.view_of(
            ConfigMap, options.config_namespace, options.slo_config_name
        )
        extended = NodeSLOExtenders() if extenders is None else extenders
        self.dependencies = ControllerDependencies(
            client,
            self.views,
            ConfigCache(
                config_maps,
                recorder.event,
                options.config_namespace,
                options.slo_config_name,
                self.supervisor,
                extenders=extended,
            ),
            clock,
            recorder.event,
            options.gates(),
            self.metrics,
            options,
            extended,
            supervisor=self.supervisor,
        )
        self.parts = {
            name: CONTROLLERS[name](self.dependencies) for name in options.enabled_controllers()
        }
        # Those that go by what nodes say; without them no informer of nodes need run.
        follows = not self.parts.keys().isdisjoint(("nodemetric", "noderesource", "nodeslo"))
        nodes = self.views.view(Node) if follows else None
        self._complaints = NodeConfigEvents(nodes, recorder.event) if nodes is not None else None
        self._elector = elector
        if elector is not None:
            client.fence(elector.check)
        self._ready = asyncio.Event()

    @property
    def leading(self) -> bool:
        """Whether this process acts."""
        return self._elector is None or self._elector.leading

    async def ready(self) -> None:
        """Waits until all objects are known."""
        await self._ready.wait()

    async def run(self) -> None:
        """Works until cancelled, or until the lead is lost.

        Raises:
            LeadLostError: another process may lead; this one must begin anew.
        """
        await work_while_leading(
            self.views, self._elector, self._work, self.supervisor, self._ready, _LOG, _WITHOUT
        )

    async def _work(self) -> None:
        self.metrics.leads(True)
        try:
            async with asyncio.TaskGroup() as tasks:
                # Read at once, before any part begins.
                config = self.supervisor.keep("configuration", self._configure)
                tasks.create_task(config, name="configuration")
                for name, part in self.parts.items():
                    tasks.create_task(self.supervisor.keep(name, part.run), name=name)
        finally:
            self.metrics.leads(False)

    async def _configure(self) -> None:
        self.dependencies.config.start()
        if self._complaints is not None:
            self._complaints.start()


def supervise(metrics: ManagerMetrics, clock: Clock) -> Supervisor:
    """A manager's supervisor."""
    return Supervisor("manager", metrics.internal, clock)


def _informers(options: ManagerOptions) -> dict[type, dict[str, Any]]:
    """Keyword arguments of informers, by kind."""
    resync = {"resync_seconds": options.resync_seconds()}
    within = {"namespace": options.namespace, **resync}
    return {
        **dict.fromkeys(
            (
                ClusterColocationProfile,
                Device,
                Namespace,
                Node,
                NodeMetric,
                NodeResourceTopology,
                NodeSLO,
            ),
            resync,
        ),
        **dict.fromkeys((ElasticQuota, ElasticQuotaProfile), within),
        Pod: {"project": TrimmedPod, **within},
    }
