# SPDX-License-Identifier: Apache-2.0
"""What the plugin knows of one node, as the JSON of its debug endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import resource_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.nodenumaresource.objects.cpu_layout import CPULayout
    from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
        NodeAllocations,
    )


def node_report(name: str, state: NodeAllocations) -> dict[str, Any]:
    """Topology options, what is left, and who holds what, in the original's field names.

    Raises:
        KoordError: the node reports no topology, or its amplification ratio cannot be read.
    """
    topology = state.topology
    if topology.invalid_ratio:
        field = f"annotations[{keys.RESOURCE_AMPLIFICATION_RATIO}]"
        raise KoordError(f"Node {name}", field, "nonsense", "ratios by resource")
    if topology.layout is None or state.cpus is None:
        expected = "a valid topology, see its NodeResourceTopology"
        raise KoordError(f"Node {name}", "cpuTopology", None, expected)
    free = state.cpus.available(max_ref_count=topology.max_ref_count, reserved=topology.reserved)
    left = state.left()
    return {
        "name": name,
        "cpuTopology": _topology(topology.layout),
        "reservedCPUs": str(topology.reserved),
        "maxRefCount": topology.max_ref_count,
        "policy": topology.kubelet_policy,
        "cpuBindPolicy": topology.bind_policy,
        "numaAllocateStrategy": str(topology.strategy),
        "numaTopologyPolicy": str(topology.numa_policy),
        "numaNodeResources": _zones(topology.amounts),
        "amplificationRatios": dict(topology.ratios),
        "remainingNUMANodeResources": _zones(left.amounts() if left is not None else {}),
        "allocatedNUMANodeResources": _zones(state.used),
        "availableCPUs": str(free),
        "allocatedCPUs": {str(cpu): state.cpus.ref_count(cpu) for cpu in state.cpus.allocated()},
        "allocatedPods": [
            {
                "uid": uid,
                "cpuset": str(held.cpus),
                "cpuExclusivePolicy": str(held.exclusive),
                "numaNodeResources": _zones(held.zones),
            }
            for uid, held in sorted(state.pods.items())
        ],
    }


def _topology(layout: CPULayout) -> list[dict[str, int | None]]:
    return [
        {"id": cpu.cpu, "core": cpu.core, "socket": cpu.socket, "node": cpu.node}
        for cpu in layout.topology.cpus
    ]


def _zones(table: Mapping[int, Mapping[str, int]]) -> list[dict[str, Any]]:
    return [
        {"node": zone, "resources": {k: str(v) for k, v in resource_list(table[zone]).items()}}
        for zone in sorted(table)
    ]
