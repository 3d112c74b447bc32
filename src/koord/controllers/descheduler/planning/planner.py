# SPDX-License-Identifier: Apache-2.0
"""Makes the plan of a round: strategies say which pods, the scheduler where, limits how many.

Rule: docs/reference/descheduling.md#a-planned-round.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from koord.controllers.descheduler.framework.outcomes import REFUSED
from koord.controllers.descheduler.framework.round import Descheduling
from koord.controllers.descheduler.planning.disruption_ledger import DisruptionLedger
from koord.controllers.descheduler.planning.load_columns import (
    RESOURCES,
    SHIPPED_THRESHOLDS,
    LoadColumns,
)
from koord.controllers.descheduler.planning.plan import (
    PlannedNode,
    PlannedStep,
    RoundPlan,
    StayingPod,
    StayReason,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.outcomes import RoundRecord
    from koord.controllers.descheduler.framework.points import PodEviction
    from koord.controllers.descheduler.planning.landing import LandingNodes
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

BY_LOAD = frozenset({"LowNodeLoad"})
"""Strategies that move pods for load alone: a step of theirs that takes none off is left out."""


class PlanningEvictor:
    """The evict plugin of a planned round: a pod goes if it can land and nothing forbids it.

    Args:
        snapshot: of the round.
        landing: where pods would go; None for a round that is walked, which does not ask.
        thresholds: see :class:`LoadColumns`.

    Attributes:
        steps: so far.
        staying: pods that it refused, by the place among all that were wanted.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        landing: LandingNodes | None,
        thresholds: Mapping[str, float],
    ) -> None:
        self._landing = landing
        self._budgets = DisruptionLedger(snapshot)
        self.loads = LoadColumns(snapshot, thresholds)
        self._moving: set[str] = set()
        self.steps: list[PlannedStep] = []
        self.staying: list[StayingPod] = []

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the pod's move is a step of the plan."""
        why = self._forbidden(pod)
        if why is not None:
            return self._stays(pod, request, *why)
        if self._landing is None:
            self._add(pod, request, "", (), 0.0)
            return True
        landing = self._landing.move(pod)
        if landing.reason is not None:
            return self._stays(pod, request, landing.reason, landing.message)
        source = pod.spec.node_name
        gain = self.loads.move(pod, source, landing.node)
        if request.plugin in BY_LOAD and gain <= 0:
            self.loads.move(pod, landing.node, source)
            self._landing.take_back()
            message = f"on {landing.node}, where the scheduler puts it, load would be as high"
            return self._stays(pod, request, StayReason.NO_GAIN, message)
        self._add(pod, request, landing.node, landing.requires, gain)
        return True

    def _forbidden(self, pod: Pod) -> tuple[StayReason, str] | None:
        if pod.metadata.uid in self._moving:
            return StayReason.PLANNED, "an earlier step of the plan moves it"
        if pod.metadata.deletion_timestamp is not None:
            return StayReason.ENDING, "it is being deleted"
        budget = self._budgets.refusal(pod) if self._landing is not None else ""
        return (StayReason.BUDGET, budget) if budget else None

    def _add(
        self,
        pod: Pod,
        request: PodEviction,
        target: str,
        requires: tuple[int, ...],
        gain: float,
    ) -> None:
        self._moving.add(pod.metadata.uid)
        self._budgets.add(pod)
        step = PlannedStep(
            len(self.steps) + 1, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid,
            pod.spec.node_name, target, request.plugin, request.reason,
            [number + 1 for number in requires], gain,
        )  # fmt: skip
        self.steps.append(step)

    def _stays(self, pod: Pod, request: PodEviction, reason: StayReason, message: str) -> bool:
        meta, node = pod.metadata, pod.spec.node_name
        stays = StayingPod(meta.namespace, meta.name, node, request.plugin, reason, message)
        self.staying.append(stays)
        return False


async def plan_round(
    configuration: DeschedulerConfiguration,
    snapshot: ClusterSnapshot,
    landing: LandingNodes | None,
    clock: Clock,
    supervisor: Supervisor,
) -> RoundPlan:
    """The plan of one round; nothing is evicted.

    Args:
        configuration: of the descheduler; its evict plugins are not asked.
        snapshot: the cluster.
        landing: where pods would go, over the same cluster; None for the one-by-one rule, by which
            strategies evict without looking where pods go.
        clock: the time.
        supervisor: lets a strategy fail alone.

    Raises:
        KoordError: there are too few nodes, a plugin refuses its arguments or cannot work with what
            is there.
    """
    thresholds = load_thresholds(configuration)
    evictor = PlanningEvictor(snapshot, landing, thresholds)
    rounds = Descheduling(replace(configuration, dry_run=False), evictor, clock, supervisor)
    for profile in rounds.profiles:
        profile.handle.evictor.evict_plugin = evictor
    plan = RoundPlan(clock.wall_seconds(), thresholds=dict(thresholds))
    plan.overload_before, before = evictor.loads.overload(), evictor.loads.percent()
    with nullcontext() if landing is None else landing.planning():
        record = await rounds.run(snapshot)
    plan.overload_after, after = evictor.loads.overload(), evictor.loads.percent()
    plan.steps, plan.errors = evictor.steps, list(record.errors)
    plan.staying = evictor.staying + _over_limits(record)
    plan.nodes = _nodes(snapshot, before, after, plan.steps)
    return plan


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
    """Percent above which load counts: LowNodeLoad's of the first profile that has it."""
    for profile in configuration.profiles:
        args = profile.args.get("LowNodeLoad")
        found = getattr(args, "high_thresholds", None)
        if found and not getattr(args, "use_deviation_thresholds", False):
            return {name: float(found[name]) for name in RESOURCES if name in found}
    return SHIPPED_THRESHOLDS
