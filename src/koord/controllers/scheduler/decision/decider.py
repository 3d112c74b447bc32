# SPDX-License-Identifier: Apache-2.0
"""Decides where a pod goes: filters, scores, the best node; and holds it there.

Synchronous and free of I/O: the scheduling loop, explain, simulations and preemption's dry runs
all call this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.feasibility import best_node
from koord.controllers.scheduler.framework.feasibility.cache import FeasibilityCache
from koord.controllers.scheduler.framework.feasibility.nominated_pods import NominatedPodsCheck
from koord.controllers.scheduler.framework.rejection import Rejection, left_out, none_left
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry
    from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins


class Decision(NamedTuple):
    """What came of an attempt: a row, or why there is none."""

    cycle: Cycle
    row: int
    diagnosis: Diagnosis | None = None


# Whose rejection it is that a pod's requests cannot be meant: what wakes it wakes such a pod.
_FIT = "NodeResourcesFit"


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
        together: see :class:`FeasibilityCache`.
    """

    def __init__(
        self,
        table: NodeTable,
        accounts: Accounts,
        plugins: ProfilePlugins,
        nominations: Nominations | None = None,
        together: bool = True,
    ) -> None:
        self.table = table
        self.accounts = accounts
        self.plugins = plugins
        self.nominations = nominations or Nominations()
        self.evaluator = FeasibilityCache(
            table, plugins.filter, plugins.score, together=together, plugins=plugins
        )
        self._participants = self.evaluator.participants

    def participants(self, shape: PodShape) -> ProfilePlugins:
        """The plugins that have anything to do for pods of a shape as the cluster is now."""
        return self._participants.of(shape).plugins

    def decide(self, pod: PodInfo, members: tuple[PodInfo, ...] = ()) -> Decision:
        """The best node for a pod, nothing changed."""
        cycle = Cycle(pod, self.table)
        cycle.members = members
        return self.attempt(cycle)

    def attempt(self, cycle: Cycle) -> Decision:
        """:meth:`decide` with a cycle of the caller's."""
        rejection = self._pre_filter(cycle)
        if rejection is not None:
            return self._failed(cycle, rejection)
        if cycle.preferred:
            row = self._preferred(cycle)
            if row >= 0:
                return Decision(cycle, row)
        sources = self.evaluator.sources(cycle)
        unpromised = self.nominations.empty
        if unpromised and not self.plugins.pre_score:
            row = self.evaluator.best_at_once(cycle, sources)
            if row >= 0:
                return Decision(cycle, row)
        entry = self.evaluator.entry(cycle, sources)
        mask = self._mask(cycle, entry)
        if not (entry.board.feasible if mask is None else mask.any()):
            return self._nowhere(cycle, entry)
        nominated: NominatedPodsCheck | None = None
        if not unpromised:
            nominated = self._nominated_pods(cycle)
            own = self.nominations.row_of(cycle.pod)
            if own is not None and self._takes(entry, mask, own, nominated):
                return Decision(cycle, own)
        if self.plugins.pre_score:
            feasible = np.flatnonzero(entry.feasible if mask is None else mask)
            for plugin in self.plugins.pre_score:
                plugin.pre_score(cycle, feasible)
        return self._best(cycle, entry, mask, nominated)

    def _preferred(self, cycle: Cycle) -> int:
        """The first preferred row that the pod may go to, -1 for none."""
        nominated = self._nominated_pods(cycle)
        for row in cycle.preferred:
            if cycle.allowed is not None and not cycle.allowed[row]:
                continue
            if self.evaluator.check(cycle, row) is None and nominated.rejection(row) is None:
                return row
        return -1

    def _takes(
        self,
        entry: FeasibilityEntry,
        mask: NDArray[np.bool_] | None,
        row: int,
        nominated: NominatedPodsCheck,
    ) -> bool:
        """Whether a row is feasible, the pods that are nominated to it included."""
        fits = bool((entry.feasible if mask is None else mask)[row])
        return fits and nominated.rejection(row) is None

    def _best(
        self,
        cycle: Cycle,
        entry: FeasibilityEntry,
        mask: NDArray[np.bool_] | None,
        nominated: NominatedPodsCheck | None,
    ) -> Decision:
        """The best of the rows that stay feasible with the pods nominated to them, if any is."""
        row = best_node.best(cycle, entry, self.plugins.score, mask)
        if nominated is None:
            return Decision(cycle, row) if row >= 0 else self._nowhere(cycle, entry)
        if nominated.rejection(row) is not None:
            # Where the best is promised away others often are too.
            mask = entry.feasible[: self.table.size] if mask is None else mask
            mask[nominated.ask_all(mask)] = False
            row = best_node.best(cycle, entry, self.plugins.score, mask)
        while row >= 0:
            if nominated.rejection(row) is None:
                return Decision(cycle, row)
            if mask is None:
                mask = entry.feasible[: self.table.size]
            mask[row] = False
            row = best_node.best(cycle, entry, self.plugins.score, mask)
        return self._nowhere(cycle, entry, nominated)

    def survey(self, cycle: Cycle) -> tuple[NDArray[np.intp], Diagnosis]:
        """All rows that a pod may go to, ascending, and why not to the others."""
        rejection = self._pre_filter(cycle)
        if rejection is not None:
            return np.zeros(0, np.intp), Diagnosis(len(self.table), rejection, {})
        entry = self.evaluator.entry(cycle)
        diagnosis = self._nowhere(cycle, entry).diagnosis
        assert diagnosis is not None
        mask = self._mask(cycle, entry)
        rows = np.flatnonzero(entry.feasible[: self.table.size] if mask is None else mask)
        return rows, diagnosis

    def try_row(self, cycle: Cycle, row: int) -> Decision:
        """A decision for one given row; cheap where the pod is of a shape seldom seen."""
        rejection = self._pre_filter(cycle)
        if rejection is not None:
            return self._failed(cycle, rejection)
        if cycle.allowed is not None and not cycle.allowed[row]:
            rejection = left_out(cycle.narrowed)
        else:
            rejection = self.evaluator.check(cycle, row)
        if rejection is None:
            rejection = self._nominated_pods(cycle).rejection(row)
        if rejection is None:
            return Decision(cycle, row)
        return Decision(cycle, -1, Diagnosis(len(self.table), None, {row: rejection}))

    def assume(self, decision: Decision) -> Rejection | None:
        """Reserves on the chosen node, counts the pod; undone if a plugin refuses or fails."""
        cycle, row = decision.cycle, decision.row
        # Whoever may have chosen something is to take it back, though it has nothing to do by then.
        cycle.participants = self._participants.of(cycle.shape).plugins
        try:
            rejection = self._reserve(cycle, row)
        except Exception:
            self._unreserve(cycle, row)
            raise
        if rejection is not None:
            self._unreserve(cycle, row)
            return rejection
        self.accounts.add(row, cycle.pod)
        return None

    def _reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        assert cycle.participants is not None
        for plugin in cycle.participants.reserve:
            rejection: Rejection | None = plugin.reserve(cycle, row)
            if rejection is not None:
                return rejection
        return None

    def retract(self, decision: Decision) -> None:
        """Takes back :meth:`assume`; the node may have gone meanwhile, and its pods with it."""
        if self.accounts.get(decision.cycle.pod.uid) is decision.cycle.pod:
            self.accounts.drop(decision.cycle.pod)
        self._unreserve(decision.cycle, decision.row)

    def _unreserve(self, cycle: Cycle, row: int) -> None:
        participants = cycle.participants or self.participants(cycle.shape)
        for plugin in reversed(participants.reserve):
            plugin.unreserve(cycle, row)

    def _mask(self, cycle: Cycle, entry: FeasibilityEntry) -> NDArray[np.bool_] | None:
        """By row, whether the pod may go there; None where that is what the entry says."""
        if cycle.allowed is None:
            return None
        mask: NDArray[np.bool_] = entry.feasible[: self.table.size] & cycle.allowed
        return mask

    def _pre_filter(self, cycle: Cycle) -> Rejection | None:
        cycle.decider = self
        if cycle.shape.problem is not None:
            return Rejection(_FIT, (cycle.shape.problem,), unresolvable=True)
        cycle.narrowed = ()
        for plugin in self._participants.of(cycle.shape).plugins.pre_filter:
            before = cycle.allowed
            rejection: Rejection | None = plugin.pre_filter(cycle)
            if rejection is not None:
                return rejection
            if cycle.allowed is not None and cycle.allowed is not before:
                cycle.narrowed = tuple(sorted({*cycle.narrowed, plugin.name}))
                if not cycle.unknown and not cycle.allowed.any():
                    return none_left(cycle.narrowed)
        return None

    def _nominated_pods(self, cycle: Cycle) -> NominatedPodsCheck:
        """Who is nominated where; pods of one job leave each other no room."""
        pods_by_row = self.nominations.on_rows(cycle.pod)
        if pods_by_row and cycle.members:
            job = {member.uid for member in cycle.members}
            others = {
                row: [p for p in pods if p.uid not in job] for row, pods in pods_by_row.items()
            }
            pods_by_row = {row: pods for row, pods in others.items() if pods}
        return NominatedPodsCheck(cycle, pods_by_row, self.evaluator, self.accounts)

    def _failed(self, cycle: Cycle, early: Rejection) -> Decision:
        return Decision(cycle, -1, Diagnosis(len(self.table), early, {}, cycle.narrowed))

    def _nowhere(
        self, cycle: Cycle, entry: FeasibilityEntry, nominated: NominatedPodsCheck | None = None
    ) -> Decision:
        by_row = self.evaluator.rejections(cycle, entry)
        if (nominated and nominated.by_row) or cycle.allowed is not None:
            by_row = by_row.copy()
        if nominated:
            kept = [
                (row, nominated.rejection(row)) for row in nominated.by_row if row not in by_row
            ]
            rejected = {row: rejection for row, rejection in kept if rejection is not None}
            by_row.put(np.fromiter(rejected, np.intp, len(rejected)), rejected.values())
        if cycle.allowed is not None:
            excluded = self.table.open[: self.table.size] & ~cycle.allowed
            by_row.fill(excluded, left_out(cycle.narrowed))
        return Decision(cycle, -1, Diagnosis(len(self.table), None, by_row, cycle.narrowed))


def decider_of(cycle: Cycle) -> Decider:
    """Who makes an attempt: for PostFilter plugins, and others that ask what-ifs.

    Raises:
        TypeError: no decider makes it.
    """
    decider = cycle.decider
    if not isinstance(decider, Decider):
        raise TypeError("an attempt that no Decider made")
    return decider


def rejectors_of(decider: Decider, diagnosis: Diagnosis) -> frozenset[str]:
    """Whose events may help a pod.

    What cannot be read waits for another state of the pod, or for what its plugin waits for anyway:
    to try again and again would find the same. Where there is no node at all no filter has refused
    one: then it is what all of them wait for.
    """
    if diagnosis.error:
        return frozenset({ev.OWN, *diagnosis.plugins})
    if diagnosis.early is None and not diagnosis.nodes:
        return frozenset(plugin.name for plugin in decider.plugins.filter)
    return frozenset(diagnosis.plugins)
