# SPDX-License-Identifier: Apache-2.0
"""Reservations that take over the resources of running pods.

Rule: docs/reference/reservations.md#pre-allocation.

A pod that is taken over becomes an owner: what it uses of the reservation is held only once, so the
reservation fits where ``requested - shared`` leaves room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import ABSENT, PODS
from koord.controllers.scheduler.plugins.reservation import reasons
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN,
    RESTRICTED,
    MatchedReservation,
    reservation_of,
)
from koord.controllers.scheduler.plugins.reservation.objects import owners
from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    ReservationRequest,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.plugins.reservation.state import fit
from koord.controllers.scheduler.plugins.reservation.state.reservation_info import ReservationInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.api.kinds.reservation import Reservation
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.rejection import Rejection

    Accepts = Callable[[MatchedReservation], Rejection | None]

DEFAULT_MODE, CLUSTER_MODE = "Default", "Cluster"


class PreAllocationOptions(NamedTuple):
    """``preAllocationConfig`` of the plugin's arguments: how pods are taken over."""

    cluster_mode: bool = False
    label: str = keys.IS_PRE_ALLOCATABLE
    priority: str = keys.PRE_ALLOCATABLE_PRIORITY
    prefer_none: bool = False

    @classmethod
    def of_args(cls, args: Any) -> PreAllocationOptions:
        """Those of the plugin's arguments."""
        config = args.pre_allocation_config
        if config is None:
            return cls()
        return cls(
            config.enable_cluster_mode,
            config.cluster_label_key or keys.IS_PRE_ALLOCATABLE,
            config.cluster_priority_annotation_key or keys.PRE_ALLOCATABLE_PRIORITY,
            config.prefer_no_pre_allocated_pods,
        )


class PreAllocationChoice(NamedTuple):
    """What came of a node: the pods to take over, or why none will do."""

    pods: tuple[PodInfo, ...] = ()
    refusal: Rejection | None = None


class Lacks:
    """What stands in the way of taking over pods of a node.

    Attributes:
        node: the resources that the node has too little of.
        own: reasons of the reservation and of other plugins, one a pod that is passed over.
    """

    def __init__(self) -> None:
        self.node: list[str] = []
        self.own: list[str] = []


