# SPDX-License-Identifier: Apache-2.0
"""Decides where a pod goes: filters, scores, the best node; and holds it there.

Synchronous and free of I/O: the scheduling loop, explain, simulations and preemption's dry runs
all call this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.controllers.scheduler.framework import select
from koord.controllers.scheduler.framework.claims import Claims
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.plugin import idle_at
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.verdicts import Evaluator, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.accounts import Accounts


class Plugins(NamedTuple):
    """The plugins of one profile by extension point, in order; scores with their weights."""

    pre_enqueue: Sequence[Any] = ()
    pre_filter: Sequence[Any] = ()
    filter: Sequence[Any] = ()
    post_filter: Sequence[Any] = ()
    pre_score: Sequence[Any] = ()
    score: Sequence[tuple[Any, int]] = ()
    reserve: Sequence[Any] = ()
    permit: Sequence[Any] = ()
    pre_bind: Sequence[Any] = ()
    bind: Sequence[Any] = ()
    post_bind: Sequence[Any] = ()

    def taking_part(self, shape: PodShape) -> Plugins:
        """The same without those that have nothing to do for pods of a shape for now.

        Filter and Score stay whole: the evaluator finds out by itself.
        """
        idle = {id(plugin): idle_at(plugin, shape) for plugin in self._of_points(_LEFT_OUT)}
        return self._replace(
            **{
                point: tuple(p for p in getattr(self, point) if point not in idle[id(p)])
                for point in _LEFT_OUT
            }
        )

    def _of_points(self, points: Sequence[str]) -> list[Any]:
        return [plugin for point in points for plugin in getattr(self, point)]


# Points at which plugins that have nothing to do are left out.
_LEFT_OUT = ("pre_filter", "reserve", "permit", "pre_bind", "post_bind")
# How many shapes it is remembered of who takes part.
_SHAPES = 4096


class Decision(NamedTuple):
    """What came of an attempt: a row, or why there is none."""

    cycle: Cycle
    row: int
    diagnosis: Diagnosis | None = None


# Whose rejection it is that a pod's requests cannot be meant: what wakes it wakes such a pod.
_FIT = "NodeResourcesFit"
# What nodes are told that a PreFilter's choice leaves out.
EXCLUDED = Rejection("", ("node(s) didn't satisfy plugin(s) [PreFilter]",), unresolvable=True)


class Nominations:
    """Pods that preemption made room for: other pods must leave them that room.

    The queue's nominator has these methods; this one knows of none.
    """

    @property
    def empty(self) -> bool:
        """Whether no pod is nominated anywhere."""
        return True

    def on_rows(self, pod: PodInfo) -> Mapping[int, Sequence[PodInfo]]:
        """By row, pods nominated there whose priority is not below the pod's, without itself."""
        return {}

    def row_of(self, pod: PodInfo) -> int | None:
        """The row that the pod itself is nominated to."""
        return None

    def drop_lower(self, row: int, priority: int) -> Sequence[PodInfo]:
        """Takes back the nominations of a row to pods below a priority; gives those pods."""
        return ()


