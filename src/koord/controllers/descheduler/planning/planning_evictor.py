# SPDX-License-Identifier: Apache-2.0
"""Says of each pod that a strategy wants whether its move is a step of the plan."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.descheduler.planning.disruption_ledger import DisruptionLedger
from koord.controllers.descheduler.planning.landing import Landing
from koord.controllers.descheduler.planning.load_columns import LoadColumns
from koord.controllers.descheduler.planning.plan import PlannedStep, StayingPod, StayReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import StrategyEvictor
    from koord.controllers.descheduler.framework.points import Evict, PodEviction
    from koord.controllers.descheduler.planning.landing import LandingNodes
    from koord.controllers.descheduler.planning.load_columns import LoadRows
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

MOST_STEPS = 500
"""Of a plan in which somebody looks where pods go; further pods are for the next round."""
PODS_A_SLICE = 10
"""So many pods are judged before the rest of the program works; one takes about a millisecond."""
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
        rows: see :class:`LoadColumns`.

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
        rows: LoadRows | None = None,
    ) -> None:
        self._rests = rests
        self._landing = landing
        self._budgets = DisruptionLedger(snapshot)
        self.loads = LoadColumns(snapshot, thresholds, rows)
        self._moving: set[str] = set()
        self._pod_number = 0
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

    async def give_way(self) -> None:
        """Lets the rest of the program work, each so many pods; by their number, not by a clock, so
        that the same seed plays the same history.
        """
        self._pod_number += 1
        if self._pod_number % PODS_A_SLICE == 0:
            await asyncio.sleep(0)

    def take(self, pods: Sequence[Pod], request: PodEviction) -> bool:
        """Whether the moves of all these are steps of the plan now; all are, or none.

        Args:
            pods: the one that is wanted, and those that move with it.
            request: what wants it.
        """
        why = self._forbidden(pods) or (self._unwanted(pods, request) if self._landing else None)
        places = [Landing("")] * len(pods) if self._landing is None else []
        gains = [0.0] * len(places)
        if why is None and self._landing is not None:
            why = self._land(self._landing, pods, request, places, gains)
        if why is not None:
            return self.stays(pods[0], request, *why)
        lead = len(self.steps) + 1
        for pod, place, gain in zip(pods, places, gains, strict=True):
            self._add(pod, request, place, gain, lead)
        return True

    def _forbidden(self, pods: Sequence[Pod]) -> tuple[StayReason, str] | None:
        """What keeps one of the pods, wherever it would go."""
        if self._landing is not None and len(self.steps) + len(pods) > MOST_STEPS:
            return StayReason.LIMIT, f"a plan has {MOST_STEPS} steps at most"
        for number, pod in enumerate(pods):
            of_gang = _of_gang(pods, pod)
            if pod.metadata.uid in self._moving:
                return StayReason.PLANNED, f"{of_gang}an earlier step of the plan moves it"
            if pod.metadata.deletion_timestamp is not None:
                return StayReason.ENDING, f"{of_gang}it is being deleted"
            budget = self._budgets.refusal(pod, pods[:number]) if self._landing else ""
            if budget:
                return StayReason.BUDGET, of_gang + budget
        return None

    def _unwanted(self, pods: Sequence[Pod], request: PodEviction) -> tuple[StayReason, str] | None:
        """What keeps a pod that is moved for load alone."""
        if request.plugin not in BY_LOAD:
            return None
        source = pods[0].spec.node_name
        if not self.loads.is_high(source):
            message = f"{source} is not above thresholds any more, all that moves counted"
            return StayReason.NO_GAIN, message
        for pod in pods:
            if self._rests(pod):
                message = "a pod of its controller came to this node within the hour, for load"
                return StayReason.RESTS, _of_gang(pods, pod) + message
        return None

    def _land(
        self,
        landing: LandingNodes,
        pods: Sequence[Pod],
        request: PodEviction,
        places: list[Landing],
        gains: list[float],
    ) -> tuple[StayReason, str] | None:
        """Finds a place for each pod; why there is none for one of them, or no gain in them all."""
        by_load = request.plugin in BY_LOAD
        why: tuple[StayReason, str] | None = None
        for pod in pods:
            place = landing.move(
                pod, self.loads.too_full_for(pod) if by_load else (), together=len(places)
            )
            if place.reason is not None:
                why = place.reason, _of_gang(pods, pod) + place.message
                break
            places.append(place)
            gains.append(self.loads.move(pod, pod.spec.node_name, place.node))
        if why is None and by_load and sum(gains) <= 0:
            nodes = ", ".join(place.node for place in places)
            why = (
                StayReason.NO_GAIN,
                f"on {nodes}, where the scheduler puts it, load would be as high",
            )
        if why is not None:
            for pod, place in reversed(list(zip(pods, places, strict=False))):
                self.loads.move(pod, place.node, pod.spec.node_name)
                landing.take_back()
        return why

    def _add(self, pod: Pod, request: PodEviction, place: Landing, gain: float, lead: int) -> None:
        self._moving.add(pod.metadata.uid)
        self._budgets.add(pod)
        number = len(self.steps) + 1
        is_mate = number != lead
        wanted = f"{self.steps[lead - 1].namespace}/{self.steps[lead - 1].name}" if is_mate else ""
        step = PlannedStep(
            number, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid,
            pod.spec.node_name, place.node, request.plugin,
            f"moves with {wanted}, of its gang" if is_mate else request.reason,
            [each + 1 for each in place.requires], gain, lead if is_mate else 0,
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
        self._assume = getattr(carrier, "assume", _nothing)
        self._release = getattr(carrier, "release", _nothing)
        self._together = getattr(carrier, "together", _alone)

    @property
    def why(self) -> str:
        """Why the last pod stays, in one line."""
        return self._planning.why

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the pod's move is a step of the plan, and those of all that move with it."""
        await self._planning.give_way()
        if not self._evictor.filter(pod):
            # Asked again: limits of filters count the steps so far.
            refusal = self._evictor.refusal(pod)
            return self._planning.stays(pod, request, StayReason.LIMIT, refusal)
        # What has no node leaves none.
        pods = [each for each in self._together(pod) if each is pod or each.spec.node_name]
        refusal = self._over_limits(pods)
        if refusal:
            return self._planning.stays(pod, request, StayReason.LIMIT, refusal)
        if not self._planning.take(pods, request):
            self._forget(pods[:-1])
            return False
        self._assume(pods[-1])
        for each in pods[1:]:
            self._evictor.limiter.add(each)
        self._planning.wanted += [WantedPod(each, request, self._profile) for each in pods]
        return True

    def _over_limits(self, pods: Sequence[Pod]) -> str:
        """Which limit keeps one of the pods; empty for none, and all but the last are counted."""
        if len(pods) > 1 and (refusal := self._evictor.limiter.refusal_of(pods)):
            return refusal
        for number, pod in enumerate(pods):
            if number:
                self._assume(pods[number - 1])
            refusal = "" if self._kept is None else self._kept(pod)
            if refusal:
                self._forget(pods[:number])
                return _of_gang(pods, pod) + str(refusal)
        return ""

    def _forget(self, pods: Sequence[Pod]) -> None:
        for each in pods:
            self._release(each)


def _of_gang(pods: Sequence[Pod], pod: Pod) -> str:
    """Before what keeps one of a gang: its name, unless it is the one that is wanted."""
    return "" if pod is pods[0] else f"{pod.title} of its gang: "


def _nothing(*_: object) -> None:
    """What an evict plugin without limits of its own counts."""


def _alone(pod: Pod) -> Sequence[Pod]:
    return [pod]
