# SPDX-License-Identifier: Apache-2.0
"""The Coscheduling plugin: gates, permits and marks gangs; the planner places them."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.api.kinds.reservation import Reservation
from koord.api.protocol import absent, keys
from koord.api.protocol.annotation import field_of
from koord.api.protocol.gang import network_topology_spec
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.feasibility.best_node import normalized
from koord.controllers.scheduler.framework.plugin import (
    Normalization,
    Plugin,
    PostFilterResult,
)
from koord.controllers.scheduler.framework.rejection import Rejection, Wait
from koord.controllers.scheduler.plugins.coscheduling import debug, reasons
from koord.controllers.scheduler.plugins.coscheduling.allocation.gang_job import (
    GangJob,
    GangJobInputs,
)
from koord.controllers.scheduler.plugins.coscheduling.allocation.job_preemption import (
    JobPreemption,
)
from koord.controllers.scheduler.plugins.coscheduling.metrics import GangMetrics
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.scoring import (
    NetworkProximity,
    SelectorPodCounts,
    selector_of,
)
from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
from koord.controllers.scheduler.plugins.coscheduling.state.network_topology import (
    NetworkTopologyCache,
)
from koord.controllers.scheduler.plugins.coscheduling.writers.network_topology_controller import (
    NetworkTopologyController,
)
from koord.controllers.scheduler.plugins.coscheduling.writers.pod_group_controller import (
    PodGroupController,
)
from koord.controllers.scheduler.plugins.coscheduling.writers.waiting_gang_controller import (
    WaitingGangController,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import reserve_pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from koord.base.metrics import MetricRegistry
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.config.args_gangs_and_quota import CoschedulingArgs
    from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.job_planning.plan import GangCounts
    from koord.controllers.scheduler.plugins.coscheduling.state.gangs import Gang

# Pods without any of these are of no gang.
_NAMES_GANG = int(PodField.KOORD_LABELS | PodField.ANNOTATIONS)
# Where it has nothing to do for pods of no gang.
_OF_GANGS = ("pre_filter", "reserve", "permit", "pre_bind", "post_bind")
_BOUND_TOGETHER = (
    (keys.BIND_GANG_GROUP_ID, keys.BIND_GANG_MEMBER_COUNT),
    (keys.BIND_GANG_GROUP_ID_OLD, keys.BIND_GANG_MEMBER_COUNT_OLD),
)


class Coscheduling(Plugin):
    """Plans the pods of gangs together; rules: docs/reference/gangs.md."""

    name: ClassVar[str] = "Coscheduling"
    reads = PodField.ANNOTATIONS | PodField.KOORD_LABELS
    restores_from: ClassVar[tuple[str, ...]] = ()
    depends: ClassVar[Aspect] = Aspect.NODE
    normalization: ClassVar[Normalization] = Normalization.CUSTOM

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args: CoschedulingArgs = args
        defaults = decl.GangDefaults(args.default_timeout.seconds, args.default_match_policy)
        self.gangs = GangCache(defaults, handle.clock.wall_seconds, self._complete)
        self.gangs.on_late = self._names_late
        self.topology = NetworkTopologyCache(handle)
        self.neighbours = SelectorPodCounts()
        # A planner is at work: what it takes back is its own affair.
        self.planning = False
        self._metrics: GangMetrics | None = None
        self._nearness = NetworkProximity(handle.table, self.topology)
        self._job_inputs = GangJobInputs(
            self.name, handle, self.gangs, self.topology if args.aware_network_topology else None,
            self.neighbours, self.let_go,
        )  # fmt: skip
        self._preemption = (
            JobPreemption(self.name, handle, self.gangs, self.job_of)
            if args.enable_preemption
            else None
        )
        self._pods, self._pod_groups = handle.view(Pod), handle.view(PodGroup)
        self._pod_groups.on_change(
            self._pod_group_seen,
            lambda _, new: self._pod_group_seen(new),
            lambda old, _: self._pod_group_gone(old),
        )
        self._pod_groups.on_unreadable(
            lambda key, why: handle.invalid.unreadable(PodGroup, key, why)
        )
        self._pods.on_change(
            self.gangs.pod_changed,
            self.gangs.pod_updated,
            lambda old, _: self.gangs.pod_gone(old.metadata.uid),
            self.gangs.concerned,
        )
        handle.view(Reservation).on_change(
            self._reservation_seen,
            lambda _, new: self._reservation_seen(new),
            lambda old, _: self.gangs.pod_deleted(old.metadata.uid),
        )

    def measure(self, into: MetricRegistry) -> None:
        """Begins to keep metrics; those of several profiles' plugins are the first one's."""
        self._metrics = GangMetrics.of(into)

    def refresh_metrics(self) -> None:
        """Brings them up to date, before they are read."""
        if self._metrics is not None:
            self._metrics.update(self.gangs.gangs.values())

    def _pod_group_seen(self, pod_group: PodGroup) -> None:
        """Who waits on Permit for what the PodGroup asks no longer goes now."""
        gang_id = f"{pod_group.metadata.namespace}/{pod_group.metadata.name}"
        gang = self.gangs.gangs.get(gang_id)
        lacked = gang is not None and self.gangs.missing(gang) > 0
        self.gangs.pod_group_changed(pod_group)
        wrong = self.gangs.gangs[gang_id].error or next(
            chain(
                absent.pod_group(pod_group),
                absent.gang_groups(pod_group),
                absent.gang_ids(pod_group),
            ),
            None,
        )
        if not wrong and not self.args.aware_network_topology:
            wrong = _overlooked(pod_group)
        self.handle.invalid.judge(PodGroup, pod_group, wrong)
        if gang is not None and lacked and not self.gangs.missing(gang):
            self.let_go(gang)

    def _pod_group_gone(self, pod_group: PodGroup) -> None:
        self.gangs.pod_group_deleted(pod_group)
        self.handle.invalid.gone(PodGroup, pod_group)

    def _names_late(self, pod: Pod, counts: str | None) -> None:
        """Tells of a pod that names a gang other than the one in which it got its node."""
        error = None
        if counts is not None:
            expected = f"the gang in which it got its node, which is what counts: {counts or None}"
            error = KoordError(pod.title, "gang", decl.gang_id(pod) or None, expected)
        self.handle.contradictions.note(pod, keys.GANG_NAME, error)

    def _reservation_seen(self, reservation: Reservation) -> None:
        """A Reservation may be of a gang too; the pod that stands for it has its uid."""
        # One that cannot be read is refused by the plugin whose object it is.
        with suppress(KoordError):
            self.gangs.pod_changed(reserve_pod(reservation))

    # What the planner asks.

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a pod belongs to a gang."""
        return bool(self._gang_of(pod.shape))

    def job_of(self, pod: PodInfo) -> GangJob | Rejection:
        """The pod's gangs, or why they cannot be tried."""
        self.gangs.pod_changed(pod.pod)
        obstacle = self.gangs.blocking_reason(pod.pod)
        gang = self.gangs.of(pod.uid)
        if obstacle or gang is None:
            return Rejection(self.name, (obstacle,), unresolvable=True)
        return GangJob(self._job_inputs, gang)

    def gang_counts(self, pod: PodInfo) -> list[GangCounts]:
        """How many pods the gangs of a pod's group have, and where; none for a pod of no gang."""
        gang = self.gangs.of(pod.uid)
        return self.gangs.gang_counts(gang) if gang is not None else []

    def with_minimum(self, gang_id: str, minimum: int) -> AbstractContextManager[None]:
        """As if a gang asked for another number of pods."""
        return self.gangs.with_minimum(gang_id, minimum)

    def _gang_id(self, pod: PodInfo) -> str:
        return self._gang_of(pod.shape)

    def _gang_of(self, shape: PodShape) -> str:
        known: str | None = shape.memo.get(self.name)
        if known is None:
            named = shape.fields & _NAMES_GANG
            known = shape.memo[self.name] = decl.gang_id(shape.pod) if named else ""
        return known

    # Extension points.

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods of no gang; those without a selector are nobody's neighbours."""
        gang = () if self._gang_of(shape) else _OF_GANGS
        return gang if selector_of(shape) else (*gang, "filter", "score", "pod_added")

    def pre_enqueue(self, pod: PodInfo) -> Rejection | None:
        """Holds a pod back until its gang is there."""
        if not self._gang_id(pod):
            return None
        self.gangs.pod_changed(pod.pod)
        return self._checked(pod)

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """The same for attempts that no planner makes, such as explanations."""
        return None if cycle.members else self._checked(cycle.pod)

    def _checked(self, pod: PodInfo) -> Rejection | None:
        if not self._gang_id(pod):
            return None
        # An explanation asks about a pod as it came, which is not what is known of it.
        if self.gangs.of(pod.uid) is None:
            self.gangs.pod_changed(pod.pod)
        obstacle = self.gangs.blocking_reason(pod.pod)
        return Rejection(self.name, (obstacle,), unresolvable=True) if obstacle else None

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Makes room for the whole job, where that is switched on."""
        if self._preemption is None:
            return PostFilterResult()
        return self._preemption.post_filter(cycle, diagnosis)

    def applies(self, cycle: Cycle) -> bool:
        """Whether the pod wants to be near others."""
        return bool(selector_of(cycle.shape)) and self.topology.network() is not None

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """Nothing by itself: nearness compares nodes, see :meth:`normalize`."""
        return np.zeros(len(cycle.table.open[rows]), np.int64)

    def normalize(
        self, cycle: Cycle, raw: NDArray[np.int64], feasible: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """By feasible row, 100 for the nearest to 0 for the farthest."""
        existing = self.neighbours.on(selector_of(cycle.shape))
        return normalized(Normalization.REVERSED, self._nearness.ranks(existing, feasible))

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Notes that the pod holds a node."""
        self._holds(cycle)
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Notes that it does not; others of a Strict gang that still wait lose theirs too."""
        uid = cycle.pod.uid
        gang = self.gangs.of(uid)
        # An attempt about a pod that holds a node by another one, as explain's, takes nothing back.
        if not cycle.state.pop(self.name, False):
            return
        if not self.gangs.unreserved(uid) or gang is None or gang.free or gang.declared is None:
            return
        if gang.declared.mode == decl.STRICT and not self.planning:
            text = reasons.released(gang.id, cycle.pod.pod.metadata.name)
            self.reject_waiting(gang, text)

    def _holds(self, cycle: Cycle) -> None:
        if self.gangs.reserved(cycle.pod.uid):
            cycle.state[self.name] = True

    def permit(self, cycle: Cycle, row: int) -> Rejection | Wait | None:
        """Waits until the pod's gangs have all they need; then lets all of them go."""
        if not self._gang_id(cycle.pod):
            return None
        gang = self.gangs.of(cycle.pod.uid)
        if gang is None or gang.declared is None:
            return Rejection(self.name, (reasons.GANG_NOT_FOUND,))
        self._holds(cycle)
        if not self.gangs.may_go(gang):
            return Wait(self.name, gang.declared.wait_seconds)
        if not cycle.members:
            self.let_go(gang)
        return None

    async def pre_bind(self, cycle: Cycle, row: int, changes: PendingPatch) -> None:
        """Marks pods that are bound together."""
        gang = self.gangs.of(cycle.pod.uid)
        group = gang.group if gang is not None else None
        round_ = group.round if group is not None else frozenset()
        if group is None or len(round_) < 2 or cycle.pod.uid not in round_:
            return
        for group_key, count_key in _BOUND_TOGETHER:
            changes.annotations[group_key] = group.id
            changes.annotations[count_key] = str(len(round_))

    def post_bind(self, cycle: Cycle, row: int) -> None:
        """Notes that the pod has its node for good."""
        self.gangs.bound(cycle.pod.uid)

    # Accounts.

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts pods by selector."""
        self.neighbours.add(row, pod)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        self.neighbours.remove(row, pod)

    def restore(self, pod: PodInfo) -> None:
        """Nothing: a gang is known by what its pods and PodGroup say."""

    # Beside the loop.

    def controllers(self) -> Sequence[tuple[str, Callable[[], Awaitable[object]]]]:
        """PodGroups' phases, the network's tree, and what incomplete gangs wait for."""
        client = self.handle.client
        if client is None:
            return ()
        pod_groups = PodGroupController(
            self.gangs, self._pod_groups, self._pods, client, self.handle.clock,
            self.args.controller_workers, self.handle.supervisor,
        )  # fmt: skip
        networks = NetworkTopologyController(self.topology, client, self.handle.supervisor)
        overdue = WaitingGangController(self.gangs, self.handle.clock, self.handle.unschedulable)
        return (
            ("podgroup-controller", pod_groups.run),
            ("network-topology", networks.run),
            ("overdue-gangs", overdue.run),
        )

    debug_paths: ClassVar[Sequence[str]] = ("gangs", "gang/:namespace/:name")

    def debug(self, path: Sequence[str]) -> object:
        """``gangs`` and ``gang/NAMESPACE/NAME``."""
        if list(path) == ["gangs"]:
            return debug.gangs(self.gangs)
        if len(path) == 3 and path[0] == "gang":
            return debug.gang(self.gangs, path[1], path[2])
        return super().debug(path)

    # Groups.

    def let_go(self, gang: Gang) -> None:
        """All of a group that hold nodes, and miss nothing themselves, may be bound."""
        for uid in self._on_permit(self.gangs.let_go(gang)):
            self.handle.allow(uid)

    def reject_waiting(self, gang: Gang, text: str) -> None:
        """All that wait on Permit of the gangs that go with this one give up what they hold."""
        group = self.gangs.group(gang)
        for uid in self._on_permit([each for each in group if each.names(gang.id)]):
            self.handle.reject(uid, Rejection(self.name, (text,)))

    def _on_permit(self, gangs: Iterable[Gang]) -> list[str]:
        ids = {each.id for each in gangs}
        waiting = (pod.uid for pod in self.handle.waiting())
        return [uid for uid in waiting if (of := self.gangs.of(uid)) and of.id in ids]

    def _complete(self, uids: Iterable[str]) -> None:
        self.handle.activate(uids)


def _overlooked(pod_group: PodGroup) -> KoordError | None:
    """The wish for a place in the network, where nobody looks at networks."""
    key = keys.GANG_NETWORK_TOPOLOGY_SPEC
    spec = network_topology_spec(pod_group)
    if spec is None or not spec.gather_strategy:
        return None
    says = pod_group.metadata.annotations[key]
    expected = "awareNetworkTopology: true in CoschedulingArgs: without it that counts as absent"
    return KoordError(pod_group.title, field_of(key), says, expected)
