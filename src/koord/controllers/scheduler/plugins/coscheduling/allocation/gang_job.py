# SPDX-License-Identifier: Apache-2.0
"""A gang with its group, as the planner sees it during one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.base.errors import KoordError
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.coscheduling import reasons
from koord.controllers.scheduler.plugins.coscheduling.allocation.network_placement import (
    NetworkPlacer,
)
from koord.controllers.scheduler.plugins.coscheduling.allocation.placement_solver import (
    gather_requirement,
)
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.scoring import selector_of
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState, ordered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.api.protocol.gang import NetworkTopologySpec
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider, Decision
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import NetworkTree
    from koord.controllers.scheduler.plugins.coscheduling.scoring import SelectorPodCounts
    from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
    from koord.controllers.scheduler.plugins.coscheduling.state.gangs import Gang
    from koord.controllers.scheduler.plugins.coscheduling.state.network_topology import (
        NetworkTopologyCache,
    )
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod


class GangJobInputs(NamedTuple):
    """What the plugin gives to all jobs.

    Attributes:
        name: the plugin's.
        handle: the plugin's.
        gangs: all gangs.
        topology: the network; None where gangs' wishes for places in it are not looked at.
        neighbours: pods by selector.
        let_go: has the pods of a gang's group that wait on Permit bound.
    """

    name: str
    handle: Handle
    gangs: GangCache
    topology: NetworkTopologyCache | None
    neighbours: SelectorPodCounts
    let_go: Callable[[Gang], None]


class GangJob:
    """A gang's job during one pass, a
    :class:`koord.controllers.scheduler.job_planning.plan.PlannedJob`.

    Args:
        inputs: what the plugin gives to all jobs.
        gang: of the pod that came up.
    """

    def __init__(self, inputs: GangJobInputs, gang: Gang) -> None:
        self._inputs = inputs
        self._gang = gang
        self._handle = inputs.handle
        # Once satisfied, a gang's pods go on without the others of the group.
        self._gangs = [gang] if gang.free else inputs.gangs.group(gang)
        declared = [each.declared for each in self._gangs if each.declared is not None]
        self.strict = any(each.mode == decl.STRICT for each in declared)
        self.is_satisfied = gang.free
        specs = [each.topology for each in declared if each.topology is not None]
        self._topology = specs[0] if specs and inputs.topology is not None else None
        self.is_single = self.is_satisfied and self._topology is None

    @property
    def gathers(self) -> bool:
        """Whether the pods want to be near each other."""
        return self._topology is not None

    def waiting_uids(self) -> list[str]:
        """The uids of pending pods."""
        return [member.uid for member in ordered(self._gangs, MemberState.PENDING)]

    def in_order(self, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
        """As many pods of each gang as it needs, gang by gang; then the others."""
        by_uid = {each.info.uid: each for each in pods}
        first, rest = list[str](), list[str]()
        for gang in self._gangs:
            uids = [member.uid for member in gang.of(MemberState.PENDING) if member.uid in by_uid]
            released = gang.group.released if gang.group is not None else set()
            # Who lost its node with others goes first; the rest keeps its order.
            uids = [uid for uid in uids if uid in released] + [
                uid for uid in uids if uid not in released
            ]
            needed = gang.missing()
            first += uids[:needed]
            rest += uids[needed:]
        known = dict.fromkeys(first + rest)
        return [by_uid[uid] for uid in [*known, *(uid for uid in by_uid if uid not in known)]]

    def missing(self) -> int:
        """How many pods must still find a node before any may be bound."""
        return 0 if self.is_satisfied else self._inputs.gangs.missing(self._gang)

    def gather(
        self, decider: Decider, pods: Sequence[PodInfo]
    ) -> list[Decision] | Diagnosis | None:
        """Places pods near each other where the gang's topology says so."""
        if self._topology is None:
            return None
        gatherer = self.gatherer(decider, pods)
        if isinstance(gatherer, Rejection):
            return Diagnosis(len(decider.table), gatherer, {})
        members = tuple(pods)

        def cycle_of(pod: PodInfo) -> Cycle:
            cycle = Cycle(pod, decider.table)
            cycle.members = members
            return cycle

        return gatherer.place(pods, cycle_of)

    def gatherer(
        self, decider: Decider, pods: Sequence[PodInfo], scores: Mapping[str, int] | None = None
    ) -> NetworkPlacer | Rejection:
        """Who places the pods; a rejection if the network is not known as the gang wants it.

        Args:
            decider: of the profile.
            pods: at least one; the first one's selector counts.
            scores: by node; higher is better.
        """
        topology, spec = self._inputs.topology, self._topology
        assert topology is not None
        assert spec is not None
        network = topology.network()
        if network is None:
            why = topology.error or reasons.NO_TOPOLOGY
            return Rejection(self._inputs.name, (why,), unresolvable=True)
        return self._on(network, spec, decider, pods, scores or {})

    def _on(
        self,
        network: NetworkTree,
        spec: NetworkTopologySpec,
        decider: Decider,
        pods: Sequence[PodInfo],
        scores: Mapping[str, int],
    ) -> NetworkPlacer | Rejection:
        try:
            requirement = gather_requirement(spec, network, f"PodGroup {self._gang.id}")
        except KoordError as error:
            return Rejection(self._inputs.name, (str(error),), unresolvable=True)
        name_of = decider.table.name
        near = self._inputs.neighbours.on(selector_of(pods[0].shape))
        existing = {name_of(row): count for row, count in near.items()}
        return NetworkPlacer(
            self._inputs.name, decider, network, requirement, existing, self._held(), scores
        )

    def _held(self) -> dict[str, int]:
        """By node, pods of the job that have it already."""
        held: dict[str, int] = {}
        for gang in self._gangs:
            for member in gang.members.values():
                info = self._handle.pod(member.uid)
                if member.state is not MemberState.PENDING and info is not None and info.row >= 0:
                    node = self._handle.table.name(info.row)
                    held[node] = held.get(node, 0) + 1
        return held

    def placed(self, pod: PodInfo) -> None:
        """A pod holds a node."""
        self._inputs.gangs.reserved(pod.uid)

    def dropped(self, pod: PodInfo) -> None:
        """A pod lost it again."""
        self._inputs.gangs.unreserved(pod.uid)

    def release(self) -> None:
        """All that must hold a node do."""
        self._inputs.let_go(self._gang)

    def rejection_message(self, cause: PodInfo, why: str, waiting: int) -> str:
        """What the others are told when one fits nowhere."""
        return reasons.rejected(self._group_id, cause.key, why, waiting)

    def incomplete_message(self, missing: int) -> str:
        """What all are told where pods that are needed cannot be tried."""
        return reasons.still_short(self._group_id, missing)

    @property
    def _group_id(self) -> str:
        return self._gang.group.id if self._gang.group is not None else self._gang.id
