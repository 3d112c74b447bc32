# SPDX-License-Identifier: Apache-2.0
"""The network as it is now, built when somebody asks and something has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.network_topology import ClusterNetworkTopology
from koord.api.kinds.node import Node
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.coscheduling.objects import network_tree
from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import NetworkTree

if TYPE_CHECKING:
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.framework.handle import Handle

_LOG = log.get("scheduler.coscheduling")


class NetworkTopologyCache:
    """Follows nodes and the ClusterNetworkTopology ``default``.

    A topology whose layers are no chain leaves the tree before it in place.

    Args:
        handle: gives the views.

    Attributes:
        error: what is wrong with the topology, ``""`` if nothing is.
        version: counts trees.
    """

    def __init__(self, handle: Handle) -> None:
        self._nodes: View[Node] = handle.view(Node)
        self._topologies: View[ClusterNetworkTopology] = handle.view(ClusterNetworkTopology)
        self._network: NetworkTree | None = None
        self._stale = True
        self.error = ""
        self.version = 0
        self._nodes.on_change(self._touched, self._node_updated, self._gone)
        self._topologies.on_change(self._touched, self._topology_updated, self._gone)

    @property
    def current(self) -> ClusterNetworkTopology | None:
        """The object that counts."""
        return self._topologies.get(network_tree.TREE)

    def network(self) -> NetworkTree | None:
        """The tree; None without a usable ClusterNetworkTopology."""
        if self._stale:
            self._stale = False
            self._build()
        return self._network

    def _build(self) -> None:
        topology, self.error = self.current, ""
        if topology is None:
            self._network = None
            return
        try:
            self._network = network_tree.build(topology, (node for _, node in self._nodes.items()))
            self.version += 1
        except KoordError as error:
            self.error = str(error)
            _LOG.warning("the network topology is not usable", extra=log.fields(error=self.error))

    def _touched(self, obj: object) -> None:
        self._stale = True

    def _gone(self, obj: object, unknown: bool) -> None:
        self._stale = True

    def _node_updated(self, old: Node, node: Node) -> None:
        if old.metadata.labels != node.metadata.labels:
            self._stale = True

    def _topology_updated(
        self, old: ClusterNetworkTopology, topology: ClusterNetworkTopology
    ) -> None:
        if old.spec != topology.spec:
            self._stale = True
