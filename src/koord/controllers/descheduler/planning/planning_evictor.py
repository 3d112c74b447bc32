# SPDX-License-Identifier: Apache-2.0
"""Says of each pod that a strategy wants whether its move is a step of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.descheduler.planning.disruption_ledger import DisruptionLedger
from koord.controllers.descheduler.planning.load_columns import LoadColumns
from koord.controllers.descheduler.planning.plan import PlannedStep, StayingPod, StayReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import StrategyEvictor
    from koord.controllers.descheduler.framework.points import Evict, PodEviction
    from koord.controllers.descheduler.planning.landing import Landing, LandingNodes
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

BY_LOAD = frozenset({"LowNodeLoad"})
"""Strategies that move pods for load alone: a step of theirs that takes none off is left out."""

LEAST_GAIN_POINTS = 3.0
_SMALL = 0.75
"""Which part of another pod's load is small beside it."""


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
        self._landing, self._rests = landing, rests
        self._budgets = DisruptionLedger(snapshot)
        self.loads = LoadColumns(snapshot, thresholds)
        self._rows: NDArray[np.intp] | None = None
        # By node, the largest share of it that a pod uses which waits for its limit.
        self._later: dict[str, float] = {}
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
        self.loads.move(pod, pod.spec.node_name, target)

    def take(self, pod: Pod, request: PodEviction) -> bool:
        """Whether the pod's move is a step of the plan now."""
        why = self._forbidden(pod)
        if why is not None:
            return self.stays(pod, request, *why)
        if self._landing is None:
            self._add(pod, request, "", (), 0.0)
            return True
        if request.plugin in BY_LOAD and self._rests(pod):
            message = "its workload's pod came to this node within the hour, for load"
            return self.stays(pod, request, StayReason.RESTS, message)
        if request.plugin in BY_LOAD and self._is_small(pod):
            message = "a pod of this node that uses more goes first, once its limit lets it"
            return self.stays(pod, request, StayReason.LIMIT, message)
        landing = self._landed(self._landing, pod, by_load=request.plugin in BY_LOAD)
        if landing.reason is not None:
            return self.stays(pod, request, landing.reason, landing.message)
        source = pod.spec.node_name
        gain = self.loads.move(pod, source, landing.node)
        if request.plugin in BY_LOAD and gain < LEAST_GAIN_POINTS:
            self.loads.move(pod, landing.node, source)
            self._landing.take_back()
            message = f"on {landing.node}, where the scheduler puts it, load would be as high"
            return self.stays(pod, request, StayReason.NO_GAIN, message)
        self._add(pod, request, landing.node, landing.requires, gain)
        return True

    def comes_later(self, pod: Pod) -> None:
        """Notes a pod that a limit keeps for now."""
        node = pod.spec.node_name
        used = self.loads.share(pod)
        self._later[node] = max(self._later.get(node, 0.0), used)

    def _is_small(self, pod: Pod) -> bool:
        """Whether one that takes more load off the same node only waits for its limit.

        Two small ones would be moved instead of it.
        """
        return self.loads.share(pod) < _SMALL * self._later.get(pod.spec.node_name, 0.0)

    def _landed(self, nodes: LandingNodes, pod: Pod, *, by_load: bool) -> Landing:
        """Where the pod goes: by load to a node that stays well below its thresholds, if any does.

        The scheduler chooses among those; what it would choose of all is asked first, as mostly
        that is one of them.
        """
        landing = nodes.move(pod)
        if not by_load or landing.reason is not None:
            return landing
        rooms = self.loads.rooms(pod)
        if self._rows is None:
            self._rows = nodes.rows(self.loads.names)
        chosen = nodes.rows([landing.node])
        roomy = self._rows[rooms]
        if np.isin(chosen, roomy).all() or not len(roomy):
            return landing
        nodes.take_back()
        better = nodes.move(pod, roomy)
        return better if better.reason is None else nodes.move(pod)

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
            self._planning.comes_later(pod)
            return self._planning.stays(pod, request, StayReason.LIMIT, why)
        if not self._planning.take(pod, request):
            return False
        if self._assume is not None:
            self._assume(pod, request)
        self._planning.wanted.append(WantedPod(pod, request, self._profile))
        return True
