# SPDX-License-Identifier: Apache-2.0
"""Which CPUs and zone amounts one pod gets of one node, by counts where counts decide.

The rules are those of Koordinator's resource manager; `koord.kernels.numa` spreads amounts and
`koord.kernels.topology` picks CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koord.api.protocol.resources import CPU
from koord.controllers.scheduler.plugins.numa import reasons
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.amounts import MILLI, Table
from koord.controllers.scheduler.plugins.numa.evenly import even_shares
from koord.controllers.scheduler.plugins.numa.offers import PLAIN, Offer
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.numa.request import Binding, Request
from koord.controllers.scheduler.plugins.numa.state import NodeState
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import CpuBinding, ZoneTable
from koord.kernels.topology import BindPolicy, CPUState, ExclusivePolicy, NUMAStrategy, Pick

Zones = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One pod on one node, under one offer.

    Args:
        node: what pods hold there.
        request: what the pod asks for.
        binding: how its CPUs are chosen there.
        offer: what it may use beyond what is plainly free.
    """

    node: NodeState
    request: Request
    binding: Binding
    offer: Offer

    @property
    def plain(self) -> bool:
        """Whether what is left is what was there less what is in use."""
        return self.offer is PLAIN and self.node.machine.zone_ratio <= 1

    def bindable(self) -> dict[int | None, int]:
        """How many CPUs each zone could give under the bind policy."""
        policy = self.binding.policy if self.binding.required else ""
        offer = self.offer
        if not offer.preferred and offer.within is None:
            return self.node.bindable(policy)
        return self.node.count(policy, offer.preferred, offer.within)

    def left(self) -> ZoneTable | None:
        """What zones have left for the pod, not capped by the CPUs that can be bound."""
        offer = self.offer
        left = self.node.left(offer.preferred, offer.reusable)
        if left is None or offer.limits is None:
            return left
        rows = left.amounts()
        _limit(rows, offer.limits)
        return left.frame.table(rows)

    def cpu_binding(self, bindable: Mapping[int | None, int]) -> CpuBinding | None:
        """What the spreading of amounts must know of bound CPUs; None where they are shared."""
        if not self.binding.bound:
            return None
        binding, layout = self.binding, self.node.machine.layout
        exact = binding.required and binding.full_cores
        # Counts do not decide where cores are unequal, or where single threads go first.
        asks = exact and (layout is None or not layout.uniform or bool(self.offer.preferred))
        return CpuBinding(
            needed=self.request.cpus,
            bindable={zone: bindable.get(zone, 0) for zone in self.node.machine.amounts},
            required=binding.required,
            full_cores=binding.full_cores,
            threads_per_core=self.node.machine.threads,
            accepts=self._accepts if asks or self.offer.including else None,
        )

    def allocate(self, affinity: Zones | None) -> Allocation | Refusal:
        """What the pod gets; with an affinity, amounts and CPUs of those zones."""
        bindable = self.bindable() if self.binding.bound else {}
        zones: Mapping[int, Mapping[str, int]] = {}
        if affinity is not None:
            spread = self._spread(affinity, bindable)
            if isinstance(spread, Refusal):
                return spread
            zones = spread
        if not self.binding.bound:
            return Allocation(zones=zones)
        if sum(bindable.values()) < self.request.cpus:
            return reasons.NOT_ENOUGH_CPUS
        picked = self._pick_by_zone(_whole_cpus(zones)) if zones else self._pick_anywhere(bindable)
        if isinstance(picked, Refusal):
            return picked
        if not self.offer.including.issubset(picked):
            return reasons.NOT_ENOUGH_CPUS
        return Allocation(picked, zones, self.request.exclusive)

    def _spread(self, affinity: Zones, bindable: Mapping[int | None, int]) -> Table | Refusal:
        if len(affinity) == 1 and self.plain:
            taken = self._all_of(affinity[0], bindable)
            if taken is not None:
                return taken
        left = self.left()
        if left is None:
            return reasons.NO_ZONE_AMOUNTS
        spread = left.distribute(self.request.amounts, affinity, self.cpu_binding(bindable))
        if spread.insufficient:
            return Refusal(tuple(spread.reasons))
        return spread.by_zone

    def _all_of(self, zone: int, bindable: Mapping[int | None, int]) -> Table | None:
        """Everything from one zone; None where that is not to be had, or not plain to see."""
        machine, binding = self.node.machine, self.binding
        if machine.total is None or zone not in machine.amounts:
            return None
        left = self.node.plain_left(zone)
        names = machine.total.frame.names
        asked = {name: amount for name, amount in self.request.amounts.items() if name in names}
        if any(left.get(name, 0) < amount for name, amount in asked.items()):
            return None
        if binding.bound and bindable.get(zone, 0) < self.request.cpus:
            return None
        return {zone: asked} if asked else {}

    def _accepts(self, counts: dict[int, int] | None) -> bool:
        """Whether real CPUs are found for counts that fit."""
        picked = self._pick_by_zone(counts) if counts else self._pick_anywhere(self.bindable())
        return isinstance(picked, CPUSet) and self.offer.including.issubset(picked)

    def _pick_by_zone(self, counts: Mapping[int, int]) -> CPUSet | Refusal:
        layout = self.node.machine.layout
        cpus = CPUSet()
        for zone in sorted(counts):
            if layout is None or zone not in layout.zone_cpus or not counts[zone]:
                continue
            of_zone = layout.zone_cpus[zone]
            within = of_zone if self.offer.within is None else of_zone & self.offer.within
            pick = self._pick(counts[zone], within)
            if not pick:
                return Refusal((pick.reason,))
            cpus |= pick.cpus
        return cpus if len(cpus) == self.request.cpus else reasons.NOT_ENOUGH_CPUS

    def _pick_anywhere(self, bindable: Mapping[int | None, int]) -> CPUSet | Refusal:
        # Zones chosen here would not heed pods that want zones for themselves.
        alone = self.request.exclusive in ("", ExclusivePolicy.NONE)
        if self.node.machine.strategy == NUMAStrategy.DISTRIBUTE_EVENLY and alone:
            evenly = self._pick_evenly(bindable)
            if evenly is not None:
                return evenly
        pick = self._pick(self.request.cpus, self.offer.within)
        return pick.cpus if pick else Refusal((pick.reason,))

    def _pick_evenly(self, bindable: Mapping[int | None, int]) -> CPUSet | None:
        full = self.binding.full_cores
        unit = self.node.machine.threads if full else 1
        whole = [] if not full or self.binding.required else [self._whole_cores()]
        for counts in (*whole, bindable):
            free = {zone: cpus for zone, cpus in counts.items() if zone is not None}
            shares = even_shares(free, self.request.cpus, unit)
            picked = self._pick_by_zone(shares) if shares else None
            if isinstance(picked, CPUSet):
                return picked
        return None

    def _whole_cores(self) -> dict[int | None, int]:
        binding = Binding(True, BindPolicy.FULL_PCPUS, required=True)
        return Trial(self.node, self.request, binding, self.offer).bindable()

    def _pick(self, count: int, within: CPUSet | None) -> Pick:
        machine = self.node.machine
        return _cpus(self.node).pick(
            count,
            bind=self.binding.policy or BindPolicy.DEFAULT,
            required=self.binding.required,
            exclusive=self.request.exclusive,
            strategy=machine.strategy,
            max_ref_count=machine.max_ref_count,
            reserved=machine.reserved,
            preferred=self.offer.preferred or None,
            within=within,
        )


def _whole_cpus(zones: Mapping[int, Mapping[str, int]]) -> dict[int, int]:
    return {zone: row.get(CPU, 0) // MILLI for zone, row in zones.items()}


def _limit(left: Table, limits: Mapping[int, Mapping[str, int]]) -> None:
    """What a restricted reservation names is had from it alone, in whichever zone it lies."""
    named = {name for row in limits.values() for name in row}
    for zone, row in left.items():
        there = limits.get(zone, {})
        for name in named & row.keys():
            row[name] = min(row[name], there.get(name, 0))


def _cpus(node: NodeState) -> CPUState:
    if node.cpus is None:
        raise ValueError("cpu topology: got none, expected a checked machine")
    return node.cpus
