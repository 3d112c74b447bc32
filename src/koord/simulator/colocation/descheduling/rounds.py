# SPDX-License-Identifier: Apache-2.0
"""The rounds of koord-descheduler beside a day, and the migrations that follow from them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koord.api.kinds.migration import PodMigrationJob
from koord.base.supervision import Supervisor
from koord.controllers.cluster.views import InformerViews
from koord.controllers.descheduler.config import load as descheduler_config
from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
from koord.controllers.descheduler.framework.pod_evictions import PodEvictions
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.framework.round import Descheduling
from koord.controllers.descheduler.informer_snapshot import InformerSnapshot
from koord.controllers.descheduler.planning.current_cluster import CurrentCluster
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.planner import PlannedRounds, load_thresholds
from koord.kube.events import EventRecorder

if TYPE_CHECKING:
    from koord.base.clock import VirtualClock
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.snapshot import ClusterSnapshot
    from koord.simulator.colocation.descheduling.service_api import ServiceApi
    from koord.simulator.colocation.descheduling.service_scheduler import ServiceScheduler
    from koord.simulator.colocation.inputs.scenario import Scenario

_NAME = "koord-descheduler"
_ONLY_MIGRATION = {"enabled": [{"name": "MigrationController"}], "disabled": [{"name": "*"}]}
SHIPPED: dict[str, Any] = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "deschedulingInterval": "120s",
    "profiles": [
        {
            "plugins": {
                "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                "filter": _ONLY_MIGRATION,
                "evict": _ONLY_MIGRATION,
            },
            "pluginConfig": [
                {
                    "name": "LowNodeLoad",
                    "args": {
                        "nodeMetricExpirationSeconds": 300,
                        "prodLowThresholds": {"cpu": 45},
                        "prodHighThresholds": {"cpu": 64},
                        "anomalyCondition": {"consecutiveAbnormalities": 2},
                    },
                }
            ],
        }
    ],
}
"""What rounds go by where a scenario says nothing: what services use alone, as batch pods fill
what they leave on every machine."""


def configuration_of(scenario: Scenario) -> DeschedulerConfiguration:
    """The configuration of a scenario.

    Raises:
        KoordError: it cannot be; names the field.
    """
    document = scenario.descheduler or SHIPPED
    return descheduler_config.decode(document, "scenario descheduler", PluginRegistry())


class DeschedulerRounds:
    """One descheduler.

    Args:
        scenario: its configuration.
        cluster: the scheduler, nodes, and what agents report.
        api: has pods and migrations.
        clock: of the loop.
        planned: whether rounds are planned or walked.
    """

    def __init__(
        self,
        scenario: Scenario,
        cluster: ServiceScheduler,
        api: ServiceApi,
        clock: VirtualClock,
        *,
        planned: bool,
    ) -> None:
        self._cluster, self._api, self._clock = cluster, api, clock
        configuration = configuration_of(scenario)
        self._interval = configuration.interval_seconds or 120.0
        client = api.new_client(_NAME)
        self._supervisor = Supervisor("descheduler", clock=clock)
        self._views = InformerViews(client, supervisor=self._supervisor)
        self._snapshots = InformerSnapshot(self._views, lambda labels: True)
        self._recorder = EventRecorder(client, _NAME, clock=clock)
        access = ClusterAccess(client, self._views, self._supervisor, self._recorder)
        write_event: Any = self._recorder.event
        evictions = PodEvictions(client, write_event)
        self._walked = Descheduling(configuration, evictions, clock, self._supervisor, access)
        self._rounds: Descheduling | PlannedRounds = self._walked
        if planned:
            library = LandingNodes(cluster.scheduler)
            live = CurrentCluster(self._snapshots, self._views.view(PodMigrationJob))
            self._rounds = PlannedRounds(
                self._walked, lambda _: library, load_thresholds(configuration),
                clock.wall_seconds, live=live, at_once=True,
            )  # fmt: skip

    async def start(self) -> None:
        """Returns once its caches are complete."""
        self._api.keep(self._views.run)
        self._api.keep(self._recorder.run)
        await self._views.synced()
        for profile in self._walked.profiles:
            for plugin in profile.plugins.values():
                run = getattr(plugin, "run", None)
                if run is not None:
                    self._api.keep(run)
        self._api.keep(self._run)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self._rounds.run(self._snapshot())

    def _snapshot(self) -> ClusterSnapshot:
        """What informers know, the nodes with their load, and the pods that the API lacks."""
        known = self._snapshots.take()
        return replace(
            known,
            nodes=self._cluster.nodes,
            pods=[*known.pods, *self._cluster.fixed_pods],
            node_metrics=self._cluster.node_metrics(),
            pods_by_node=None,
        )