class PreAllocation:
    """One pre-allocating reservation's look for pods to take over.

    Args:
        reservation: what is to be placed.
        shape: of its reserve pod.
        table: the nodes.
        options: of the plugin.
        skipped: resources that are left to other plugins.
    """

    def __init__(
        self,
        reservation: Reservation,
        shape: PodShape,
        table: NodeTable,
        options: PreAllocationOptions,
        skipped: fit.IgnoredResources,
    ) -> None:
        policy = reservation.spec.pre_allocation_policy
        self.reservation = reservation
        self.required = protocol.requires_pre_allocation(reservation)
        self._mode = policy.mode if policy else DEFAULT_MODE
        self._multiple = policy.enable_multiple if policy else False
        self._request = {name: n for name, n in shape.request.items() if n > 0}
        self._record = _prospect(reservation, self._request)
        self._table = table
        self._options = options
        self._skipped = skipped

    def early_refusal(self) -> Rejection | None:
        """Why no node will do."""
        if self.reservation.spec.allocate_policy != RESTRICTED:
            return reasons.unresolvable(reasons.UNSUPPORTED) if self.required else None
        if self._mode == CLUSTER_MODE and not self._options.cluster_mode:
            return reasons.unresolvable(reasons.CLUSTER_MODE_OFF)
        return None

    @property
    def takes_pods(self) -> bool:
        """Whether pods may be taken over at all; else it is a reservation as any."""
        return self.reservation.spec.allocate_policy == RESTRICTED

    def candidates(self, row: int) -> list[PodInfo]:
        """The pods of a row that may be taken over, the first choice first."""
        if not self.takes_pods:
            return []
        found = [pod for pod in self._table.pods[row].values() if self._is_candidate(pod)]
        if self._mode == CLUSTER_MODE:
            return sorted(found, key=lambda pod: (-self._priority(pod), pod.uid))
        return sorted(found, key=lambda pod: (-self.rate(pod), pod.uid))

    def rate(self, pod: PodInfo) -> int:
        """0..100: how well a pod fills the reservation."""
        return fit.score(self._record, pod.shape.request)

    def choose(self, row: int, accepts: Accepts | None = None) -> PreAllocationChoice:
        """The pods to take over on a row.

        Args:
            row: where.
            accepts: what other plugins say of a pod that would be taken over.
        """
        alone = self._shortfall(row, {}, 0)
        if not alone and not self.required and (self._options.prefer_none or not self.takes_pods):
            return PreAllocationChoice()
        found = Lacks()
        chosen = (self._several if self._multiple else self._single)(row, accepts, found)
        return (
            PreAllocationChoice(chosen)
            if chosen
            else PreAllocationChoice((), self._refusal(found, alone))
        )

    def score(self, choice: PreAllocationChoice) -> int:
        """0..100: how good a node is; of several pods the fewest are best."""
        if self._multiple:
            return 100 // (1 + len(choice.pods))
        return self.rate(choice.pods[0]) if choice.pods else 0

    def offer(self, pod: PodInfo) -> MatchedReservation:
        """A pod as what is offered to the reservation, for plugins that keep finer accounts."""
        held = {name: n for name, n in pod.shape.request.items() if n > 0}
        return MatchedReservation(
            pod.uid, pod.pod.metadata.name, pod, {}, RESTRICTED, frozenset(held), held, {}, held,
            self.required, pre_allocation=True,
        )  # fmt: skip

    def overlay(self, row: int) -> dict[int, int]:
        """By resource column, the most that taking over pods could free on a row."""
        shortfalls: dict[int, int] = {}
        for pod in self.candidates(row):
            shortfalls[PODS] = 1
            for name, amount in pod.shape.request.items():
                index = self._table.resource(name)
                if name in self._request and amount > 0 and index != ABSENT:
                    shortfalls[index] = min(self._request[name], shortfalls.get(index, 0) + amount)
        return shortfalls

    def _single(self, row: int, accepts: Accepts | None, shortfalls: Lacks) -> tuple[PodInfo, ...]:
        fitting = []
        for pod in self._useful(row):
            node = self._shortfall(row, pod.shape.request, 1)
            own = fit.reservation_shortfall(self._record, pod.shape.request, self._skipped)
            own += self._refused_by_others(pod, accepts)
            shortfalls.node += node
            shortfalls.own += own
            if not node and not own:
                fitting.append(pod)
        # Among equals the first.
        return (max(fitting, key=self.rate),) if fitting else ()

    def _several(self, row: int, accepts: Accepts | None, shortfalls: Lacks) -> tuple[PodInfo, ...]:
        taken: list[PodInfo] = []
        total: dict[str, int] = {}
        for pod in self._useful(row):
            more = dict(total)
            for name, amount in pod.shape.request.items():
                more[name] = more.get(name, 0) + amount
            shortfalls.node = self._shortfall(row, more, len(taken) + 1)
            own = fit.reservation_shortfall(self._record, more, self._skipped)
            own = own or self._refused_by_others(pod, accepts)
            shortfalls.own += own
            if own:
                continue
            taken.append(pod)
            total = more
            if not shortfalls.node:
                return tuple(taken)
        return ()

    def _useful(self, row: int) -> list[PodInfo]:
        """The candidates that ask for anything the reservation holds."""
        return [p for p in self.candidates(row)
                if fit.shares_resources(self._record, p.shape.request)]  # fmt: skip

    def _refused_by_others(self, pod: PodInfo, accepts: Accepts | None) -> list[str]:
        refused = accepts(self.offer(pod)) if accepts is not None else None
        return list(refused.reasons) if refused is not None else []

    def _shortfall(self, row: int, freed: Mapping[str, int], count: int) -> list[str]:
        """What the node has too little of, when so much of the request is there already."""
        shared = {name: min(n, freed.get(name, 0)) for name, n in self._request.items()}
        needed = {name: n - shared[name] for name, n in self._request.items()}
        lacking = fit.node_shortfall(self._table, row, needed, None, self._skipped)
        return [name for name in lacking if not (count and name == "pods")]

    def _refusal(self, shortfalls: Lacks, alone: list[str]) -> Rejection | None:
        """Why a node will not do; None where it has room without pods to take over."""
        if self.required:
            texts = [*reasons.by_node(shortfalls.node), *shortfalls.own]
            return reasons.refused(*(texts or [reasons.NO_PODS]))
        lacking = shortfalls.node or alone
        return reasons.refused(*reasons.by_node(lacking)) if lacking else None

    def _is_candidate(self, pod: PodInfo) -> bool:
        if reservation_of(pod) or stands_for_reservation(pod.pod) or pod.uid == self._record.uid:
            return False
        if self._mode == CLUSTER_MODE:
            if pod.shape.labels.get(self._options.label) != "true":
                return False
        elif not self._owns(pod):
            return False
        try:
            wanted = ReservationRequest(pod.shape.pod)
        except KoordError:
            return False
        return wanted.mismatch(self._record, pod.shape.request, {}) is None

    def _owns(self, pod: PodInfo) -> bool:
        """Whether the pod is an owner by an entry with a label selector."""
        return any(
            entry.label_selector is not None and owners.matches(entry, pod.pod)
            for entry in self._record.entries
        )

    def _priority(self, pod: PodInfo) -> int:
        text = pod.shape.annotations.get(self._options.priority, "")
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0


def _prospect(reservation: Reservation, request: Mapping[str, int]) -> ReservationInfo:
    """The reservation as it would be with nobody in it."""
    record = ReservationInfo(reservation.metadata.uid)
    record.read(reservation)
    record.held = dict(request)
    record.used = dict.fromkeys(request, 0)
    return record


def claimed(pod: PodInfo) -> tuple[str, ...]:
    """The uids of the pods that a reserve pod takes over."""
    allocation = pod.allocations.get(PLUGIN)
    found: tuple[str, ...] = allocation.pre_allocated if allocation is not None else ()
    return found
