# SPDX-License-Identifier: Apache-2.0
"""Writes the network's tree into its object's status (docs/reference/gangs.md#tree)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.codec import to_document
from koord.api.kinds.network_topology import ClusterNetworkTopology
from koord.base import faults
from koord.base.supervision import Supervisor
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.coscheduling.state.network_topology import (
        NetworkTopologyCache,
    )
    from koord.kube.client import Client

PERIOD_SECONDS = 10.0


class NetworkTopologyController:
    """Keeps ``status.detailStatus`` true.

    Args:
        topology: the tree.
        client: writes.
        supervisor: told of writes that fail.
    """

    def __init__(
        self, topology: NetworkTopologyCache, client: Client, supervisor: Supervisor | None = None
    ) -> None:
        self._supervisor = supervisor or Supervisor("scheduler")
        self._topology = topology
        self._client = client

    async def run(self) -> None:
        """Looks every 10 s, until cancelled."""
        while True:
            with self._supervisor.round("tree of the network"):
                await self.write()
            await asyncio.sleep(PERIOD_SECONDS)

    async def write(self) -> bool:
        """Writes the tree if the status says something else; whether it did."""
        topology, network = self._topology.current, self._topology.network()
        if topology is None or network is None or self._topology.error:
            return False
        details = network.details()
        if details == topology.status.detail_status:
            return False
        faults.point("scheduler.network")
        meta = topology.metadata
        body = {
            "metadata": {"uid": meta.uid},
            "status": {"detailStatus": to_document(details)},
        }
        await self._client.patch(
            ClusterNetworkTopology, meta.name, Patch.merge(body), subresource="status"
        )
        return True
