# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a part of ``koord up``."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from koord.cli.commands.up import leases
from koord.cli.commands.up.cluster import keep_leading, lead_timing, run_served
from koord.cli.daemons.scheduler import NAME
from koord.cli.process.lease_client import leader_elector

if TYPE_CHECKING:
    from koord.cli.commands.up.cluster import UpCluster
    from koord.kube.daemon.lifecycle import Component

# What `koord up` keeps for pods that ask for it.
SCARCE = (
    "nvidia.com/gpu",
    *(f"koordinator.sh/{name}" for name in
      ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")),
)  # fmt: skip


def scheduler_component(cluster: UpCluster) -> Component:
    """The scheduler as a part of ``koord up``: for its own name and for default-scheduler."""
    from koord.base.metrics import registry as new_registry
    from koord.cli.options.go_flags import warn_of_gates
    from koord.controllers.scheduler.app import App
    from koord.controllers.scheduler.config.load import shipped
    from koord.controllers.scheduler.endpoints import SchedulerEndpoints
    from koord.controllers.scheduler.feature_gates import feature_gates
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.registry import Registry
    from koord.kube.daemon.lifecycle import Component

    client, recorder = cluster.client(NAME), cluster.recorder(NAME)
    ready, gates = asyncio.Event(), feature_gates(cluster.scheduler_gates)
    warn_of_gates("scheduler", gates)

    async def life() -> None:
        registry = Registry()
        configuration = shipped(registry, NAME, "default-scheduler", scarce=SCARCE)
        metrics = SchedulerMetrics(new_registry())
        endpoints = SchedulerEndpoints(metrics, "127.0.0.1", 0)
        await endpoints.start()
        election = configuration.leader_election
        elector = leader_elector(
            client, election.resource_name, election.resource_namespace, metrics.registry,
            endpoints.url, lead_timing(), cluster.lead_clock, leases.identity(),
        )  # fmt: skip
        app = App(client, configuration, cluster.clock, recorder, gates, elector, metrics, registry)
        endpoints.attach(app)
        await run_served(app, endpoints, ready)

    return Component("scheduler", partial(keep_leading, "scheduler", life), ready.wait)
