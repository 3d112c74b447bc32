# SPDX-License-Identifier: Apache-2.0
"""Plans rounds and carries them out: strategies say which pods, the scheduler where, limits how
many; nothing is evicted before all of it is known.

Rule: docs/reference/descheduling.md#a-planned-round.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from koord.controllers.descheduler.framework.outcomes import EVICTED, REFUSED
from koord.controllers.descheduler.planning.load_columns import (
    PROD,
    RESOURCES,
    SHIPPED_THRESHOLDS,
    LoadRows,
)
from koord.controllers.descheduler.planning.plan import (
    PlannedNode,
    PlannedStep,
    RoundPlan,
    StayingPod,
    StayReason,
)
from koord.controllers.descheduler.planning.plan_execution import PlanExecution
from koord.controllers.descheduler.planning.planning_evictor import (
    BY_LOAD,
    PlanningEvictor,
    ProfilePlanningEvictor,
    WantedPod,
)
from koord.controllers.descheduler.planning.rest_periods import RestPeriods
from koord.controllers.descheduler.planning.step_checks import StepChecks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.outcomes import RoundRecord
    from koord.controllers.descheduler.framework.profile import StrategyProfile
    from koord.controllers.descheduler.framework.round import Descheduling
    from koord.controllers.descheduler.planning.current_cluster import CurrentCluster
    from koord.controllers.descheduler.planning.landing import LandingNodes
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

_T = TypeVar("_T")


class PlannedRounds:
    """Rounds that are planned before anything is evicted; takes the place of the rounds given.

    Args:
        rounds: profiles and limits.
        landing: gives, for the cluster of a snapshot, who says where pods would go; None plans
            by the one-by-one rule, by which nobody looks where pods go.
        thresholds: percent by resource above which load counts in gains.
        now: wall time in seconds since the Unix epoch.
        dry_run: whether plans are made and not carried out.
        is_current: whether a pod is still where the plan has it; asked right before its eviction.
        live: the cluster as it goes on beside plans; None where nothing happens but by them.
        at_once: whether nothing else may run while a plan is made: where the scheduler that is
            asked is the one that decides, whose decisions would be taken back with the plan's.

    Attributes:
        last: the plan of the last round.
    """

    def __init__(
        self,
        rounds: Descheduling,
        landing: Callable[[ClusterSnapshot], LandingNodes] | None,
        thresholds: Mapping[str, float],
        now: Callable[[], float],
        *,
        dry_run: bool = False,
        is_current: Callable[[Pod], bool] = lambda pod: True,
        live: CurrentCluster | None = None,
        at_once: bool = False,
    ) -> None:
        self._rounds, self._landing = rounds, landing
        self._at_once = at_once
        self._thresholds, self._now = thresholds, now
        self._dry_run, self._is_current = dry_run, is_current
        self._live = live
        self._rests, self._rows = RestPeriods(), LoadRows()
        self._carriers = [profile.handle.evictor.evict_plugin for profile in rounds.profiles]
        self.last = RoundPlan()

    @property
    def profiles(self) -> Sequence[StrategyProfile]:
        """Of the rounds."""
        return self._rounds.profiles

    @property
    def record(self) -> RoundRecord:
        """What became of pods in the last round."""
        return self._rounds.record

    async def plan(self, snapshot: ClusterSnapshot) -> RoundPlan:
        """The plan of a round over a snapshot; nothing is evicted.

        Raises:
            KoordError: there are too few nodes, or a plugin cannot work with what is there; or it
                is not known where pods would go.
        """
        plan, _, _ = await self._planned(snapshot)
        return plan

    async def run(self, snapshot: ClusterSnapshot) -> RoundRecord:
        """Plans a round and carries it out, step by step.

        A step that is refused ends those that depend on it; all others are still tried.

        Raises:
            KoordError: see :meth:`plan`.
        """
        plan, evictor, landing = await self._planned(snapshot)
        record = self._rounds.record
        # How far the steps got is told anew, with where they go.
        record.outcomes = [each for each in record.outcomes if each.result != EVICTED]
        wanted = _requests(plan.steps, evictor.wanted)
        if self._dry_run:
            for each in wanted:
                record.evicted(each.pod, each.request)
            return record
        changes = StepChecks(landing, self._live, self._is_current)
        execution = PlanExecution(record, self._carriers, changes)
        await execution.run(list(zip(plan.steps, wanted, strict=True)))
        for each in execution.done:
            if each.request.plugin in BY_LOAD:
                self._rests.begin(each.pod, each.request.target, self._now())
        return record

    async def _planned(
        self, snapshot: ClusterSnapshot
    ) -> tuple[RoundPlan, PlanningEvictor, LandingNodes | None]:
        planning = self._worked_out(snapshot)
        return _to_the_end(planning) if self._at_once else await planning

    async def _worked_out(
        self, snapshot: ClusterSnapshot
    ) -> tuple[RoundPlan, PlanningEvictor, LandingNodes | None]:
        landing = None if self._landing is None else self._landing(snapshot)
        now = self._now()
        evictor = PlanningEvictor(
            snapshot, landing, self._thresholds,
            lambda pod: self._rests.rests(pod, now), self._rows,
        )  # fmt: skip
        under_way = [] if self._live is None else list(self._live.under_way())
        for each in under_way:
            evictor.already_moves(each.pod, each.target)
        plan = RoundPlan(now, thresholds=dict(self._thresholds))
        if under_way:
            plan.notes.append(f"moves that are under way count as done: {len(under_way)}")
        plan.overload_before, before = evictor.loads.overload(), evictor.loads.percent()
        with self._in_place_of_carriers(evictor), landing.planning() if landing else nullcontext():
            record = await self._rounds.run(snapshot)
        plan.overload_after, after = evictor.loads.overload(), evictor.loads.percent()
        plan.steps, plan.errors = evictor.steps, list(record.errors)
        plan.staying = evictor.staying + _over_limits(record)
        plan.nodes = _nodes(snapshot, before, after, plan.steps)
        self.last = plan
        return plan, evictor, landing

    @contextmanager
    def _in_place_of_carriers(self, planning: PlanningEvictor) -> Iterator[None]:
        """Inside, evictions are steps of a plan, those of a dry run too."""
        evictors = [profile.handle.evictor for profile in self._rounds.profiles]
        dry = [each.dry_run for each in evictors]
        for number, (evictor, carrier) in enumerate(zip(evictors, self._carriers, strict=True)):
            assert carrier is not None, "a profile has exactly one evict plugin"
            evictor.evict_plugin = ProfilePlanningEvictor(planning, number, evictor, carrier)
            evictor.dry_run = False
        try:
            yield
        finally:
            for evictor, carrier, was in zip(evictors, self._carriers, dry, strict=True):
                evictor.evict_plugin, evictor.dry_run = carrier, was
                getattr(carrier, "forget", _nothing)()


def _requests(steps: Sequence[PlannedStep], wanted: Sequence[WantedPod]) -> list[WantedPod]:
    """The pods of steps, with what is asked for: where each goes, and those that go with it."""
    targets: dict[int, dict[str, str]] = {}
    for step in steps:
        if step.together_with:
            targets.setdefault(step.together_with, {})[step.uid] = step.target
    return [
        each._replace(
            request=replace(
                each.request,
                reason=step.reason,
                target=step.target,
                targets=targets.get(step.number, {}),
            )
        )
        for step, each in zip(steps, wanted, strict=True)
    ]


def _to_the_end(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Runs what only gives way and waits for nothing, without letting anybody else run."""
    while True:
        try:
            waits_for = coroutine.send(None)
        except StopIteration as ended:
            return cast("_T", ended.value)
        assert waits_for is None, "a plan waits for nothing"


