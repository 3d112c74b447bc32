# SPDX-License-Identifier: Apache-2.0
"""Finds the node where room for a pod costs least, and makes it.

Shared by all plugins that preempt; what differs between them is a :class:`VictimPolicy` and how
many nodes are looked at. Rule: docs/reference/scheduling.md#preemption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.kinds.pod import Pod
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.scheduler.decision.decider import decider_of
from koord.controllers.scheduler.framework.diagnosis import availability, counted
from koord.controllers.scheduler.framework.node_rejections import NodeRejections
from koord.controllers.scheduler.framework.plugin import PostFilterResult
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.preemption.disruption_budgets import DisruptionBudgets
from koord.controllers.scheduler.preemption.dry_run import NO_VICTIMS, PreemptionDryRun
from koord.controllers.scheduler.preemption.dry_run_cache import DryRunCache, ShapeOutcomes
from koord.controllers.scheduler.preemption.executor import PreemptionExecutor
from koord.controllers.scheduler.preemption.victims import (
    Candidate,
    VictimPolicy,
    cheapest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from koord.controllers.scheduler.decision.decider import Decider
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.preemption.dry_run import Outcome

NEVER = "not eligible due to preemptionPolicy=Never."
WAITS = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_NODES = "no nodes available"


class CandidateSearch(NamedTuple):
    """What came of a search.

    Attributes:
        candidate: where room costs least; None if nowhere.
        candidates: all that were found, those without violated budgets first.
        refused: by row, why there is no room to be made there; other rows were not looked at.
    """

    candidate: Candidate | None
    candidates: tuple[Candidate, ...]
    refused: Mapping[int, Rejection]


class PreemptionEvaluator:
    """Makes room for pods that fit nowhere.

    Args:
        name: of the plugin, for messages and events.
        handle: of the plugin; to be made in the plugin's ``__init__``.
        policy: whom a pod may preempt.
        most: of so many nodes that might help, how many candidates are enough; None for all.
    """

    def __init__(
        self,
        name: str,
        handle: Handle,
        policy: VictimPolicy | None = None,
        most: Callable[[int], int] | None = None,
    ) -> None:
        self.name = name
        self.policy = policy or VictimPolicy()
        self.budgets = DisruptionBudgets(handle.view(PodDisruptionBudget))
        self.effects = PreemptionExecutor(name, handle)
        self._handle = handle
        self._most = most or (lambda nodes: nodes)
        self._kept = DryRunCache(handle.table, self.budgets)
        handle.view(Pod).on_change(updated=self._pod_updated)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """The whole of a PostFilter: eligibility, search, effects, message."""
        why = self.ineligible(cycle, diagnosis)
        if why:
            return PostFilterResult(message=f"preemption: {why}")
        if not diagnosis.nodes:
            return PostFilterResult(message=f"preemption: {NO_NODES}", clear=True)
        found = self.find(cycle, diagnosis)
        if found.candidate is None:
            return PostFilterResult(message=f"preemption: {self.message(found)}", clear=True)
        self.carry_out(cycle, found.candidate)
        node = self._handle.table.name(found.candidate.row)
        return PostFilterResult(node, success=True, victims=found.candidate.victims)

    def ineligible(self, cycle: Cycle, diagnosis: Diagnosis) -> str:
        """Why a pod may not preempt now; empty if it may."""
        pod = cycle.pod
        if pod.pod.spec.preemption_policy == "Never":
            return NEVER
        row = self._nominated(cycle)
        if row is None:
            return ""
        refused = diagnosis.early or diagnosis.by_row.get(row)
        if refused is not None and refused.unresolvable:
            return ""
        on_row = self._handle.table.pods[row].values()
        return WAITS if any(self.policy.waits_for(pod, other) for other in on_row) else ""

    def find(self, cycle: Cycle, diagnosis: Diagnosis) -> CandidateSearch:
        """Looks for nodes where room can be made; changes nothing.

        Nodes are tried in the order of their names, until there are enough candidates and one of
        them violates no budget.
        """
        decider = decider_of(cycle)
        early = self._early(decider, diagnosis)
        if early is None:
            return CandidateSearch(None, (), {})
        if self.policy.spares_all(cycle.pod, decider.accounts) and not early:
            spared = self._without_victims(cycle, diagnosis)
            if spared is not None:
                return CandidateSearch(None, (), spared)
        rows, bare = self._promising(cycle, diagnosis)
        if not rows:
            return CandidateSearch(None, (), bare)
        run = PreemptionDryRun(self.name, cycle, decider, self.policy, self.budgets, early)
        if run.refused is not None:
            return CandidateSearch(None, (), {})
        generations = None if early else run.generations()
        key = (id(decider), cycle.shape.id, self.policy.key(cycle.pod))
        found = self._search(run, rows, self._kept.shelf(key, generations))
        return found._replace(refused={**bare, **found.refused}) if bare else found

    def _without_victims(self, cycle: Cycle, diagnosis: Diagnosis) -> NodeRejections | None:
        """What is said of rows if the pod may preempt nobody; None where filters must say it."""
        rows, board = diagnosis.resolvable(), cycle.board
        fixed = decider_of(cycle).evaluator.fixed
        if board is None or (board.refused[rows] & fixed).any():
            return None
        return self._no_victims(cycle, rows)

    def candidate(self, cycle: Cycle, row: int) -> Outcome:
        """What it takes to place the pod on one row; changes nothing."""
        run = PreemptionDryRun(self.name, cycle, decider_of(cycle), self.policy, self.budgets)
        return run.rows([row])[row]

    def carry_out(self, cycle: Cycle, candidate: Candidate) -> None:
        """Has the victims deleted; takes the node back from pods that count for less."""
        decider = decider_of(cycle)
        table, pod = self._handle.table, cycle.pod
        displaced = decider.nominations.drop_lower(candidate.row, pod.priority)
        self.effects.begin(pod, table.name(candidate.row), candidate.victims, displaced)

    def message(self, search: CandidateSearch) -> str:
        """Why no room can be made."""
        table = self._handle.table
        counts = counted(search.refused)
        rest = len(table) - len(search.refused)
        if rest > 0:
            counts[NOT_HELPFUL] += rest
        return availability(len(table), counts)

    def _nominated(self, cycle: Cycle) -> int | None:
        row = decider_of(cycle).nominations.row_of(cycle.pod)
        name = cycle.pod.pod.status.nominated_node_name
        return row if row is not None or not name else self._handle.table.row(name)

    def _early(self, decider: Decider, diagnosis: Diagnosis) -> str | None:
        """The PreFilter plugin that refused, empty for none; None if no what-if can help.

        A plugin that makes room by its own rules has done for its own refusal what can be done.
        """
        early = diagnosis.early
        if early is None:
            return ""
        if early.unresolvable or early.error:
            return None
        others = {p.name for p in decider.plugins.post_filter} - {self.name}
        known = {p.name for p in decider.plugins.pre_filter}
        return early.plugin if early.plugin in known - others else None

    def _promising(
        self, cycle: Cycle, diagnosis: Diagnosis
    ) -> tuple[list[int], Mapping[int, Rejection]]:
        """Rows where the absence of pods might help, by name of the node; rows without victims."""
        table = cycle.table
        if diagnosis.early is not None:
            mask = table.open[: table.size].copy()
            if cycle.allowed is not None:
                mask &= cycle.allowed
            rows = np.flatnonzero(mask)
        else:
            rows = diagnosis.resolvable()
        worth = self.policy.rows(cycle.pod)
        if worth is not None and not worth:
            return [], self._no_victims(cycle, rows)
        ordered: list[int] = rows[np.argsort(table.rank[rows])].tolist()
        if worth is None:
            return ordered, {}
        none = Rejection(self.name, (NO_VICTIMS,), unresolvable=True)
        bare: dict[int, Rejection] = dict.fromkeys((r for r in ordered if r not in worth), none)
        return [row for row in ordered if row in worth], bare

    def _no_victims(self, cycle: Cycle, rows: NDArray[np.intp]) -> NodeRejections:
        refused = NodeRejections(cycle.table.size)
        refused.put_all(rows, Rejection(self.name, (NO_VICTIMS,), unresolvable=True))
        return refused

    def _search(
        self, run: PreemptionDryRun, rows: list[int], shelf: ShapeOutcomes
    ) -> CandidateSearch:
        most = self._most(len(rows))
        kept = shelf.outcomes
        uids = {row: tuple(p.uid for p in run.promised(row)) for row in run.claimed}
        promised = {row: those for row, those in uids.items() if those}
        refused: dict[int, Rejection] = {}
        clean: list[Candidate] = []
        over: list[Candidate] = []
        for start in range(0, len(rows), max(most, 1)):
            chunk = rows[start : start + max(most, 1)]
            self._fill(run, chunk, shelf, promised)
            tried = [kept[row] for row in chunk]
            found = [outcome for outcome in tried if type(outcome) is Candidate]
            if len(found) < len(tried):
                refused.update(
                    (r, o) for r, o in zip(chunk, tried, strict=True) if type(o) is Rejection
                )
            for candidate in found:
                (over if candidate.violations else clean).append(candidate)
                if clean and len(clean) + len(over) >= most:
                    break
            else:
                continue
            break
        candidates = (*clean[:most], *over[:most])
        return CandidateSearch(cheapest(candidates) if candidates else None, candidates, refused)

    def _fill(
        self,
        run: PreemptionDryRun,
        rows: list[int],
        shelf: ShapeOutcomes,
        promised: dict[int, tuple[str, ...]],
    ) -> None:
        """Tries the rows that are not known yet, or were promised to others when they were."""
        kept, before = shelf.outcomes, shelf.promised
        if promised or before:
            missing = [r for r in rows if r not in kept or promised.get(r) != before.get(r)]
        else:
            missing = [row for row in rows if row not in kept]
        if missing:
            for row, outcome in run.rows(missing).items():
                shelf.put(row, outcome, promised.get(row, ()))

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        """A pod's start decides which of equals goes first."""
        if old.status.start_time != pod.status.start_time:
            info = self._handle.pod(pod.metadata.uid)
            if info is not None and info.row >= 0:
                self._kept.drop(info.row)
