# SPDX-License-Identifier: Apache-2.0
"""A gang with its group, as the planner sees it during one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.coscheduling import declaration as decl
from koord.controllers.scheduler.plugins.coscheduling import messages
from koord.controllers.scheduler.plugins.coscheduling.gangs import State, ordered
from koord.controllers.scheduler.plugins.coscheduling.gather import Gatherer
from koord.controllers.scheduler.plugins.coscheduling.nearness import selector_of
from koord.controllers.scheduler.plugins.coscheduling.solver import wish_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.protocol.gang import NetworkTopologySpec
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decider import Decider, Decision
    from koord.controllers.scheduler.plugins.coscheduling.gangs import Gang
    from koord.controllers.scheduler.plugins.coscheduling.network import Network
    from koord.controllers.scheduler.plugins.coscheduling.plugin import Coscheduling
    from koord.controllers.scheduler.queue.queued import QueuedPod


class GangJob:
    """See :class:`koord.controllers.scheduler.jobplan.Job`.

    Args:
        plugin: whose gangs these are.
        gang: of the pod that came up.
        pod: that pod.
    """

    def __init__(self, plugin: Coscheduling, gang: Gang, pod: PodInfo) -> None:
        self._plugin = plugin
        self._gang = gang
        self._handle = plugin.handle
        # Once satisfied, a gang's pods go on without the others of the group.
        self._gangs = [gang] if gang.free else plugin.gangs.group(gang)
        declared = [each.declared for each in self._gangs if each.declared is not None]
        self.strict = any(each.mode == decl.STRICT for each in declared)
        self.free = gang.free
        specs = [each.topology for each in declared if each.topology is not None]
        self._topology = specs[0] if specs and plugin.args.aware_network_topology else None
        self.alone = self.free and self._topology is None

    @property
    def gathers(self) -> bool:
        """Whether the pods want to be near each other."""
        return self._topology is not None

    def others(self) -> list[str]:
        """The uids of pending pods."""
        return [member.uid for member in ordered(self._gangs, State.PENDING)]

    def ordered(self, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
        """As many pods of each gang as it needs, gang by gang; then the others."""
        by_uid = {each.info.uid: each for each in pods}
        first, rest = list[str](), list[str]()
        for gang in self._gangs:
            uids = [member.uid for member in gang.of(State.PENDING) if member.uid in by_uid]
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
        return 0 if self.free else self._plugin.gangs.missing(self._gang)

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
    ) -> Gatherer | Rejection:
        """Who places the pods; a rejection if the network is not known as the gang wants it.

        Args:
            decider: of the profile.
            pods: at least one; the first one's selector counts.
            scores: by node; higher is better.
        """
        name, network = self._plugin.name, self._plugin.topology.network()
        if network is None:
            why = self._plugin.topology.error or messages.NO_TOPOLOGY
            return Rejection(name, (why,), unresolvable=True)
        spec = self._topology
        assert spec is not None
        return self._on(network, spec, decider, pods, scores or {})

    def _on(
        self,
        network: Network,
        spec: NetworkTopologySpec,
        decider: Decider,
        pods: Sequence[PodInfo],
        scores: Mapping[str, int],
    ) -> Gatherer | Rejection:
        try:
            wish = wish_of(spec, network, f"PodGroup {self._gang.id}")
        except KoordError as error:
            return Rejection(self._plugin.name, (str(error),), unresolvable=True)
        name_of = decider.table.name
        near = self._plugin.neighbours.on(selector_of(pods[0].shape))
        existing = {name_of(row): count for row, count in near.items()}
        return Gatherer(self._plugin.name, decider, network, wish, existing, self._held(), scores)

    def _held(self) -> dict[str, int]:
        """By node, pods of the job that have it already."""
        held: dict[str, int] = {}
        for gang in self._gangs:
            for member in gang.members.values():
                info = self._handle.pod(member.uid)
                if member.state is not State.PENDING and info is not None and info.row >= 0:
                    node = self._handle.table.name(info.row)
                    held[node] = held.get(node, 0) + 1
        return held

    def placed(self, pod: PodInfo) -> None:
        """A pod holds a node."""
        self._plugin.gangs.reserved(pod.uid)

    def dropped(self, pod: PodInfo) -> None:
        """A pod lost it again."""
        self._plugin.gangs.unreserved(pod.uid)

    def goes(self) -> None:
        """All that must hold a node do."""
        self._plugin.let_go(self._gang)

    def rejection(self, cause: PodInfo, why: str, waiting: int) -> str:
        """What the others are told when one fits nowhere."""
        return messages.rejected(self._group_id, cause.key, why, waiting)

    def shortage(self, missing: int) -> str:
        """What all are told where pods that are needed cannot be tried."""
        return messages.still_short(self._group_id, missing)

    @property
    def _group_id(self) -> str:
        return self._gang.group.id if self._gang.group is not None else self._gang.id
