# SPDX-License-Identifier: Apache-2.0
"""Says of each pod that a strategy wants whether its move is a step of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.descheduler.planning.disruption_ledger import DisruptionLedger
from koord.controllers.descheduler.planning.load_columns import LoadColumns
from koord.controllers.descheduler.planning.plan import PlannedStep, StayingPod, StayReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import StrategyEvictor
    from koord.controllers.descheduler.framework.points import Evict, PodEviction
    from koord.controllers.descheduler.planning.landing import LandingNodes
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

MOST_STEPS = 500
"""Of a plan in which somebody looks where pods go; further pods are for the next round."""
BY_LOAD = frozenset({"LowNodeLoad"})
"""Strategies that move pods for load alone: a step of theirs that takes none off is left out."""


class WantedPod(NamedTuple):
    """A pod that moves, and what wanted it: the profile by its place, and the strategy."""

    pod: Pod
    request: PodEviction
    profile: int


class PlanningEvictor:
    """Stands for the evict plugins of a planned round: a pod goes if it can land and may leave.

    Args:
        snapshot: of the round.
        landing: where pods would go; None for a round that is walked, which does not ask.
        thresholds: see :class:`LoadColumns`.
        rests: whether a pod was moved for load not long ago, so that it stays for now.

    Attributes:
        steps: so far.
        wanted: the pods of these.
        staying: pods that it refused, in the order in which they were wanted.
        loads: what nodes use once all steps are done.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        landing: LandingNodes | None,
        thresholds: Mapping[str, float],
        rests: Callable[[Pod], bool] = lambda pod: False,
    ) -> None:
        self._rests = rests
        self._landing = landing
        self._budgets = DisruptionLedger(snapshot)
        self.loads = LoadColumns(snapshot, thresholds)
        self._moving: set[str] = set()
        self.steps: list[PlannedStep] = []
        self.wanted: list[WantedPod] = []
        self.staying: list[StayingPod] = []

    def already_moves(self, pod: Pod, target: str) -> None:
        """Counts a move that is under way as done: its eviction is to come, and its load leaves.

        Args:
            target: empty where it is not known yet.
        """
        self._moving.add(pod.metadata.uid)
        self._budgets.add(pod)
        if pod.metadata.deletion_timestamp is None:
            # One that is being deleted has left already, as far as loads go.
            self.loads.move(pod, pod.spec.node_name, "")
        self.loads.comes(pod, target)

    def take(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the pod's move is a step of the plan now."""
        why = self._forbidden(pod)
        if why is not None:
            return self.stays(pod, request, *why)
        if self._landing is None:
            self._add(pod, request, "", (), 0.0)
            return True
        source, by_load = pod.spec.node_name, request.plugin in BY_LOAD
        if by_load and not self.loads.is_high(source):
            message = f"{source} is not above thresholds any more, all that moves counted"
            return self.stays(pod, request, StayReason.NO_GAIN, message)
        if by_load and self._rests(pod):
            message = "a pod of its controller came to this node within the hour, for load"
            return self.stays(pod, request, StayReason.RESTS, message)
        landing = self._landing.move(pod, self.loads.too_full_for(pod) if by_load else ())
        if landing.reason is not None:
            return self.stays(pod, request, landing.reason, landing.message)
        gain = self.loads.move(pod, source, landing.node)
        if by_load and gain <= 0:
            self.loads.move(pod, landing.node, source)
            self._landing.take_back()
            message = f"on {landing.node}, where the scheduler puts it, load would be as high"
            return self.stays(pod, request, StayReason.NO_GAIN, message)
        self._add(pod, request, landing.node, landing.requires, gain)
        return True

    def _forbidden(self, pod: Pod) -> tuple[StayReason, str] | None:
        if pod.metadata.uid in self._moving:
            return StayReason.PLANNED, "an earlier step of the plan moves it"
        if pod.metadata.deletion_timestamp is not None:
            return StayReason.ENDING, "it is being deleted"
        if self._landing is not None and len(self.steps) >= MOST_STEPS:
            return StayReason.LIMIT, f"a plan has {MOST_STEPS} steps at most"
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

    @property
    def why(self) -> str:
        """Why the last pod that stays does, in one line."""
        return self.staying[-1].message if self.staying else ""

    def stays(self, pod: Pod, request: PodEviction, reason: StayReason, message: str) -> bool:
        """Notes that the pod is no step, and why; False."""
        meta, node = pod.metadata, pod.spec.node_name
        stays = StayingPod(meta.namespace, meta.name, node, request.plugin, reason, message)
        self.staying.append(stays)
        return False


class ProfilePlanningEvictor:
    """The evict plugin of one profile while a round is planned.

    Args:
        planning: of the round.
        profile: by its place.
        evictor: of the profile, with its filters.
        carrier: the evict plugin that carries steps out.
    """

    def __init__(
        self, planning: PlanningEvictor, profile: int, evictor: StrategyEvictor, carrier: Evict
    ) -> None:
        self._planning, self._profile = planning, profile
        self._evictor, self._carrier = evictor, carrier
        self._kept = getattr(carrier, "kept", None)
        self._assume = getattr(carrier, "assume", None)

    @property
    def why(self) -> str:
        """Why the last pod stays, in one line."""
        return self._planning.why

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the pod's move is a step of the plan."""
        if not self._evictor.filter(pod):
            # Asked again: limits of filters count the steps so far.
            refusal = self._evictor.refusal(pod)
            return self._planning.stays(pod, request, StayReason.LIMIT, refusal)
        if self._kept is not None and (why := self._kept(pod)):
            return self._planning.stays(pod, request, StayReason.LIMIT, why)
        if not self._planning.take(pod, request):
            return False
        if self._assume is not None:
            self._assume(pod, request)
        self._planning.wanted.append(WantedPod(pod, request, self._profile))
        return True
