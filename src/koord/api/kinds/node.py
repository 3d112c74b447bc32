# SPDX-License-Identifier: Apache-2.0
"""Nodes, cut to the fields that koord uses."""

from __future__ import annotations

from msgspec import field

from koord.api.kinds.constraints import Taint
from koord.api.kinds.meta import Object, ResourceList
from koord.api.schema import Time
from koord.api.wirestruct import WireStruct


class NodeSpec(WireStruct):
    """What an operator says about a node."""

    unschedulable: bool = False
    taints: list[Taint] = []
    provider_id: str = ""


class NodeCondition(WireStruct):
    """A condition of a node, such as ``Ready``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None


class NodeAddress(WireStruct):
    """One address of a node."""

    type: str = ""
    address: str = ""


class NodeSystemInfo(WireStruct):
    """Versions and identities that the kubelet reports."""

    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    architecture: str = ""


class ContainerImage(WireStruct):
    """An image that a node has pulled, under all its names."""

    names: list[str] = []
    size_bytes: int = 0


class DaemonEndpoint(WireStruct):
    """A port that a daemon of the node listens on; Kubernetes spells it with a capital."""

    port: int = field(default=0, name="Port")


class NodeDaemonEndpoints(WireStruct):
    """The daemons of a node."""

    kubelet_endpoint: DaemonEndpoint = field(default_factory=DaemonEndpoint)


class NodeStatus(WireStruct):
    """What a node has and how it is."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: list[NodeCondition] = []
    addresses: list[NodeAddress] = []
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)
    images: list[ContainerImage] = []
    daemon_endpoints: NodeDaemonEndpoints = field(default_factory=NodeDaemonEndpoints)


class Node(Object):
    """A machine of the cluster."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
