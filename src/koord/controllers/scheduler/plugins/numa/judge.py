# SPDX-License-Identifier: Apache-2.0
"""Answers for one pod and one row, with everything that stands on the row taken into account.

What was worked out for one node holds for every node that is alike: of the same kind, with the same
CPUs and amounts in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import resources
from koord.base import log
from koord.base.errors import one_line
from koord.controllers.cluster.nodes import CPU
from koord.controllers.scheduler.explain.answer import amount
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.numa import decide, designated, reasons, single
from koord.controllers.scheduler.plugins.numa.allocate import Trial
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.columns import amplified
from koord.controllers.scheduler.plugins.numa.decide import Terms
from koord.controllers.scheduler.plugins.numa.holdings import NAME, Holdings
from koord.controllers.scheduler.plugins.numa.lacking import lacking
from koord.controllers.scheduler.plugins.numa.machine import amplify
from koord.controllers.scheduler.plugins.numa.offers import PLAIN, PLAIN_WAYS, Offer, Ways
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.numa.scoring import allocation_score
from koord.controllers.scheduler.topology.alignment import (
    FREE,
    Affinity,
    Alignment,
    Question,
)
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import Exclusive, Provider, TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.numa.ledger import Ledger
    from koord.controllers.scheduler.plugins.numa.machine import Machine
    from koord.controllers.scheduler.plugins.numa.request import Request
    from koord.controllers.scheduler.plugins.reservation.offer import Offer as Reserved
    from koord.kernels.numa import Scorer

_LOG = log.get("scheduler.numa")
_KEPT = 1 << 15
_MOST_FAULTS = 64
_NO_CPUS = CPUSet()
_NO_TOTALS: tuple[dict[str, int], dict[str, int]] = ({}, {})
_UNALIGNED = Rejection(NAME, reasons.NO_HINTS.reasons)

Zones = tuple[int, ...]


class _Answer:
    """What is known for one request and one state of one kind of node."""

    __slots__ = ("affinity", "found", "refused", "score", "zone")

    def __init__(self) -> None:
        self.refused = False  # no zone will do; why not has not been worked out yet
        self.affinity: Affinity | Rejection | None = None
        self.found: dict[Zones | None, Allocation | Refusal] = {}
        self.score = -1
        self.zone: int | None = None  # the one that serves the pod, where that was found in short


class Judge:
    """Judges rows.

    Args:
        ledger: what nodes are and what pods hold there.
        scorer: of allocations.
        zone_scorer: of sets of zones.
    """

    def __init__(self, ledger: Ledger, scorer: Scorer, zone_scorer: Scorer) -> None:
        self._ledger = ledger
        self._holdings = Holdings(ledger)
        self._scorer = scorer
        self._zone_scorer = zone_scorer
        self._terms: dict[tuple[Request, Machine], Terms | Refusal] = {}
        self._short: dict[tuple[Request, Machine], bool] = {}
        self._impossible: dict[tuple[Request, Machine], Refusal | None] = {}
        self._answers: dict[tuple[Request, Machine, Hashable], _Answer] = {}
        self._faults: tuple[str, ...] = ()

    def terms(self, request: Request, row: int) -> Terms | Refusal:
        """The rules that hold for the pod on a row, or why the two contradict each other."""
        key = (request, self._ledger.state(row).machine)
        terms = self._terms.get(key)
        if terms is None:
            if len(self._terms) >= _KEPT:
                self._terms.clear()
                self._impossible.clear()
                self._short.clear()
            terms = self._terms[key] = decide.terms_of(*key)
            if isinstance(terms, Terms):
                self._impossible[key] = decide.impossible(*key, terms)
                self._short[key] = single.decides(*key, terms)
        return terms

    def refusal(
        self, cycle: Cycle, request: Request, row: int, *, explain: bool = True
    ) -> Refusal | Rejection | None:
        """Why the pod cannot go to a row; None if it can.

        Without ``explain`` the reason is any, and the answer often quicker.
        """
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return terms
        brought = designated.of(cycle)
        if brought is not None:
            found = self._designated(request, row, terms, brought)
            return found if isinstance(found, Refusal) else None
        ways = self._holdings.ways(cycle, row)
        if self._amplified_shortage(cycle, request, row, terms, ways) is not None:
            return reasons.INSUFFICIENT_AMPLIFIED_CPU
        impossible = self._impossible[request, self._ledger.state(row).machine]
        if impossible is not None or terms.idle:
            return impossible
        if terms.policy is not TopologyPolicy.NONE:
            aligned = self._align(cycle, request, row, ways, explain=explain)
            return aligned if isinstance(aligned, Rejection) else None
        found = self._found(request, row, terms, ways, None)
        return found if isinstance(found, Refusal) else None

    def lacks(self, cycle: Cycle, request: Request, row: int) -> list[str]:
        """What a row that refuses the pod has too little of, and by how much."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal) or designated.of(cycle) is not None:
            return []
        ways = self._holdings.ways(cycle, row)
        short = self._amplified_shortage(cycle, request, row, terms, ways)
        if short is not None:
            asked, free = (amount(resources.CPU, milli) for milli in short)
            return [f"{free} of {asked} amplified cpu free"]
        state = self._ledger.state(row)
        if terms.idle or self._impossible[request, state.machine] is not None:
            return []
        return lacking(state, request, terms, ways)

    def question(self, request: Request, row: int) -> Question | Refusal | None:
        """How the pod is to be aligned on a row; None if it is not."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return terms
        if terms.policy is TopologyPolicy.NONE:
            return None
        state = self._ledger.state(row)
        impossible = self._impossible[request, state.machine]
        total = state.machine.total
        if impossible is not None or total is None:
            return impossible or reasons.MISSING_ZONES
        zones = total.frame.zones
        # Nobody else's rule looks at what kind of pods a zone has.
        heeded = terms.exclusive is Exclusive.REQUIRED
        return Question(terms.policy, zones, terms.exclusive, state.statuses() if heeded else {})

    def hints(self, cycle: Cycle, request: Request, row: int) -> Provider:
        """Which sets of zones can serve the pod."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return Provider(failure=terms.reasons[0])
        state, ways = self._ledger.state(row), self._holdings.ways(cycle, row)
        try:
            return decide.hints(state, request, terms, ways, self._zone_scorer)
        except Exception as error:
            # No lack of the node's, and no reason to leave the other nodes unjudged.
            return Provider(failure=self._fault(cycle, row, error))

    def _fault(self, cycle: Cycle, row: int, error: Exception) -> str:
        """What is said of a node that cannot be judged; each cause is logged once."""
        cause = f"{type(error).__name__}: {one_line(str(error))}"
        if cause not in self._faults:
            self._faults = (*self._faults[-_MOST_FAULTS:], cause)
            where = log.fields(node=cycle.table.name(row), pod=cycle.pod.key, error=cause)
            _LOG.error("the zones of a node could not be judged", extra=where, exc_info=error)
        return f"node(s) NUMA resources could not be judged ({cause})"

    def allocate(
        self, cycle: Cycle, request: Request, row: int, affinity: Zones | None
    ) -> Allocation | Refusal:
        """What the pod would get under an affinity, by whichever way works."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return terms
        return self._found(request, row, terms, self._holdings.ways(cycle, row), affinity)

    def choose(
        self, cycle: Cycle, request: Request, row: int, *, explain: bool = True
    ) -> Allocation | Refusal | Rejection:
        """What the pod gets on a row that Filter let pass; empty if it wants nothing of us."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return terms
        brought = designated.of(cycle)
        if brought is not None:
            return self._designated(request, row, terms, brought)
        if terms.idle:
            return Allocation()
        ways = self._holdings.ways(cycle, row)
        affinity: Affinity | Rejection = FREE
        if terms.policy:
            affinity = self._align(cycle, request, row, ways, explain=explain)
        if isinstance(affinity, Rejection):
            return affinity
        chosen = self._holdings.nominated(cycle, row, ways)
        if isinstance(chosen, Refusal):
            return chosen
        found = self._found(request, row, terms, chosen, affinity.zones)
        if isinstance(found, Refusal) and chosen is not ways and chosen.node is None:
            required = any(offer.required for offer in cycle.reservations(row))
            return found if required else reasons.NOMINATED_BUT_UNUSABLE
        return found

    def fits(
        self, cycle: Cycle, request: Request, row: int, reserved: Reserved
    ) -> Refusal | Rejection | None:
        """Why the pod cannot get its CPUs and zones from one reservation; None if it can."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return terms
        ways = self._holdings.ways(cycle, row)
        one = self._holdings.only(cycle, row, reserved, ways)
        if one is None or terms.idle:
            return None
        affinity = self._align(cycle, request, row, ways) if terms.policy else FREE
        if isinstance(affinity, Rejection):
            return affinity
        found = self._found(request, row, terms, one, affinity.zones)
        return found if isinstance(found, Refusal) else None

    def score(self, cycle: Cycle, request: Request, row: int) -> int:
        """0 to 100 for a row where zones count; 0 where nothing can be allocated."""
        terms = self.terms(request, row)
        if isinstance(terms, Refusal):
            return 0
        state = self._ledger.state(row)
        plain = self._plain(cycle, row)
        answer = self._answer(request, row) if plain else _Answer()
        if answer.score >= 0:
            return answer.score
        if plain and answer.zone is not None:
            # Which CPUs of the zone it would be makes no difference.
            trial = Trial(state, request, terms.binding, PLAIN)
            bound = len(state.bound(_NO_CPUS)) if terms.binding.bound else None
            answer.score = allocation_score(self._scorer, trial, (answer.zone,), _NO_TOTALS, bound)
            return answer.score
        found = self.choose(cycle, request, row, explain=False)
        if not isinstance(found, Allocation):
            answer.score = 0
            return 0
        ways = self._holdings.ways(cycle, row)
        chosen = self._holdings.nominated(cycle, row, ways)
        offer = next(iter(ways if isinstance(chosen, Refusal) else chosen))
        trial = Trial(state, request, terms.binding, offer)
        bound = len(state.bound(offer.preferred - found.cpus)) if found.cpus else None
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
        self, cycle: Cycle, request: Request, row: int, ways: Ways, *, explain: bool = True
    ) -> Affinity | Rejection:
        alignment = Alignment.of(cycle)
        if ways is not PLAIN_WAYS or not alignment.alone:
            return alignment.decide(row)
        answer = self._answer(request, row)
        if answer.affinity is None and not answer.refused:
            self._shorten(request, row, answer)
        if answer.affinity is None:
            if answer.refused and not explain:
                return _UNALIGNED
            answer.affinity = alignment.decide(row)
        return answer.affinity

    def _shorten(self, request: Request, row: int, answer: _Answer) -> None:
        state, terms = self._ledger.state(row), self.terms(request, row)
        if not isinstance(terms, Terms) or not self._short[request, state.machine]:
            return
        zone = single.best_zone(state, request, terms, self._zone_scorer)
        alone = terms.policy is TopologyPolicy.SINGLE_NUMA_NODE
        answer.refused = zone is None and alone
        if zone is not None:
            # Under that policy a zone that is the whole machine binds nobody to it.
            free = alone and len(state.machine.amounts) == 1
            answer.affinity = FREE if free else Affinity((zone,))
            answer.zone = None if free else zone

    def _found(
        self, request: Request, row: int, terms: Terms, ways: Ways, affinity: Zones | None
    ) -> Allocation | Refusal:
        state = self._ledger.state(row)
        if ways is not PLAIN_WAYS:
            return decide.allocate(state, request, terms.binding, ways, affinity)
        answer = self._answer(request, row)
        found = answer.found.get(affinity)
        if found is None:
            found = decide.allocate(state, request, terms.binding, ways, affinity)
            answer.found[affinity] = found
        return found

    def _answer(self, request: Request, row: int) -> _Answer:
        state = self._ledger.state(row)
        key = (request, state.machine, state.key())
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _KEPT:
                self._answers.clear()
            answer = self._answers[key] = _Answer()
        return answer

    def _designated(
        self, request: Request, row: int, terms: Terms, brought: Allocation
    ) -> Allocation | Refusal:
        """Exactly what the pod brought, if that is free."""
        offer = Offer(limits=brought.zones or None, within=brought.cpus)
        affinity = tuple(sorted(brought.zones)) or None
        machine = self._ledger.state(row).machine
        if affinity is not None and not machine.amounts.keys() >= set(affinity):
            return reasons.NO_ZONE_AMOUNTS
        impossible = self._impossible[request, machine]
        if impossible is not None:
            return impossible
        trial = Trial(self._ledger.state(row), request, terms.binding, offer)
        found = trial.allocate(affinity)
        if isinstance(found, Allocation) and found.cpus != brought.cpus:
            return reasons.NOT_ENOUGH_CPUS
        return found

    def _plain(self, cycle: Cycle, row: int) -> bool:
        """Whether the row looks to the pod as to any other that asks for the same."""
        alone = Alignment.of(cycle).alone and designated.of(cycle) is None
        return alone and self._holdings.ways(cycle, row) is PLAIN_WAYS

    def _amplified_shortage(
        self, cycle: Cycle, request: Request, row: int, terms: Terms, ways: Ways
    ) -> tuple[int, int] | None:
        """The CPU milli asked and free once bound CPUs count amplified, reservations given back.

        None where that is enough.
        """
        state = self._ledger.state(row)
        ratio, milli = state.machine.node_ratio, request.cpu_milli
        if ratio <= 1 or not milli:
            return None
        table, overlay = cycle.table, cycle.overlay(row)
        requested = int(table.requested[CPU, row])
        if overlay is not None:
            requested -= int(overlay[CPU])
        bound = len(state.bound(ways.base.preferred))
        asked = amplify(milli, ratio) if terms.binding.bound else milli
        free = int(table.allocatable[CPU, row]) - amplified(requested, bound, ratio)
        return (asked, free) if asked > free else None
