# SPDX-License-Identifier: Apache-2.0
"""The network's places as a tree: cluster, layers, nodes (docs/reference/gangs.md#tree)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.network_topology import (
    CLUSTER_LAYER,
    NODE_LAYER,
    TopologyDetail,
    TopologyInfo,
)
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.api.kinds.network_topology import ClusterNetworkTopology, NetworkTopologyLayer
    from koord.api.kinds.node import Node

TREE = "default"
"""The name of the one ClusterNetworkTopology that counts."""


class TreeNode:
    """A place of the network.

    Attributes:
        layer: its layer.
        name: its name there; of the node layer, a node's.
        parent: the place above; None of the cluster.
        children: the places below, by name.
        number: its place in :attr:`NetworkTree.places`.
    """

    __slots__ = ("children", "layer", "name", "number", "parent")

    def __init__(self, layer: str, name: str, parent: TreeNode | None, number: int) -> None:
        self.layer = layer
        self.name = name
        self.parent = parent
        self.children: dict[str, TreeNode] = {}
        self.number = number

    def __repr__(self) -> str:
        return f"Place({self.title!r})"

    @property
    def title(self) -> str:
        """``layer/name``."""
        return f"{self.layer}/{self.name}"

    @property
    def leaf(self) -> bool:
        """Whether it is a node."""
        return self.layer == NODE_LAYER

    def sorted_children(self) -> list[TreeNode]:
        """The places below, by name."""
        return [self.children[name] for name in sorted(self.children)]

    def upward(self) -> Iterator[TreeNode]:
        """Itself and what is above it, the cluster last."""
        place: TreeNode | None = self
        while place is not None:
            yield place
            place = place.parent


class NetworkTree:
    """The layers of the cluster's network as a tree, with nodes as leaves.

    Args:
        topology: names the layers.

    Attributes:
        layers: from the one below the cluster to the node layer.
        root: the cluster.
        places: all of them, each after the one above it.
        nodes: places of the node layer by name.

    Raises:
        KoordError: the layers are no chain from the node layer upward.
    """

    def __init__(self, topology: ClusterNetworkTopology) -> None:
        self._specs = chain(topology)
        self.layers = [spec.topology_layer for spec in self._specs]
        self.root = TreeNode(CLUSTER_LAYER, "", None, 0)
        self.places = [self.root]
        self._index: dict[tuple[str, str], TreeNode] = {}
        self.nodes: dict[str, TreeNode] = {}

    def depth(self, layer: str) -> int | None:
        """How far below the cluster a layer is, 0 for the cluster itself; None if unknown."""
        if layer == CLUSTER_LAYER:
            return 0
        return self.layers.index(layer) + 1 if layer in self.layers else None

    def add(self, node: Node) -> bool:
        """Puts a node where its labels say; False, and nothing done, if they leave a gap.

        The place directly above a node may be missing: one of the node's own name stands for it.
        """
        names = [self._name(node, spec) for spec in self._specs]
        if len(names) > 1 and not names[-2]:
            names[-2] = node.metadata.name
        if not all(names):
            return False
        place = self.root
        for layer, name in zip(self.layers, names, strict=True):
            place = self._below(place, layer, name)
        self.nodes[node.metadata.name] = place
        return True

    def at(self, layer: str) -> list[TreeNode]:
        """The places of a layer, in the order of the tree."""
        return [place for place in self.places if place.layer == layer]

    def details(self) -> list[TopologyDetail]:
        """``status.detailStatus``: depth first, children by name, without nodes."""
        details: list[TopologyDetail] = []
        self._detail(self.root, details)
        return details

    def _name(self, node: Node, spec: NetworkTopologyLayer) -> str:
        if spec.topology_layer == NODE_LAYER:
            return node.metadata.name
        labels = node.metadata.labels
        return next((labels[key] for key in spec.label_key if labels.get(key)), "")

    def _below(self, parent: TreeNode, layer: str, name: str) -> TreeNode:
        place = self._index.get((layer, name))
        if place is None:
            place = TreeNode(layer, name, parent, len(self.places))
            self._index[layer, name] = parent.children[name] = place
            self.places.append(place)
        return place

    def _detail(self, place: TreeNode, details: list[TopologyDetail]) -> int:
        """Adds a place and those below; gives how many nodes there are."""
        if place.leaf:
            return 1
        children = place.sorted_children()
        detail = TopologyDetail(topology_info=_info(place))
        if place.parent is not None:
            detail.parent_topology_info = _info(place.parent)
        if children:
            detail.child_topology_layer = children[0].layer
            if not children[0].leaf:
                detail.child_topology_names = [child.name for child in children]
        details.append(detail)
        detail.node_num = sum(self._detail(child, details) for child in children)
        return detail.node_num


def build(topology: ClusterNetworkTopology, nodes: Iterable[Node]) -> NetworkTree:
    """The tree of all nodes; those are taken by name, so that the result is always the same.

    Raises:
        KoordError: the layers are no chain from the node layer upward.
    """
    network = NetworkTree(topology)
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        network.add(node)
    return network


def chain(topology: ClusterNetworkTopology) -> list[NetworkTopologyLayer]:
    """The layers from the highest to the node layer.

    Raises:
        KoordError: the node layer or a parent is not among them, or they run in a circle.
    """
    field = "spec.networkTopologySpec"
    by_name = {spec.topology_layer: spec for spec in topology.spec.network_topology_spec}
    by_name.pop(CLUSTER_LAYER, None)  # the root needs no labels
    found: list[NetworkTopologyLayer] = []
    layer = NODE_LAYER
    for _ in by_name:
        spec = by_name.get(layer)
        if spec is None or spec in found:
            expected = f"a chain of layers from {NODE_LAYER} upward, each there once"
            raise KoordError(topology.title, field, layer, expected)
        found.append(spec)
        layer = spec.parent_topology_layer
    if not found:
        raise KoordError(topology.title, field, [], f"layers, {NODE_LAYER} among them")
    return found[::-1]


def _info(place: TreeNode) -> TopologyInfo:
    return TopologyInfo(topology_layer=place.layer, topology_name=place.name)
