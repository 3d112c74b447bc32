# SPDX-License-Identifier: Apache-2.0
"""Which CPUs and zone amounts one pod gets of one node, out of which pool.

Counts of free CPUs decide where cores are equal; else CPUs are picked on trial.

The rules are those of Koordinator's resource manager; `koord.kernels.numa` spreads amounts and
`koord.kernels.topology` picks CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.nodenumaresource import reasons
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.pools import (
    FREE_POOL,
    NUMAPool,
    NUMAPools,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import (
    MILLI,
    ZoneAmounts,
    ZoneIds,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import (
    CPUBindRules,
    NUMARequest,
)
from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
    NodeAllocations,
)
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import CpuBinding, ZoneTable
from koord.kernels.topology import BindPolicy, CPUState, ExclusivePolicy, NUMAStrategy, Pick


@dataclass(frozen=True, slots=True)
class NUMAAllocator:
    """One pod on one node, with one pool.

    Args:
        node: what pods hold there.
        request: what the pod asks for.
        binding: how its CPUs are chosen there.
        pool: what it may use beyond what is plainly free.
    """

    node: NodeAllocations
    request: NUMARequest
    binding: CPUBindRules
    pool: NUMAPool

    @property
    def plain(self) -> bool:
        """Whether what is left is what was there less what is in use."""
        return self.pool is FREE_POOL and self.node.topology.zone_ratio <= 1

    def bindable(self) -> dict[int | None, int]:
        """How many CPUs each zone could give under the bind policy."""
        policy = self.binding.policy if self.binding.required else ""
        pool = self.pool
        if not pool.preferred and pool.within is None:
            return self.node.bindable(policy)
        return self.node.count(policy, pool.preferred, pool.within)

    def left(self) -> ZoneTable | None:
        """What zones have left for the pod, not capped by the CPUs that can be bound."""
        pool = self.pool
        left = self.node.left(pool.preferred, pool.reusable)
        if left is None or pool.limits is None:
            return left
        rows = left.amounts()
        _limit(rows, pool.limits)
        return left.frame.table(rows)

    def cpu_binding(self, bindable: Mapping[int | None, int]) -> CpuBinding | None:
        """What the spreading of amounts must know of bound CPUs; None where they are shared."""
        if not self.binding.bound:
            return None
        binding, layout = self.binding, self.node.topology.layout
        exact = binding.required and binding.full_cores
        # Counts do not decide where cores are unequal, or where single threads go first.
        unequal = exact and (layout is None or not layout.uniform or bool(self.pool.preferred))
        return CpuBinding(
            needed=self.request.cpus,
            bindable={zone: bindable.get(zone, 0) for zone in self.node.topology.amounts},
            required=binding.required,
            full_cores=binding.full_cores,
            threads_per_core=self.node.topology.threads,
            accepts=self._accepts if unequal or self.pool.including else None,
        )

    def allocate(self, affinity: ZoneIds | None) -> NUMAAllocation | Rejection:
        """What the pod gets; with an affinity, amounts and CPUs of those zones."""
        bindable = self.bindable() if self.binding.bound else {}
        zones: Mapping[int, Mapping[str, int]] = {}
        if affinity is not None:
            spread = self._spread(affinity, bindable)
            if isinstance(spread, Rejection):
                return spread
            zones = spread
        if not self.binding.bound:
            return NUMAAllocation(zones=zones)
        if sum(bindable.values()) < self.request.cpus:
            return reasons.NOT_ENOUGH_CPUS
        picked = self._pick_by_zone(_whole_cpus(zones)) if zones else self._pick_anywhere(bindable)
        if isinstance(picked, Rejection):
            return picked
        if not self.pool.including.issubset(picked):
            return reasons.NOT_ENOUGH_CPUS
        return NUMAAllocation(picked, zones, self.request.exclusive)

    def _spread(
        self, affinity: ZoneIds, bindable: Mapping[int | None, int]
    ) -> ZoneAmounts | Rejection:
        if len(affinity) == 1 and self.plain:
            taken = self._all_of(affinity[0], bindable)
            if taken is not None:
                return taken
        left = self.left()
        if left is None:
            return reasons.NO_ZONE_AMOUNTS
        spread = left.distribute(self.request.amounts, affinity, self.cpu_binding(bindable))
        if spread.insufficient:
            return Rejection(reasons.NAME, tuple(spread.reasons))
        return spread.by_zone

    def _all_of(self, zone: int, bindable: Mapping[int | None, int]) -> ZoneAmounts | None:
        """Everything from one zone; None where that is not to be had, or not plain to see."""
        topology, binding = self.node.topology, self.binding
        if topology.total is None or zone not in topology.amounts:
            return None
        left = self.node.plain_left(zone)
        names = topology.total.frame.names
        requested_amounts = {
            name: amount for name, amount in self.request.amounts.items() if name in names
        }
        if any(left.get(name, 0) < amount for name, amount in requested_amounts.items()):
            return None
        if binding.bound and bindable.get(zone, 0) < self.request.cpus:
            return None
        return {zone: requested_amounts} if requested_amounts else {}

    def _accepts(self, counts: dict[int, int] | None) -> bool:
        """Whether real CPUs are found for counts that fit."""
        picked = self._pick_by_zone(counts) if counts else self._pick_anywhere(self.bindable())
        return isinstance(picked, CPUSet) and self.pool.including.issubset(picked)

    def _pick_by_zone(self, counts: Mapping[int, int]) -> CPUSet | Rejection:
        layout = self.node.topology.layout
        cpus = CPUSet()
        for zone in sorted(counts):
            if layout is None or zone not in layout.zone_cpus or not counts[zone]:
                continue
            of_zone = layout.zone_cpus[zone]
            within = of_zone if self.pool.within is None else of_zone & self.pool.within
            pick = self._pick(counts[zone], within)
            if not pick:
                return Rejection(reasons.NAME, (pick.reason,))
            cpus |= pick.cpus
        return cpus if len(cpus) == self.request.cpus else reasons.NOT_ENOUGH_CPUS

    def _pick_anywhere(self, bindable: Mapping[int | None, int]) -> CPUSet | Rejection:
        # Zones chosen here would not heed pods that want zones for themselves.
        alone = self.request.exclusive in ("", ExclusivePolicy.NONE)
        if self.node.topology.strategy == NUMAStrategy.DISTRIBUTE_EVENLY and alone:
            evenly = self._pick_evenly(bindable)
            if evenly is not None:
                return evenly
        pick = self._pick(self.request.cpus, self.pool.within)
        return pick.cpus if pick else Rejection(reasons.NAME, (pick.reason,))

    def _pick_evenly(self, bindable: Mapping[int | None, int]) -> CPUSet | None:
        full = self.binding.full_cores
        unit = self.node.topology.threads if full else 1
        whole = [] if not full or self.binding.required else [self._whole_cores()]
        for counts in (*whole, bindable):
            free = {zone: cpus for zone, cpus in counts.items() if zone is not None}
            shares = _even_shares(free, self.request.cpus, unit)
            picked = self._pick_by_zone(shares) if shares else None
            if isinstance(picked, CPUSet):
                return picked
        return None

    def _whole_cores(self) -> dict[int | None, int]:
        binding = CPUBindRules(True, BindPolicy.FULL_PCPUS, required=True)
        return NUMAAllocator(self.node, self.request, binding, self.pool).bindable()

    def _pick(self, count: int, within: CPUSet | None) -> Pick:
        topology = self.node.topology
        return _cpus(self.node).pick(
            count,
            bind=self.binding.policy or BindPolicy.DEFAULT,
            required=self.binding.required,
            exclusive=self.request.exclusive,
            strategy=topology.strategy,
            max_ref_count=topology.max_ref_count,
            reserved=topology.reserved,
            preferred=self.pool.preferred or None,
            within=within,
        )


def _whole_cpus(zones: Mapping[int, Mapping[str, int]]) -> dict[int, int]:
    return {zone: row.get(CPU, 0) // MILLI for zone, row in zones.items()}


def _limit(left: ZoneAmounts, limits: Mapping[int, Mapping[str, int]]) -> None:
    """What a restricted reservation names is had from it alone, in whichever zone it lies."""
    named = {name for row in limits.values() for name in row}
    for zone, row in left.items():
        limited = limits.get(zone, {})
        for name in named & row.keys():
            row[name] = min(row[name], limited.get(name, 0))


def _cpus(node: NodeAllocations) -> CPUState:
    if node.cpus is None:
        raise ValueError("cpu topology: got none, expected a checked topology")
    return node.cpus


def allocate(
    node: NodeAllocations,
    request: NUMARequest,
    binding: CPUBindRules,
    numa_pools: NUMAPools,
    affinity: ZoneIds | None,
) -> NUMAAllocation | Rejection:
    """What the pod gets from the first pool that serves it, or why none does."""
    rejections = []
    for pool in numa_pools:
        chosen = NUMAAllocator(node, request, binding, pool).allocate(affinity)
        if isinstance(chosen, NUMAAllocation):
            return chosen
        rejections.append(chosen)
    if numa_pools.node is not None:
        return rejections[-1]
    texts = [f"Reservation(s) {text}" for rejection in rejections for text in rejection.reasons]
    return Rejection(reasons.NAME, tuple(dict.fromkeys(texts)))


def _even_shares(free: Mapping[int, int], count: int, unit: int) -> dict[int, int]:
    """How many CPUs each zone gives under DistributeEvenly; empty where no even split works.

    The fewest zones that can, those with the most free CPUs first, ties by id. Shares are multiples
    of ``unit``, the threads of a core, and differ by one unit at the most; a rest that is no whole
    unit goes to the last of the zones. That is what the kubelet's option
    ``distribute-cpus-across-numa`` does for a pod that needs several zones.
    """
    zones = sorted(free, key=lambda zone: (-free[zone], zone))
    units, rest = divmod(count, unit)
    for used in range(1, len(zones) + 1):
        chosen = zones[:used]
        base, more = divmod(units, used)
        shares = {zone: (base + (place < more)) * unit for place, zone in enumerate(chosen)}
        shares[chosen[-1]] += rest
        if all(shares[zone] <= free[zone] for zone in chosen):
            return {zone: share for zone, share in shares.items() if share}
    return {}
