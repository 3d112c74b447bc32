# SPDX-License-Identifier: Apache-2.0
"""Whether one pod can go to one row, with what pods and reservations hold there.

What was worked out for one node holds for every node that is alike: of the same kind, with the same
CPUs and amounts in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base import log
from koord.base.errors import one_line
from koord.controllers.cluster.node_table import CPU
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.topology_manager import (
    FREE,
    Alignment,
    AlignmentRequest,
    ZoneAffinity,
)
from koord.controllers.scheduler.plugins.nodenumaresource import designated_allocation, reasons
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.allocator import (
    NUMAAllocator,
    allocate,
)
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.pools import (
    FREE_POOL,
    FREE_POOLS,
    NUMAPool,
    NUMAPools,
)
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.reservation_pools import (
    ReservationPools,
)
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.rules import (
    AllocationRules,
    rules_of,
    static_rejection,
)
from koord.controllers.scheduler.plugins.nodenumaresource.allocation.topology_hints import (
    topology_hints,
)
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation import single_zone
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.score_formula import (
    allocation_score,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import ZoneIds
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import amplify
from koord.controllers.scheduler.plugins.nodenumaresource.state.columns import amplified
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import Exclusive, Provider, TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
        NodeTopology,
    )
    from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import NUMARequest
    from koord.controllers.scheduler.plugins.nodenumaresource.state.cache import NUMACache
    from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
        NodeAllocations,
    )
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )
    from koord.kernels.numa import Scorer

_LOG = log.get("scheduler.numa")
_KEPT = 1 << 15
_MOST_FAULTS = 64
_NO_CPUS = CPUSet()
_NO_TOTALS: tuple[dict[str, int], dict[str, int]] = ({}, {})


class _CachedAnswer:
    """What is known for one request and one state of one kind of node."""

    __slots__ = ("affinity", "allocations", "refused", "score", "zone")

    def __init__(self) -> None:
        self.refused = False  # no zone will do; why not has not been worked out yet
        self.affinity: ZoneAffinity | Rejection | None = None
        self.allocations: dict[ZoneIds | None, NUMAAllocation | Rejection] = {}
        self.score = -1
        self.zone: int | None = None  # the one that serves the pod, where that was found by counts


class NUMANodeEvaluator:
    """Whether one row can take a pod, with what it would get there and the score of that.

    Args:
        cache: what nodes are and what pods hold there.
        scorer: of allocations.
        zone_scorer: of sets of zones.
    """

    def __init__(self, cache: NUMACache, scorer: Scorer, zone_scorer: Scorer) -> None:
        self._cache = cache
        self._reservation_pools = ReservationPools(cache)
        self._scorer = scorer
        self._zone_scorer = zone_scorer
        self._rules: dict[tuple[NUMARequest, NodeTopology], AllocationRules | Rejection] = {}
        self._single_zone: dict[tuple[NUMARequest, NodeTopology], bool] = {}
        self._impossible: dict[tuple[NUMARequest, NodeTopology], Rejection | None] = {}
        self._answers: dict[tuple[NUMARequest, NodeTopology, Hashable], _CachedAnswer] = {}
        self._faults: tuple[str, ...] = ()

    def rules(self, request: NUMARequest, row: int) -> AllocationRules | Rejection:
        """The rules that hold for the pod on a row, or why the two contradict each other."""
        key = (request, self._cache.state(row).topology)
        rules = self._rules.get(key)
        if rules is None:
            if len(self._rules) >= _KEPT:
                self._rules.clear()
                self._impossible.clear()
                self._single_zone.clear()
            rules = self._rules[key] = rules_of(*key)
            if isinstance(rules, AllocationRules):
                self._impossible[key] = static_rejection(*key, rules)
                self._single_zone[key] = single_zone.is_applicable(*key, rules)
        return rules

    def rejection(
        self, cycle: Cycle, request: NUMARequest, row: int, *, explain: bool = True
    ) -> Rejection | None:
        """Why the pod cannot go to a row; None if it can.

        Without ``explain`` the reason is any, and the answer often quicker.
        """
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return rules
        designated = designated_allocation.of(cycle)
        if designated is not None:
            kept = self._designated(request, row, rules, designated)
            return kept if isinstance(kept, Rejection) else None
        numa_pools = self._reservation_pools.numa_pools(cycle, row)
        if self.amplified_shortage(cycle, request, row, rules, numa_pools) is not None:
            return reasons.INSUFFICIENT_AMPLIFIED_CPU
        impossible = self._impossible[request, self._cache.state(row).topology]
        if impossible is not None or rules.idle:
            return impossible
        if rules.policy is not TopologyPolicy.NONE:
            aligned = self._align(cycle, request, row, numa_pools, explain=explain)
            return aligned if isinstance(aligned, Rejection) else None
        allocation = self._cached_allocation(request, row, rules, numa_pools, None)
        return allocation if isinstance(allocation, Rejection) else None

    def static_rejection(self, request: NUMARequest, row: int) -> Rejection | None:
        """Why a row cannot take the pod whatever is free there; known after :meth:`rules`."""
        return self._impossible[request, self._cache.state(row).topology]

    def state(self, row: int) -> NodeAllocations:
        """What pods hold of a row."""
        return self._cache.state(row)

    def numa_pools(self, cycle: Cycle, row: int) -> NUMAPools:
        """From what the pod may allocate on a row."""
        return self._reservation_pools.numa_pools(cycle, row)

    def alignment_request(
        self, request: NUMARequest, row: int
    ) -> AlignmentRequest | Rejection | None:
        """How the pod is to be aligned on a row; None if it is not."""
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return rules
        if rules.policy is TopologyPolicy.NONE:
            return None
        state = self._cache.state(row)
        impossible = self._impossible[request, state.topology]
        total = state.topology.total
        if impossible is not None or total is None:
            return impossible or reasons.MISSING_ZONES
        zones = total.frame.zones
        # Nobody else's rule looks at what kind of pods a zone has.
        heeded = rules.exclusive is Exclusive.REQUIRED
        return AlignmentRequest(
            rules.policy, zones, rules.exclusive, state.statuses() if heeded else {}
        )

    def topology_hints(self, cycle: Cycle, request: NUMARequest, row: int) -> Provider:
        """Which sets of zones can serve the pod."""
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return Provider(failure=rules.reasons[0])
        state, numa_pools = self._cache.state(row), self._reservation_pools.numa_pools(cycle, row)
        try:
            return topology_hints(state, request, rules, numa_pools, self._zone_scorer)
        except Exception as error:
            # No fault of the node's, and no reason to leave the other nodes out.
            return Provider(failure=self._log_failure(cycle, row, error))

    def _log_failure(self, cycle: Cycle, row: int, error: Exception) -> str:
        """The reason of a node whose zones could not be evaluated; each cause is logged once."""
        cause = f"{type(error).__name__}: {one_line(str(error))}"
        if cause not in self._faults:
            self._faults = (*self._faults[-_MOST_FAULTS:], cause)
            where = log.fields(node=cycle.table.name(row), pod=cycle.pod.key, error=cause)
            _LOG.error("the zones of a node could not be judged", extra=where, exc_info=error)
        return f"node(s) NUMA resources could not be judged ({cause})"

    def allocate(
        self, cycle: Cycle, request: NUMARequest, row: int, affinity: ZoneIds | None
    ) -> NUMAAllocation | Rejection:
        """What the pod would get under an affinity, from the first pool that serves it."""
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return rules
        return self._cached_allocation(
            request, row, rules, self._reservation_pools.numa_pools(cycle, row), affinity
        )

    def choose(
        self, cycle: Cycle, request: NUMARequest, row: int, *, explain: bool = True
    ) -> NUMAAllocation | Rejection:
        """What the pod gets on a row that Filter let pass; empty if it wants nothing of us."""
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return rules
        designated = designated_allocation.of(cycle)
        if designated is not None:
            return self._designated(request, row, rules, designated)
        if rules.idle:
            return NUMAAllocation()
        numa_pools = self._reservation_pools.numa_pools(cycle, row)
        affinity: ZoneAffinity | Rejection = FREE
        if rules.policy:
            affinity = self._align(cycle, request, row, numa_pools, explain=explain)
        if isinstance(affinity, Rejection):
            return affinity
        chosen = self._reservation_pools.nominated(cycle, row, numa_pools)
        if isinstance(chosen, Rejection):
            return chosen
        found = self._cached_allocation(request, row, rules, chosen, affinity.zones)
        if isinstance(found, Rejection) and chosen is not numa_pools and chosen.node is None:
            required = any(matched.required for matched in cycle.reservations(row))
            return found if required else reasons.NOMINATED_BUT_UNUSABLE
        return found

    def fits(
        self, cycle: Cycle, request: NUMARequest, row: int, matched: MatchedReservation
    ) -> Rejection | None:
        """Why the pod cannot get its CPUs and zones from one reservation; None if it can."""
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return rules
        numa_pools = self._reservation_pools.numa_pools(cycle, row)
        one = self._reservation_pools.only(cycle, row, matched, numa_pools)
        if one is None or rules.idle:
            return None
        affinity = self._align(cycle, request, row, numa_pools) if rules.policy else FREE
        if isinstance(affinity, Rejection):
            return affinity
        allocation = self._cached_allocation(request, row, rules, one, affinity.zones)
        return allocation if isinstance(allocation, Rejection) else None

    def score(self, cycle: Cycle, request: NUMARequest, row: int) -> int:
        """0 to 100 for a row where zones count; 0 where nothing can be allocated."""
        rules = self.rules(request, row)
        if isinstance(rules, Rejection):
            return 0
        state = self._cache.state(row)
        plain = self._plain(cycle, row)
        answer = self._answer(request, row) if plain else _CachedAnswer()
        if answer.score >= 0:
            return answer.score
        if plain and answer.zone is not None:
            # Which CPUs of the zone it would be makes no difference.
            trial = NUMAAllocator(state, request, rules.binding, FREE_POOL)
            bound = len(state.bound(_NO_CPUS)) if rules.binding.bound else None
            answer.score = allocation_score(self._scorer, trial, (answer.zone,), _NO_TOTALS, bound)
            return answer.score
        found = self.choose(cycle, request, row, explain=False)
        if not isinstance(found, NUMAAllocation):
            answer.score = 0
            return 0
        numa_pools = self._reservation_pools.numa_pools(cycle, row)
        chosen = self._reservation_pools.nominated(cycle, row, numa_pools)
        pool = next(iter(numa_pools if isinstance(chosen, Rejection) else chosen))
        trial = NUMAAllocator(state, request, rules.binding, pool)
        bound = len(state.bound(pool.preferred - found.cpus)) if found.cpus else None
        totals = self._totals(cycle, row)
        score = allocation_score(self._scorer, trial, found.zones, totals, bound)
        if found.zones:
            answer.score = score
        return score

    def _totals(self, cycle: Cycle, row: int) -> tuple[dict[str, int], dict[str, int]]:
        table, overlay = cycle.table, cycle.overlay(row)
        at = {name: table.resource(name) for name in self._scorer.weights}
        requested = {name: int(table.requested[index, row]) for name, index in at.items()}
        if overlay is not None:
            for name, index in at.items():
                requested[name] -= int(overlay[index]) if index < len(overlay) else 0
        return requested, {name: int(table.allocatable[index, row]) for name, index in at.items()}

    def _align(
        self,
        cycle: Cycle,
        request: NUMARequest,
        row: int,
        numa_pools: NUMAPools,
        *,
        explain: bool = True,
    ) -> ZoneAffinity | Rejection:
        alignment = Alignment.of(cycle)
        if numa_pools is not FREE_POOLS or not alignment.alone:
            return alignment.decide(row)
        answer = self._answer(request, row)
        if answer.affinity is None and not answer.refused:
            self._try_single_zone(request, row, answer)
        if answer.affinity is None:
            if answer.refused and not explain:
                return reasons.NO_HINTS
            answer.affinity = alignment.decide(row)
        return answer.affinity

    def _try_single_zone(self, request: NUMARequest, row: int, answer: _CachedAnswer) -> None:
        state, rules = self._cache.state(row), self.rules(request, row)
        if not isinstance(rules, AllocationRules) or not self._single_zone[request, state.topology]:
            return
        zone = single_zone.best_zone(state, request, rules, self._zone_scorer)
        alone = rules.policy is TopologyPolicy.SINGLE_NUMA_NODE
        answer.refused = zone is None and alone
        if zone is not None:
            # Under that policy a zone that is the whole machine binds nobody to it.
            free = alone and len(state.topology.amounts) == 1
            answer.affinity = FREE if free else ZoneAffinity((zone,))
            answer.zone = None if free else zone

    def _cached_allocation(
        self,
        request: NUMARequest,
        row: int,
        rules: AllocationRules,
        numa_pools: NUMAPools,
        affinity: ZoneIds | None,
    ) -> NUMAAllocation | Rejection:
        state = self._cache.state(row)
        if numa_pools is not FREE_POOLS:
            return allocate(state, request, rules.binding, numa_pools, affinity)
        answer = self._answer(request, row)
        allocation = answer.allocations.get(affinity)
        if allocation is None:
            allocation = allocate(state, request, rules.binding, numa_pools, affinity)
            answer.allocations[affinity] = allocation
        return allocation

    def _answer(self, request: NUMARequest, row: int) -> _CachedAnswer:
        state = self._cache.state(row)
        key = (request, state.topology, state.key())
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _KEPT:
                self._answers.clear()
            answer = self._answers[key] = _CachedAnswer()
        return answer

    def _designated(
        self, request: NUMARequest, row: int, rules: AllocationRules, designated: NUMAAllocation
    ) -> NUMAAllocation | Rejection:
        """Exactly what the pod brought, if that is free."""
        pool = NUMAPool(limits=designated.zones or None, within=designated.cpus)
        affinity = tuple(sorted(designated.zones)) or None
        topology = self._cache.state(row).topology
        if affinity is not None and not topology.amounts.keys() >= set(affinity):
            return reasons.NO_ZONE_AMOUNTS
        impossible = self._impossible[request, topology]
        if impossible is not None:
            return impossible
        trial = NUMAAllocator(self._cache.state(row), request, rules.binding, pool)
        allocation = trial.allocate(affinity)
        if isinstance(allocation, NUMAAllocation) and allocation.cpus != designated.cpus:
            return reasons.NOT_ENOUGH_CPUS
        return allocation

    def _plain(self, cycle: Cycle, row: int) -> bool:
        """Whether the row looks to the pod as to any other that asks for the same."""
        alone = Alignment.of(cycle).alone and designated_allocation.of(cycle) is None
        return alone and self._reservation_pools.numa_pools(cycle, row) is FREE_POOLS

    def amplified_shortage(
        self,
        cycle: Cycle,
        request: NUMARequest,
        row: int,
        rules: AllocationRules,
        numa_pools: NUMAPools,
    ) -> tuple[int, int] | None:
        """The CPU milli asked and free once bound CPUs count amplified, reservations given back.

        None where that is enough.
        """
        state = self._cache.state(row)
        ratio, milli = state.topology.node_ratio, request.cpu_milli
        if ratio <= 1 or not milli:
            return None
        table, overlay = cycle.table, cycle.overlay(row)
        requested = int(table.requested[CPU, row])
        if overlay is not None:
            requested -= int(overlay[CPU])
        bound = len(state.bound(numa_pools.base.preferred))
        requested_amounts = amplify(milli, ratio) if rules.binding.bound else milli
        free = int(table.allocatable[CPU, row]) - amplified(requested, bound, ratio)
        return (requested_amounts, free) if requested_amounts > free else None
