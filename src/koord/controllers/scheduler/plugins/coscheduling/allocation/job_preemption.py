# SPDX-License-Identifier: Apache-2.0
"""Makes room for a whole job by deleting pods of lower priority.

Rule: docs/reference/gangs.md#job-preemption.
Everything is tried for real: victims are taken off their nodes, members put in their place one
after the other, each seeing those before it, then victims are put back as long as the members
still fit. At the end all is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.scheduler.decision.decider import decider_of
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.plugin import PostFilterResult
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.coscheduling.allocation.job_victims import (
    JobVictims,
    VictimCost,
    spared_first,
    victim_cost,
)
from koord.controllers.scheduler.plugins.coscheduling.allocation.trial_placement import (
    TrialPlacement,
)
from koord.controllers.scheduler.preemption.disruption_budgets import DisruptionBudgets
from koord.controllers.scheduler.preemption.executor import PreemptionExecutor
from koord.controllers.scheduler.preemption.victims import is_terminating

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.coscheduling.allocation.gang_job import GangJob
    from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache

NO_PENDING = "no pending pods"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to terminating pod on the nominated node."
NO_VICTIMS = "no potential victims"
NOT_HELPFUL = "preemption not helpful"


class JobPreemptionResult(PostFilterResult):
    """What came of it, for all pods of a job.

    Attributes:
        nodes: by uid, the node that each pod may count on.
    """

    __slots__ = ("nodes",)

    def __init__(
        self, node: str, nodes: dict[str, str], message: str, victims: Sequence[PodInfo]
    ) -> None:
        super().__init__(node, message, success=True, victims=victims)
        self.nodes = nodes


class JobPreemptionPlan(NamedTuple):
    """A way to place a job.

    Attributes:
        placed: by row, the pods that go there.
        victims: by row, who has to go for it.
    """

    placed: dict[int, list[PodInfo]]
    victims: dict[int, list[PodInfo]]


class JobPreemption:
    """Preempts for jobs; a pod without a gang is a job of one.

    Args:
        plugin: who preempts, by name.
        handle: the plugin's.
        gangs: all gangs.
        job_of: a pod's job, or why it cannot be tried.
    """

    def __init__(
        self,
        plugin: str,
        handle: Handle,
        gangs: GangCache,
        job_of: Callable[[PodInfo], GangJob | Rejection],
    ) -> None:
        self._gangs = gangs
        self._job_of = job_of
        self.budgets = DisruptionBudgets(handle.view(PodDisruptionBudget))
        self.effects = PreemptionExecutor(plugin, handle)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Finds room for all pods of the job that have no node, and has the victims deleted.

        Args:
            cycle: of the pod that fits nowhere; its members are the job.
            diagnosis: why it does not.
        """
        members = cycle.members or (cycle.pod,)
        pending = [pod for pod in members if pod.row < 0]
        if not pending:
            return PostFilterResult(message=f"preemption: {NO_PENDING}")
        why = self._ineligible(cycle, diagnosis, pending)
        if why:
            return PostFilterResult(message=f"preemption: {why}")
        room = self.find(cycle, diagnosis, pending)
        if isinstance(room, str):
            return PostFilterResult(message=f"preemption: {room}", clear=True)
        return self._carry_out(cycle, room, members)

    def find(
        self, cycle: Cycle, diagnosis: Diagnosis, pending: Sequence[PodInfo]
    ) -> JobPreemptionPlan | str:
        """Looks for room; changes nothing.

        Args:
            cycle: of the pod that fits nowhere.
            diagnosis: why it does not: only nodes that it says pods stand in the way on are tried.
            pending: the job's pods without a node, in order.

        Returns:
            Room, or why there is none.
        """
        decider = decider_of(cycle)
        stakes = self._stakes(cycle, diagnosis, pending)
        if not stakes:
            return NO_VICTIMS if len(diagnosis.resolvable()) else NOT_HELPFUL
        stage = TrialPlacement(decider, cycle.members or (cycle.pod,))
        with decider.accounts.what_if():
            try:
                if not self._place(cycle, stage, pending, stakes):
                    return NOT_HELPFUL
                placed = stage.rows()
                victims = self._spare(decider, stage, stakes)
            finally:
                stage.clear()
        return JobPreemptionPlan(placed, victims) if victims is not None else NOT_HELPFUL

    def _ineligible(self, cycle: Cycle, diagnosis: Diagnosis, pending: Sequence[PodInfo]) -> str:
        """Why the job may not preempt now, ``""`` if it may."""
        if cycle.pod.pod.spec.preemption_policy == "Never":
            return NEVER
        for pod in pending:
            row = self._nominated(cycle, pod)
            if row is None:
                continue
            refused = diagnosis.by_row.get(row)
            if pod is cycle.pod and refused is not None and refused.unresolvable:
                continue
            policy = JobVictims()
            if any(policy.waits_for(pod, other) for other in cycle.table.pods[row].values()):
                return TERMINATING
        return ""

    def _nominated(self, cycle: Cycle, pod: PodInfo) -> int | None:
        row = decider_of(cycle).nominations.row_of(pod)
        name = pod.pod.status.nominated_node_name
        return row if row is not None or not name else cycle.table.row(name)

    # The search.

    def _stakes(
        self, cycle: Cycle, diagnosis: Diagnosis, pending: Sequence[PodInfo]
    ) -> list[VictimCost]:
        """Nodes where pods may go, and their going leaves enough for one of the job's at least."""
        table, policy = cycle.table, JobVictims(pod.uid for pod in cycle.members)
        victims: dict[int, list[PodInfo]] = {}
        for row in diagnosis.resolvable().tolist():
            pods = table.pods[row].values()
            found = [pod for pod in pods if policy.may_preempt(cycle.pod, pod)]
            if found and any(_may_fit(cycle, row, found, shape) for shape in _shapes(pending)):
                victims[row] = found
        rank = {row: int(table.rank[row]) for row in victims}
        return victim_cost(victims, self.budgets, rank)

    def _place(
        self,
        cycle: Cycle,
        stage: TrialPlacement,
        pending: Sequence[PodInfo],
        stakes: Sequence[VictimCost],
    ) -> bool:
        """Puts all pods on nodes, the cheapest first; whether there is room for all."""
        decider = decider_of(cycle)
        gang = self._gangs.of(cycle.pod.uid)
        if gang is not None and gang.declared is not None and cycle.members:
            job = self._job_of(cycle.pod)
            if not isinstance(job, Rejection) and job.gathers:
                for each in stakes:
                    _drop(decider, each.victims)
                # Nodes where nobody has to go have 0 and are the best.
                scores = {cycle.table.name(each.row): -each.cost - 1 for each in stakes}
                gatherer = job.gatherer(decider, pending, scores)
                if isinstance(gatherer, Rejection):
                    return False
                found = gatherer.place(pending, stage.cycle_of)
                if isinstance(found, Diagnosis):
                    return False
                stage.take_over(found)
                return True
        return self._fill(decider, stage, pending, stakes)

    def _fill(
        self,
        decider: Decider,
        stage: TrialPlacement,
        pending: Sequence[PodInfo],
        stakes: Sequence[VictimCost],
    ) -> bool:
        """First fit: each node in turn takes, of the pods in order, all that go there."""
        left = list(pending)
        for each in stakes:
            _drop(decider, each.victims)
            refused: set[int] = set()
            stay = []
            for pod in left:
                if pod.shape.id in refused or not stage.place(pod, each.row):
                    refused.add(pod.shape.id)
                    stay.append(pod)
            if len(stay) == len(left):
                for victim in reversed(each.victims):
                    decider.accounts.add(each.row, victim)
            left = stay
            if not left:
                return True
        return False

    def _spare(
        self, decider: Decider, stage: TrialPlacement, stakes: Sequence[VictimCost]
    ) -> dict[int, list[PodInfo]] | None:
        """Puts victims back one by one where the job's pods still fit beside them.

        Returns:
            By row, who could not be put back; None if pods did not fit again where they had.
        """
        gone: dict[int, list[PodInfo]] = {}
        victims = {each.row: each.victims for each in stakes}
        for row in list(stage.rows()):
            # A node may have room enough without anybody's going.
            gone[row] = []
            for victim in spared_first(victims.get(row, ()), self.budgets):
                pods = stage.remove(row)
                decider.accounts.add(row, victim)
                if not stage.place_all(pods, row):
                    decider.accounts.drop(victim)
                    gone[row].append(victim)
                    if not stage.place_all(pods, row):
                        return None
        return gone

    # What then happens.

    def _carry_out(
        self, cycle: Cycle, plan: JobPreemptionPlan, members: Sequence[PodInfo]
    ) -> PostFilterResult:
        decider, table = decider_of(cycle), cycle.table
        nodes = {pod.uid: table.name(pod.row) for pod in members if pod.row >= 0}
        waiting = len(nodes)
        for row, pods in plan.placed.items():
            nodes.update((pod.uid, table.name(row)) for pod in pods)
            displaced = decider.nominations.drop_lower(row, cycle.pod.priority)
            going = [victim for victim in plan.victims[row] if not is_terminating(victim)]
            self.effects.begin(pods[0], table.name(row), going, displaced)
        victims = [victim for row in plan.placed for victim in plan.victims[row]]
        total = len(members)
        gang = self._gangs.of(cycle.pod.uid)
        if gang is not None:
            total = sum(len(each.members) for each in self._gangs.group(gang))
        message = f"preempt success, alreadyWaitingForBound: {waiting}/{total}"
        return JobPreemptionResult(nodes[cycle.pod.uid], nodes, message, victims)


def _shapes(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """One pod of each shape."""
    return list({pod.shape.id: pod for pod in pods}.values())


def _may_fit(cycle: Cycle, row: int, victims: Sequence[PodInfo], pod: PodInfo) -> bool:
    """Whether the columns leave room for a pod without the victims: a quick, lenient look."""
    table = cycle.table
    if cycle.overlay(row) is not None or row in table.adjusted:
        return True
    index, amounts = table.columns_of(pod.shape.container_requests).required
    free = table.allocatable[index, row] - table.requested[index, row]
    names = {int(at): place for place, at in enumerate(index)}
    for victim in victims:
        for at, amount in zip(*table.columns_of(victim.counted).counted, strict=True):
            place = names.get(int(at))
            if place is not None:
                free[place] += amount
    return bool(((amounts == 0) | (free >= amounts)).all())


def _drop(decider: Decider, victims: Sequence[PodInfo]) -> None:
    for victim in victims:
        decider.accounts.drop(victim)
