# SPDX-License-Identifier: Apache-2.0
"""The descheduler as a part of ``koord up``: only where it is asked for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from koord.cli.commands.up import leases
from koord.cli.commands.up.cluster import keep_leading, lead_timing, run_served
from koord.cli.commands.up.scheduler_component import SCARCE
from koord.cli.daemons.descheduler import NAME
from koord.cli.daemons.scheduler import NAME as SCHEDULER
from koord.cli.process.lease_client import leader_elector

if TYPE_CHECKING:
    from koord.cli.commands.up.cluster import UpCluster
    from koord.kube.daemon.lifecycle import Component

INTERVAL = "10s"


def descheduler_component(cluster: UpCluster) -> Component:
    """The descheduler with LowNodeLoad at its defaults, a planned round every ten seconds."""
    from koord.controllers.descheduler.app import DeschedulerApp
    from koord.controllers.descheduler.config.load import shipped
    from koord.controllers.descheduler.endpoints import DeschedulerEndpoints
    from koord.controllers.descheduler.framework.registry import PluginRegistry
    from koord.controllers.descheduler.metrics import DeschedulerMetrics
    from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary
    from koord.controllers.scheduler.config.load import shipped as scheduler_config
    from koord.controllers.scheduler.registry import Registry
    from koord.kube.daemon.lifecycle import Component

    client, recorder = cluster.client(NAME), cluster.recorder(NAME)
    ready = asyncio.Event()

    async def life() -> None:
        configuration = shipped(PluginRegistry(), "LowNodeLoad", interval=INTERVAL)
        metrics = DeschedulerMetrics()
        endpoints = DeschedulerEndpoints(metrics, "127.0.0.1", 0)
        await endpoints.start()
        election = configuration.leader_election
        elector = leader_elector(
            client, election.resource_name, election.resource_namespace, metrics.registry,
            endpoints.url, lead_timing(), cluster.lead_clock, leases.identity(),
        )  # fmt: skip
        # The scheduler's part keeps nodes with GPUs for pods that ask for them; so do plans.
        registry = Registry()
        scheduling = scheduler_config(registry, SCHEDULER, "default-scheduler", scarce=SCARCE)
        app = DeschedulerApp(
            client, configuration, cluster.clock, recorder, elector, metrics,
            library=SchedulerLibrary(scheduling, registry),
        )  # fmt: skip
        endpoints.attach(app)
        await run_served(app, endpoints, ready)

    return Component("descheduler", partial(keep_leading, "descheduler", life), ready.wait)
