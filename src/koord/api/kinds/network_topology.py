# SPDX-License-Identifier: Apache-2.0
"""ClusterNetworkTopology: the layers of the network between nodes."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.kinds.meta import Object
from koord.api.schema import REQUIRED, Int32
from koord.api.wirestruct import WireStruct, emitted

CLUSTER_LAYER, NODE_LAYER = "ClusterTopologyLayer", "NodeTopologyLayer"


class NetworkTopologyLayer(WireStruct):
    """One layer.

    Attributes:
        labelKey: node labels of which any names the node's place in the layer.
    """

    topology_layer: Annotated[str, REQUIRED] = emitted(str)
    parent_topology_layer: str = ""
    label_key: list[str] = []


class ClusterNetworkTopologySpec(WireStruct):
    """The layers, in any order."""

    network_topology_spec: Annotated[list[NetworkTopologyLayer], REQUIRED] = emitted(list)


class TopologyInfo(WireStruct):
    """A place: its layer and its name there."""

    topology_layer: Annotated[str, REQUIRED] = emitted(str)
    topology_name: Annotated[str, REQUIRED] = emitted(str)


class TopologyDetail(WireStruct):
    """A place, the one above it and those below."""

    topology_info: Annotated[TopologyInfo, REQUIRED] = field(default_factory=TopologyInfo)
    parent_topology_info: TopologyInfo | None = None
    child_topology_layer: str = ""
    child_topology_names: list[str] = []
    node_num: Annotated[Int32, REQUIRED] = emitted(int)


class ClusterNetworkTopologyStatus(WireStruct):
    """The tree that the nodes' labels make."""

    detail_status: list[TopologyDetail] = []


class ClusterNetworkTopology(Object):
    """The layers of the network between nodes."""

    spec: ClusterNetworkTopologySpec = field(default_factory=ClusterNetworkTopologySpec)
    status: ClusterNetworkTopologyStatus = field(default_factory=ClusterNetworkTopologyStatus)
