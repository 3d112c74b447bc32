# SPDX-License-Identifier: Apache-2.0
"""Nodes with a topology, pods with policies, and a decider that has NodeNUMAResource alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_koord import AllocationStrategy, NodeNUMAResourceArgs
from koord.controllers.scheduler.config.args_kube_scheduler import ScoredResource
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource.plugin import NodeNUMAResource
from tests.controllers.scheduler.pods import node as plain_node
from tests.controllers.scheduler.pods import pod

SPEC = "scheduling.koordinator.sh/resource-spec"
STATUS = "scheduling.koordinator.sh/resource-status"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"


def strategy(kind: str = "LeastAllocated", **weights: int) -> AllocationStrategy:
    """A scoring strategy; cpu and memory alike where nothing else is said."""
    chosen = weights or {"cpu": 1, "memory": 1}
    resources = [ScoredResource(name=name, weight=weight) for name, weight in chosen.items()]
    return AllocationStrategy(type=kind, resources=resources)


def cpus(sockets: int, nodes: int, cores: int, threads: int) -> list[dict[str, int]]:
    """CPUs nested in order: siblings adjacent; ``nodes`` a socket, ``cores`` a node."""
    detail = []
    for cpu in range(sockets * nodes * cores * threads):
        core = cpu // threads
        node = core // cores
        detail.append({"id": cpu, "core": core, "socket": node // nodes, "node": node})
    return detail


def topology(
    name: str,
    shape: tuple[int, int, int, int] | list[dict[str, int]] = (2, 1, 4, 2),
    *,
    memory: str = "16Gi",
    zones: bool = True,
    policies: tuple[str, ...] = (),
    more: dict[str, dict[str, str]] | None = None,
    **annotations: Any,
) -> NodeResourceTopology:
    """A NodeResourceTopology; zones offer all their CPUs. ``annotations`` are JSON by short key."""
    detail = shape if isinstance(shape, list) else cpus(*shape)
    notes = {"node.koordinator.sh/cpu-topology": json.dumps({"detail": detail})}
    for key, value in annotations.items():
        notes[KEYS[key]] = value if isinstance(value, str) else json.dumps(value)
    found = []
    for zone in sorted({cpu["node"] for cpu in detail}) if zones else ():
        number = sum(cpu["node"] == zone for cpu in detail)
        amounts = {"cpu": str(number), "memory": memory, **(more or {}).get(f"node-{zone}", {})}
        resources = [
            {"name": key, "capacity": amount, "allocatable": amount, "available": amount}
            for key, amount in amounts.items()
        ]
        found.append({"name": f"node-{zone}", "type": "Node", "resources": resources})
    document = {
        "metadata": {"name": name, "annotations": notes},
        "topologyPolicies": list(policies),
        "zones": found,
    }
    return convert(document, NodeResourceTopology, f"NodeResourceTopology {name}")


KEYS = {
    "allocs": "node.koordinator.sh/pod-cpu-allocs",
    "kubelet": "kubelet.koordinator.sh/cpu-manager-policy",
    "reservation": "node.koordinator.sh/reservation",
    "system": "node.koordinator.sh/system-qos-resource",
    "ratios": "node.koordinator.sh/resource-amplification-ratio",
}


class Cluster:
    """Nodes, the plugin, and a way to place pods."""

    def __init__(self, **changes: Any) -> None:
        self.views = LocalViews()
        self.world = ClusterState(self.views, VirtualClock(0.0))
        self.plugin = NodeNUMAResource(NodeNUMAResourceArgs(**changes), self.world)
        self.world.accounts.listen(self.plugin)
        parts = {name: [self.plugin] for name in ("pre_filter", "filter", "reserve", "pre_bind")}
        plugins = ProfilePlugins(score=[(self.plugin, 1)], **parts)
        self.decider = Decider(self.world.table, self.world.accounts, plugins)

    def node(
        self,
        name: str = "n0",
        shape: tuple[int, int, int, int] | list[dict[str, int]] | None = (2, 1, 4, 2),
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        cpu: str = "",
        **nrt: Any,
    ) -> Node:
        """Adds a node and, unless ``shape`` is None, its topology."""
        if shape is not None:
            reported = topology(name, shape, **nrt)
            self.views.view(NodeResourceTopology).put(reported)
        total = len(shape) if isinstance(shape, list) else _count(shape)
        made = plain_node(
            name, cpu or str(total), labels=labels or {}, annotations=annotations or {}
        )
        self.world.table.put(made)
        return made

    def info(self, name: str, cpu: str = "", memory: str = "1Gi", **spec: Any) -> PodInfo:
        """A pending pod; see :func:`bound_pod` for what ``spec`` may be beside wire names."""
        return self.world.shapes.info(bound_pod(name, cpu, memory, **spec))

    def place(self, info: PodInfo) -> str:
        """Decides and assumes; the CPUs it got, or why it got none."""
        decision = self.decider.decide(info)
        if decision.diagnosis is not None:
            return decision.diagnosis.message()
        refused = self.decider.assume(decision)
        if refused is not None:
            return refused.text
        held = info.allocations.get("NodeNUMAResource")
        return str(held.cpus) if held is not None else ""

    def put(self, name: str, cpu: str = "", memory: str = "1Gi", **spec: Any) -> str:
        """Places a new pod."""
        return self.place(self.info(name, cpu, memory, **spec))

    def remove(self, uid: str) -> None:
        """Takes a pod off its node."""
        pod = self.world.accounts.get(uid)
        assert pod is not None
        self.world.accounts.drop(pod)

    def changes(self, info: PodInfo) -> PendingPatch:
        """What PreBind writes on a placed pod."""
        cycle, changes = Cycle(info, self.world.table), PendingPatch()
        asyncio.run(self.plugin.pre_bind(cycle, info.row, changes))
        return changes

    def refusals(self, info: PodInfo) -> dict[int, Rejection]:
        """Why rows refuse the pod."""
        diagnosis = self.decider.decide(info).diagnosis
        return dict(diagnosis.by_row) if diagnosis is not None else {}


def bound_pod(name: str, cpu: str = "", memory: str = "1Gi", **spec: Any) -> Any:
    """A pod; ``qos`` (LSR unless said), ``priority`` 9500, and annotations by short name.

    ``required``, ``preferred``, ``exclusive`` go into the resource spec, ``numa`` and ``alone``
    into the NUMA spec, ``status`` into the resource status.
    """
    qos = spec.pop("qos", "LSR")
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    notes = dict(spec.pop("annotations", {}))
    wanted = {
        "requiredCPUBindPolicy": spec.pop("required", ""),
        "preferredCPUBindPolicy": spec.pop("preferred", ""),
        "preferredCPUExclusivePolicy": spec.pop("exclusive", ""),
    }
    if any(wanted.values()):
        notes[SPEC] = json.dumps({key: value for key, value in wanted.items() if value})
    numa = {
        "numaTopologyPolicy": spec.pop("numa", ""),
        "singleNUMANodeExclusive": spec.pop("alone", ""),
    }
    if any(numa.values()):
        notes[NUMA_SPEC] = json.dumps({key: value for key, value in numa.items() if value})
    status = spec.pop("held", None)
    if status is not None:
        notes[STATUS] = status if isinstance(status, str) else json.dumps(status)
    labels.update(spec.pop("labels", {}))
    priority = spec.pop("priority", 9500)
    return pod(name, cpu, memory, labels=labels, annotations=notes, priority=priority, **spec)


def _count(shape: tuple[int, int, int, int] | None) -> int:
    if shape is None:
        return 16
    sockets, nodes, cores, threads = shape
    return sockets * nodes * cores * threads
