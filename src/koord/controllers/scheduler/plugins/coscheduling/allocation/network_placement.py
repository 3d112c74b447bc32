# SPDX-License-Identifier: Apache-2.0
"""Places a job's pods close together in the network (docs/reference/gangs.md#placing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.coscheduling import reasons
from koord.controllers.scheduler.plugins.coscheduling.allocation.node_capacity import NodeCapacity
from koord.controllers.scheduler.plugins.coscheduling.allocation.placement_solver import (
    CandidateNodes,
    PlacementSolver,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider, Decision
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.plugins.coscheduling.allocation.placement_solver import (
        GatherRequirement,
    )
    from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import NetworkTree

_NONE: Mapping[str, int] = {}


class NetworkPlacer:
    """Places the pods of a job near each other in the network.

    Args:
        name: the plugin's, for rejections.
        decider: of the job's profile.
        network: the places.
        requirement: how close together.
        existing: by node, pods of the job's selector.
        held: by node, pods of the job that have a node already.
        scores: by node; higher is better.
    """

    def __init__(
        self,
        name: str,
        decider: Decider,
        network: NetworkTree,
        requirement: GatherRequirement,
        existing: Mapping[str, int] = _NONE,
        held: Mapping[str, int] = _NONE,
        scores: Mapping[str, int] = _NONE,
    ) -> None:
        self._name = name
        self._decider = decider
        self._network = network
        self._requirement = requirement
        self._existing = existing
        self._held = held
        self._scores = scores

    def place(
        self, pods: Sequence[PodInfo], cycle_of: Callable[[PodInfo], Cycle]
    ) -> list[Decision] | Diagnosis:
        """Assumes all pods, or none.

        Args:
            pods: the job's pods in order; nodes are filled in this order.
            cycle_of: makes a pod's cycle.

        Returns:
            A decision a pod, or why there is no room.
        """
        offers = NodeCapacity(self._decider, pods, cycle_of)
        if offers.early:
            return offers.diagnosis()
        while True:
            solver = self._solver(offers, len(pods))
            plan = solver.solve()
            if plan is None:
                if offers.distrust():
                    continue
                return self._nowhere(offers, solver, len(pods))
            placed, failed = self._lay(plan, pods, cycle_of)
            if failed is None:
                return placed
            # A pod that no node takes as planned, though each was asked: the pods are not alike.
            if failed.row < 0 or not offers.distrust(failed.row):
                return failed.why

    def _solver(self, offers: NodeCapacity, desired: int) -> PlacementSolver:
        table = self._decider.table
        slots = {table.name(row): count for row, count in offers.slots.items()}
        given = CandidateNodes(slots, self._existing, self._held, self._scores)
        return PlacementSolver(self._network, self._requirement, desired, given)

    def _lay(
        self,
        plan: Sequence[tuple[str, int]],
        pods: Sequence[PodInfo],
        cycle_of: Callable[[PodInfo], Cycle],
    ) -> tuple[list[Decision], _UnplacedPod | None]:
        """Assumes pods where the plan says; takes all back if one does not fit there."""
        placed: list[Decision] = []
        try:
            failed = self._fill(plan, pods, cycle_of, placed)
        except Exception:
            self._take_back(placed)
            raise
        if failed is not None:
            self._take_back(placed)
            return [], failed
        return placed, None

    def _take_back(self, placed: Sequence[Decision]) -> None:
        for taken in reversed(placed):
            self._decider.retract(taken)

    def _fill(
        self,
        plan: Sequence[tuple[str, int]],
        pods: Sequence[PodInfo],
        cycle_of: Callable[[PodInfo], Cycle],
        placed: list[Decision],
    ) -> _UnplacedPod | None:
        """Adds those that it assumed to ``placed``; the first that does not fit ends it."""
        table = self._decider.table
        rows = (row for name, count in plan for row in [table.row(name)] * count)
        for pod, row in zip(pods, rows, strict=True):
            assert row is not None
            decision = self._decider.try_row(cycle_of(pod), row)
            why = decision.diagnosis
            if why is None:
                refused = self._decider.assume(decision)
                if refused is None:
                    placed.append(decision)
                    continue
                why = Diagnosis(len(table), None, {row: refused})
            return _UnplacedPod(-1 if why.early else row, why)
        return None

    def _nowhere(self, offers: NodeCapacity, solver: PlacementSolver, desired: int) -> Diagnosis:
        diagnosis = offers.diagnosis()
        places = [(place.title, solver.slots[place.number]) for place in solver.gather_places()]
        multiples = dict(self._requirement.multiples)
        text = reasons.no_place(desired, places, diagnosis.message(), multiples)
        return Diagnosis(diagnosis.nodes, Rejection(self._name, (text,)), diagnosis.by_row)


class _UnplacedPod:
    """A pod that did not fit where it was planned; row -1: it would fit nowhere."""

    __slots__ = ("row", "why")

    def __init__(self, row: int, why: Diagnosis) -> None:
        self.row = row
        self.why = why
