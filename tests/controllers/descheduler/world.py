# SPDX-License-Identifier: Apache-2.0
"""A cluster of a few nodes and pods, and one plugin that runs over it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.config.load import decode
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.framework.round import Descheduling
from koord.controllers.descheduler.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess

NOW = 1_700_000_000.0
"""Wall time of all rounds."""


class RecordedEvictions:
    """Takes every eviction but those that it refuses."""

    def __init__(self, refuses: Collection[str] = ()) -> None:
        self.names: list[str] = []
        self.reasons: list[str] = []
        self.refuses = refuses

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        if pod.metadata.name in self.refuses:
            return False
        self.names.append(pod.metadata.name)
        self.reasons.append(request.reason)
        return True


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", **more: Any) -> Node:
    """A node that takes ten pods; ``labels``, ``taints`` and ``unschedulable`` as they are."""
    document = {
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {
            "taints": more.get("taints", []),
            "unschedulable": more.get("unschedulable", False),
        },
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": more.get("pods", "10")},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return codec.convert(document, Node, name, "")


def pod(name: str, node_name: str = "n1", **more: Any) -> Pod:
    """A running pod of a ReplicaSet ``web`` that asks for 100m and 100Mi.

    Args:
        more: ``cpu``, ``memory``, ``namespace``, ``labels``, ``annotations``, ``owner`` (None for
            none), ``age`` in seconds; ``spec`` and ``status`` are laid over what there is.
    """
    owner = more.get("owner", "web")
    kind = more.get("owner_kind", "ReplicaSet")
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}"}]
    asked = {"cpu": more.get("cpu", "100m"), "memory": more.get("memory", "100Mi")}
    document = {
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "default"),
            "uid": f"uid-of-{name}",
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            "ownerReferences": owners if owner else [],
            "creationTimestamp": _moment(NOW - more.get("age", 3600)),
        },
        "spec": {
            "nodeName": node_name,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": asked}}],
            **more.get("spec", {}),
        },
        "status": {"phase": "Running", **more.get("status", {})},
    }
    return codec.convert(document, Pod, name, "")


def _moment(seconds: float) -> str:
    from koord.api.timestamps import seconds_text

    return seconds_text(seconds)


def run(
    point: str,
    plugin: str,
    args: dict[str, Any] | None,
    snapshot: ClusterSnapshot,
    *,
    evictor: dict[str, Any] | None = None,
    evictions: RecordedEvictions | None = None,
    **configuration: Any,
) -> list[str]:
    """The pods that one plugin of kubernetes-sigs/descheduler evicts in a round, in order.

    Args:
        point: where it stands in the configuration.
        args: its arguments.
        snapshot: the cluster.
        evictor: arguments of DefaultEvictor, which filters.
        evictions: takes the evictions.
        configuration: other fields of the file.
    """
    told = evictions or RecordedEvictions()
    descheduling = make(point, plugin, args, told, evictor, **configuration)
    record = asyncio.run(descheduling.run(snapshot))
    assert record.errors == []
    return told.names


def make(
    point: str,
    plugin: str,
    args: dict[str, Any] | None,
    evictions: RecordedEvictions,
    evictor: dict[str, Any] | None = None,
    access: ClusterAccess | None = None,
    clock: VirtualClock | None = None,
    **configuration: Any,
) -> Descheduling:
    """Rounds of one plugin; DefaultEvictor filters and evicts."""
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerConfiguration",
        "profiles": [
            {
                "plugins": {
                    point: {"enabled": [{"name": plugin}]},
                    "filter": _only("DefaultEvictor"),
                    "evict": _only("DefaultEvictor"),
                },
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": evictor},
                    {"name": plugin, "args": args},
                ],
            }
        ],
        **configuration,
    }
    configured = decode(document, "the test's configuration", PluginRegistry([]))
    supervisor = Supervisor("descheduler")
    return Descheduling(configured, evictions, clock or VirtualClock(NOW), supervisor, access)


def _only(name: str) -> dict[str, Any]:
    return {"enabled": [{"name": name}], "disabled": [{"name": "*"}]}


def cluster(nodes: Sequence[Node], pods: Sequence[Pod], **more: Any) -> ClusterSnapshot:
    """A snapshot."""
    return ClusterSnapshot(nodes, pods, **more)