def _nothing() -> None:
    """What a carrier without limits of its own has to forget."""


def _over_limits(record: RoundRecord) -> list[StayingPod]:
    return [
        StayingPod(
            each.namespace, each.name, each.node, each.plugin, StayReason.LIMIT, each.message
        )
        for each in record.outcomes
        if each.result == REFUSED
    ]


def _nodes(
    snapshot: ClusterSnapshot,
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    steps: Sequence[PlannedStep],
) -> list[PlannedNode]:
    leaving = Counter(step.node for step in steps)
    arriving = Counter(step.target for step in steps)
    made = []
    for row, node in enumerate(snapshot.nodes):
        name = node.metadata.name
        then, later = (
            dict(zip(RESOURCES, percent[row].round(2).tolist(), strict=True))
            for percent in (before, after)
        )
        made.append(PlannedNode(name, then, later, leaving[name], arriving[name]))
    return made


def load_thresholds(configuration: DeschedulerConfiguration) -> Mapping[str, float]:
    """Percent above which load counts: LowNodeLoad's of the first profile that has it.

    Thresholds of prod pods are there under :data:`load_columns.PROD` and the resource. Where there
    are only those, nothing else is too much.
    """
    for profile in configuration.profiles:
        args = profile.args.get("LowNodeLoad")
        if getattr(args, "use_deviation_thresholds", False):
            continue
        high = getattr(args, "high_thresholds", None) or {}
        prod = getattr(args, "prod_high_thresholds", None) or {}
        found = {name: float(high[name]) for name in RESOURCES if name in high}
        found |= {f"{PROD}{name}": float(prod[name]) for name in RESOURCES if name in prod}
        if found:
            return found
    return SHIPPED_THRESHOLDS