class Decider:
    """Places pods of one profile.

    Args:
        table: the nodes.
        accounts: who counts where.
        plugins: of the profile.
        nominations: see :class:`Nominations`.
        together: see :class:`Evaluator`.
    """

    def __init__(
        self,
        table: NodeTable,
        accounts: Accounts,
        plugins: Plugins,
        nominations: Nominations | None = None,
        together: bool = True,
    ) -> None:
        self.table = table
        self.accounts = accounts
        self.plugins = plugins
        self.nominations = nominations or Nominations()
        self.evaluator = Evaluator(table, plugins.filter, plugins.score, together=together)
        # With the table's turns when they were asked.
        self._taking_part: dict[int, tuple[int, Plugins]] = {}

    def taking_part(self, shape: PodShape) -> Plugins:
        """The plugins that have anything to do for pods of a shape as the cluster is now."""
        turns = self.table.turns
        known = self._taking_part.get(shape.id)
        if known is not None and known[0] == turns:
            return known[1]
        if len(self._taking_part) >= _SHAPES:
            self._taking_part.clear()
        found = self.plugins.taking_part(shape)
        self._taking_part[shape.id] = (turns, found)
        return found

    def decide(self, pod: PodInfo, members: tuple[PodInfo, ...] = ()) -> Decision:
        """The best node for a pod, nothing changed."""
        cycle = Cycle(pod, self.table)
        cycle.members = members
        return self.attempt(cycle)

    def attempt(self, cycle: Cycle) -> Decision:
        """:meth:`decide` with a cycle of the caller's."""
        refused = self._pre_filter(cycle)
        if refused is not None:
            return self._failed(cycle, refused)
        if cycle.preferred:
            row = self._preferred(cycle)
            if row >= 0:
                return Decision(cycle, row)
        verdict = self.evaluator.verdict(cycle)
        mask = self._mask(cycle, verdict)
        if not (verdict.board.feasible if mask is None else mask.any()):
            return self._nowhere(cycle, verdict)
        claims: Claims | None = None
        if not self.nominations.empty:
            claims = self._claims(cycle)
            own = self.nominations.row_of(cycle.pod)
            if own is not None and self._takes(verdict, mask, own, claims):
                return Decision(cycle, own)
        if self.plugins.pre_score:
            feasible = np.flatnonzero(verdict.feasible if mask is None else mask)
            for plugin in self.plugins.pre_score:
                plugin.pre_score(cycle, feasible)
        return self._best(cycle, verdict, mask, claims)

    def _preferred(self, cycle: Cycle) -> int:
        """The first preferred row that the pod may go to, -1 for none."""
        claims = self._claims(cycle)
        for row in cycle.preferred:
            if cycle.allowed is not None and not cycle.allowed[row]:
                continue
            if self.evaluator.check(cycle, row) is None and claims.refusal(row) is None:
                return row
        return -1

    def _takes(
        self, verdict: Verdict, mask: NDArray[np.bool_] | None, row: int, claims: Claims
    ) -> bool:
        """Whether a row is feasible, the pods that are nominated to it included."""
        fits = bool((verdict.feasible if mask is None else mask)[row])
        return fits and claims.refusal(row) is None

    def _best(
        self,
        cycle: Cycle,
        verdict: Verdict,
        mask: NDArray[np.bool_] | None,
        claims: Claims | None,
    ) -> Decision:
        """The best of the rows that stay feasible with the pods nominated to them, if any is."""
        row = select.best(cycle, verdict, self.plugins.score, mask)
        if claims is None:
            return Decision(cycle, row) if row >= 0 else self._nowhere(cycle, verdict)
        if claims.refusal(row) is not None:
            # Where the best is promised away others often are too.
            mask = verdict.feasible[: self.table.size] if mask is None else mask
            mask[claims.ask_all(mask)] = False
            row = select.best(cycle, verdict, self.plugins.score, mask)
        while row >= 0:
            if claims.refusal(row) is None:
                return Decision(cycle, row)
            if mask is None:
                mask = verdict.feasible[: self.table.size]
            mask[row] = False
            row = select.best(cycle, verdict, self.plugins.score, mask)
        return self._nowhere(cycle, verdict, claims)

    def survey(self, cycle: Cycle) -> tuple[NDArray[np.intp], Diagnosis]:
        """All rows that a pod may go to, ascending, and why not to the others."""
        refused = self._pre_filter(cycle)
        if refused is not None:
            return np.zeros(0, np.intp), Diagnosis(len(self.table), refused, {})
        verdict = self.evaluator.verdict(cycle)
        diagnosis = self._nowhere(cycle, verdict).diagnosis
        assert diagnosis is not None
        mask = self._mask(cycle, verdict)
        rows = np.flatnonzero(verdict.feasible[: self.table.size] if mask is None else mask)
        return rows, diagnosis

    def try_row(self, cycle: Cycle, row: int) -> Decision:
        """A decision for one given row; cheap where the pod is of a shape seldom seen."""
        refused = self._pre_filter(cycle)
        if refused is not None:
            return self._failed(cycle, refused)
        if cycle.allowed is not None and not cycle.allowed[row]:
            refused = EXCLUDED
        else:
            refused = self.evaluator.check(cycle, row)
        if refused is None:
            refused = self._claims(cycle).refusal(row)
        if refused is None:
            return Decision(cycle, row)
        return Decision(cycle, -1, Diagnosis(len(self.table), None, {row: refused}))

    def assume(self, decision: Decision) -> Rejection | None:
        """Reserves on the chosen node, counts the pod; undone if a plugin refuses or fails."""
        cycle, row = decision.cycle, decision.row
        # Whoever may have chosen something is to take it back, though it has nothing to do by then.
        cycle.taking_part = self.taking_part(cycle.shape)
        try:
            refused = self._reserve(cycle, row)
        except Exception:
            self._unreserve(cycle, row)
            raise
        if refused is not None:
            self._unreserve(cycle, row)
            return refused
        self.accounts.add(row, cycle.pod)
        return None

    def _reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        assert cycle.taking_part is not None
        for plugin in cycle.taking_part.reserve:
            refused: Rejection | None = plugin.reserve(cycle, row)
            if refused is not None:
                return refused
        return None

    def retract(self, decision: Decision) -> None:
        """Takes back :meth:`assume`; the node may have gone meanwhile, and its pods with it."""
        if self.accounts.get(decision.cycle.pod.uid) is decision.cycle.pod:
            self.accounts.drop(decision.cycle.pod)
        self._unreserve(decision.cycle, decision.row)

    def _unreserve(self, cycle: Cycle, row: int) -> None:
        taking_part = cycle.taking_part or self.taking_part(cycle.shape)
        for plugin in reversed(taking_part.reserve):
            plugin.unreserve(cycle, row)

    def _mask(self, cycle: Cycle, verdict: Verdict) -> NDArray[np.bool_] | None:
        """By row, whether the pod may go there; None where that is what the verdict says."""
        if cycle.allowed is None:
            return None
        mask: NDArray[np.bool_] = verdict.feasible[: self.table.size] & cycle.allowed
        return mask

    def _pre_filter(self, cycle: Cycle) -> Rejection | None:
        cycle.decider = self
        if cycle.shape.problem is not None:
            return Rejection(_FIT, (cycle.shape.problem,), unresolvable=True)
        cycle.narrowed = ()
        for plugin in self.taking_part(cycle.shape).pre_filter:
            before = cycle.allowed
            refused: Rejection | None = plugin.pre_filter(cycle)
            if refused is not None:
                return refused
            if cycle.allowed is not before:
                cycle.narrowed += (plugin.name,)
        if cycle.allowed is not None and not cycle.allowed.any():
            return Rejection("", ("node(s) didn't satisfy plugin(s)",), unresolvable=True)
        return None

    def _claims(self, cycle: Cycle) -> Claims:
        """Who is nominated where; pods of one job leave each other no room."""
        claimed = self.nominations.on_rows(cycle.pod)
        if claimed and cycle.members:
            job = {member.uid for member in cycle.members}
            others = {row: [p for p in pods if p.uid not in job] for row, pods in claimed.items()}
            claimed = {row: pods for row, pods in others.items() if pods}
        return Claims(cycle, claimed, self.evaluator, self.accounts)

    def _failed(self, cycle: Cycle, early: Rejection) -> Decision:
        return Decision(cycle, -1, Diagnosis(len(self.table), early, {}, cycle.narrowed))

    def _nowhere(self, cycle: Cycle, verdict: Verdict, claims: Claims | None = None) -> Decision:
        by_row = self.evaluator.refusals(cycle, verdict)
        if (claims and claims.by_row) or cycle.allowed is not None:
            by_row = by_row.copy()
        if claims:
            kept = [(row, claims.refusal(row)) for row in claims.by_row if row not in by_row]
            said = {row: refused for row, refused in kept if refused is not None}
            by_row.put(np.fromiter(said, np.intp, len(said)), said.values())
        if cycle.allowed is not None:
            excluded = self.table.open[: self.table.size] & ~cycle.allowed
            by_row.fill(excluded, EXCLUDED)
        return Decision(cycle, -1, Diagnosis(len(self.table), None, by_row, cycle.narrowed))
