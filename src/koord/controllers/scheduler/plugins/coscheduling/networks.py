# SPDX-License-Identifier: Apache-2.0
"""Writes the network's tree into its object's status (spec section 10.1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.codec import to_document
from koord.api.kinds.network_topology import ClusterNetworkTopology
from koord.base import faults, log
from koord.base.errors import one_line
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.coscheduling.topology import Topology
    from koord.kube.client import Client

_LOG = log.get("scheduler.coscheduling")
PERIOD_SECONDS = 10.0


class NetworkController:
    """Keeps ``status.detailStatus`` true.

    Args:
        topology: the tree.
        client: writes.
    """

    def __init__(self, topology: Topology, client: Client) -> None:
        self._topology = topology
        self._client = client

    async def run(self) -> None:
        """Looks every 10 s, until cancelled."""
        while True:
            try:
                await self.write()
            except Exception as error:
                # The next round says it again; nothing else depends on it.
                where = log.fields(error=one_line(str(error)) or type(error).__name__)
                _LOG.warning("the network's tree could not be written", extra=where)
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
