# SPDX-License-Identifier: Apache-2.0
"""Nodes as a scheduler reads them: what it never looks at is skipped by the decoder.

A kubelet writes its Node every few minutes, and of conditions that is nothing but new times. With
those skipped, most of what a cluster's kubelets write leaves a node as it was. For an informer's
``project``; such a node is a :class:`koord.api.kinds.node.Node`, with those fields empty.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import field

from koord.api.kinds.meta import ResourceList
from koord.api.kinds.node import (
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeStatus,
    NodeSystemInfo,
)
from koord.api.schema import Time
from koord.controllers.cluster.trimmed_pods import skipped
from koord.kube.codec.projection import ProjectItems


class TrimmedNodeCondition(NodeCondition):
    """Whether a condition holds."""

    reason: str = skipped("reason", "")
    message: str = skipped("message", "")
    last_heartbeat_time: Time | None = skipped("lastHeartbeatTime", None)
    last_transition_time: Time | None = skipped("lastTransitionTime", None)


_Conditions: TypeAlias = Annotated[list[TrimmedNodeCondition], ProjectItems()]


class TrimmedNodeStatus(NodeStatus):
    """What a node offers, its conditions and its images."""

    capacity: ResourceList = skipped("capacity", {})
    conditions: _Conditions = field(default_factory=list)  # type: ignore[assignment]
    addresses: list[NodeAddress] = skipped("addresses", [])
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo, name="-nodeInfo")
    daemon_endpoints: NodeDaemonEndpoints = field(
        default_factory=NodeDaemonEndpoints, name="-daemonEndpoints"
    )


class TrimmedNode(Node):
    """A node without what no scheduler reads."""

    status: TrimmedNodeStatus = field(default_factory=TrimmedNodeStatus)
