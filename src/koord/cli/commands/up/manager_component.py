# SPDX-License-Identifier: Apache-2.0
"""The manager as a part of ``koord up``."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from koord.cli.commands.up import leases
from koord.cli.commands.up.cluster import keep_leading, lead_timing, run_served
from koord.cli.daemons.manager import NAME
from koord.cli.process.lease_client import leader_elector
from koord.controllers.manager.options import ManagerOptions

if TYPE_CHECKING:
    from koord.cli.commands.up.cluster import UpCluster
    from koord.kube.daemon.lifecycle import Component


def manager_component(cluster: UpCluster) -> Component:
    """The manager as a part of ``koord up``; without a ConfigMap it offers nothing but devices.

    Cards can be shared there at once, since nobody is to look for a gate on a laptop.
    """
    from koord.cli.options.go_flags import warn_of_gates
    from koord.controllers.manager.app import LEASE, ManagerApp
    from koord.controllers.manager.endpoints import ManagerEndpoints
    from koord.controllers.manager.feature_gates import feature_gates
    from koord.controllers.manager.metrics import ManagerMetrics
    from koord.kube.daemon.lifecycle import Component

    options = ManagerOptions(
        feature_gates=f"EnableSyncGPUSharedResource=true,{cluster.manager_gates}"
    )
    warn_of_gates("manager", feature_gates(cluster.manager_gates))
    client, recorder = cluster.client(NAME), cluster.recorder(NAME)
    ready = asyncio.Event()

    async def life() -> None:
        metrics = ManagerMetrics()
        endpoints = ManagerEndpoints(metrics, "127.0.0.1", 0)
        await endpoints.start()
        elector = leader_elector(
            client, LEASE, options.leader_election_namespace, metrics.controllers, endpoints.url,
            lead_timing(), cluster.lead_clock, leases.identity(),
        )  # fmt: skip
        app = ManagerApp(client, options, cluster.clock, recorder, elector, metrics)
        endpoints.attach(app)
        await run_served(app, endpoints, ready)

    return Component("manager", partial(keep_leading, "manager", life), ready.wait)
