# SPDX-License-Identifier: Apache-2.0
"""Which sets of zones can serve a pod: hints for the joint choice of NUMA nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.allocator import NUMAAllocator
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import amplify
from koord.kernels.numa import Provider

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.nodenumaresource.allocation.pools import NUMAPools
    from koord.controllers.scheduler.plugins.nodenumaresource.allocation.rules import (
        AllocationRules,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import (
        CPUBindRules,
        NUMARequest,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
        NodeAllocations,
    )
    from koord.kernels.numa import CpuBinding, Scorer, ZoneTable

# The limits of koord.kernels.numa, which goes through all sets of zones. A pod's amounts are within
# its limits otherwise.
MOST_ZONES, _MOST_CPUS = 16, 1 << 31


def topology_hints(
    node: NodeAllocations,
    request: NUMARequest,
    rules: AllocationRules,
    numa_pools: NUMAPools,
    scorer: Scorer | None,
) -> Provider:
    """The sets of zones that can serve the pod, resource by resource.

    Raises:
        ValueError: what pods hold of the node's zones cannot be added up.
    """
    topology, binding, total = node.topology, rules.binding, node.topology.total
    if total is None or _beyond(request, topology, binding):
        return Provider(failure=reasons.NO_HINTS.reasons[0])
    pools = [_left(NUMAAllocator(node, request, binding, pool)) for pool in numa_pools]
    scored, cpus = pools[-1]
    if numa_pools.base is not numa_pools.node:
        scored, cpus = _left(NUMAAllocator(node, request, binding, numa_pools.base))
    return Provider(
        total.hints(
            scored.capped(cpus) if cpus is not None and binding.required else scored,
            request.amounts,
            rules.policy,
            pools,
            amplified=_scored_amounts(request, topology, binding),
            scorer=scorer,
        )
    )


def _beyond(request: NUMARequest, topology: NodeTopology, binding: CPUBindRules) -> bool:
    """Whether there are more zones, or more CPUs are wanted, than can be reasoned about."""
    return len(topology.amounts) > MOST_ZONES or (binding.bound and request.cpus > _MOST_CPUS)


def _left(trial: NUMAAllocator) -> tuple[ZoneTable, CpuBinding | None]:
    left = trial.left()
    assert left is not None, "a machine with zones, and nothing that they have left"
    return left, trial.cpu_binding(trial.bindable()) if trial.binding.bound else None


def _scored_amounts(
    request: NUMARequest, topology: NodeTopology, binding: CPUBindRules
) -> dict[str, int]:
    """The request as scores see it: bound CPUs are amplified."""
    row = dict(request.amounts)
    if binding.bound:
        row[CPU] = amplify(request.cpu_milli, topology.zone_ratio)
    return row
