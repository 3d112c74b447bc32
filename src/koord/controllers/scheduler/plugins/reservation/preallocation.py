# SPDX-License-Identifier: Apache-2.0
"""Reservations that take over the resources of running pods.

Rule: docs/reference/reservations.md#pre-allocation.

A pod that is taken over becomes an owner: what it uses of the reservation is held only once, so the
reservation fits where ``requested - shared`` leaves room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.base.errors import KoordError
from koord.controllers.cluster.nodes import PODS
from koord.controllers.scheduler.plugins.reservation import fit, owners, reasons
from koord.controllers.scheduler.plugins.reservation.affinity import Wish
from koord.controllers.scheduler.plugins.reservation.offer import (
    PLUGIN,
    RESTRICTED,
    Offer,
    reservation_of,
)
from koord.controllers.scheduler.plugins.reservation.record import Record
from koord.controllers.scheduler.plugins.reservation.reservepod import stands_for_reservation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.api.kinds.reservation import Reservation
    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.rejection import Rejection

DEFAULT_MODE, CLUSTER_MODE = "Default", "Cluster"


class Options(NamedTuple):
    """``preAllocationConfig`` of the plugin's arguments."""

    cluster_mode: bool = False
    label: str = keys.IS_PRE_ALLOCATABLE
    priority: str = keys.PRE_ALLOCATABLE_PRIORITY
    prefer_none: bool = False


class Choice(NamedTuple):
    """What came of a node: the pods to take over, or why none will do."""

    pods: tuple[PodInfo, ...] = ()
    refusal: Rejection | None = None


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
        options: Options,
        skipped: fit.Skipped,
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

    def choose(
        self, row: int, accepts: Callable[[Offer], Rejection | None] | None = None
    ) -> Choice:
        """The pods to take over on a row.

        Args:
            row: where.
            accepts: what other plugins say of a pod that would be taken over.
        """
        alone = self._lacks(row, {}, 0)
        if not alone and not self.required and (self._options.prefer_none or not self.takes_pods):
            return Choice()
        candidates = [
            pod
            for pod in self.candidates(row)
            if accepts is None or accepts(self.offer(pod)) is None
        ]
        chosen = (self._several if self._multiple else self._single)(row, candidates)
        if chosen:
            return Choice(chosen)
        if self.required:
            return Choice((), self._nothing(row, candidates))
        return Choice((), reasons.refused(*reasons.by_node(alone)) if alone else None)

    def offer(self, pod: PodInfo) -> Offer:
        """A pod as what is offered to the reservation, for plugins that keep finer accounts."""
        held = {name: n for name, n in pod.shape.request.items() if n > 0}
        return Offer(
            pod.uid, pod.pod.metadata.name, pod, {}, RESTRICTED, frozenset(held), held, {}, held,
            self.required, pre_allocation=True,
        )  # fmt: skip

    def overlay(self, row: int) -> dict[int, int]:
        """By resource column, the most that taking over pods could free on a row."""
        found: dict[int, int] = {}
        for pod in self.candidates(row):
            found[PODS] = 1
            for name, amount in pod.shape.request.items():
                if name in self._request and amount > 0:
                    index = self._table.resource(name)
                    found[index] = min(self._request[name], found.get(index, 0) + amount)
        return found

    def _single(self, row: int, candidates: list[PodInfo]) -> tuple[PodInfo, ...]:
        fitting = [
            pod
            for pod in candidates
            if not fit.reservation_lacks(self._record, pod.shape.request, self._skipped)
            and not self._lacks(row, pod.shape.request, 1)
        ]
        if not fitting:
            return ()
        return (max(fitting, key=lambda pod: (self.rate(pod), -candidates.index(pod))),)

    def _several(self, row: int, candidates: list[PodInfo]) -> tuple[PodInfo, ...]:
        taken: list[PodInfo] = []
        total: dict[str, int] = {}
        for pod in candidates:
            more = dict(total)
            for name, amount in pod.shape.request.items():
                more[name] = more.get(name, 0) + amount
            if fit.reservation_lacks(self._record, more, self._skipped):
                continue
            taken.append(pod)
            total = more
            if not self._lacks(row, total, len(taken)):
                return tuple(taken)
        return ()

    def _lacks(self, row: int, freed: Mapping[str, int], count: int) -> list[str]:
        """What the node has too little of, when so much of the request is there already."""
        shared = {name: min(n, freed.get(name, 0)) for name, n in self._request.items()}
        needed = {name: n - shared[name] for name, n in self._request.items()}
        lacking = fit.node_lacks(self._table, row, needed, None, self._skipped)
        return [name for name in lacking if not (count and name == "pods")]

    def _nothing(self, row: int, candidates: list[PodInfo]) -> Rejection:
        lacking: list[str] = []
        for pod in candidates:
            lacking += self._lacks(row, pod.shape.request, 1)
        texts = reasons.by_node(lacking) or [reasons.NO_PODS]
        return reasons.refused(*texts)

    def _is_candidate(self, pod: PodInfo) -> bool:
        if reservation_of(pod) or stands_for_reservation(pod.pod) or pod.uid == self._record.uid:
            return False
        if self._mode == CLUSTER_MODE:
            if pod.shape.labels.get(self._options.label) != "true":
                return False
        elif not self._owns(pod):
            return False
        try:
            wish = Wish(pod.shape.pod)
        except KoordError:
            return False
        return wish.refusal(self._record, pod.shape.request, {}) is None

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


def _prospect(reservation: Reservation, request: Mapping[str, int]) -> Record:
    """The reservation as it would be with nobody in it."""
    record = Record(reservation.metadata.uid)
    record.read(reservation)
    record.held = dict(request)
    record.used = dict.fromkeys(request, 0)
    return record


def claimed(pod: PodInfo) -> tuple[str, ...]:
    """The uids of the pods that a reserve pod takes over."""
    allocation = pod.allocations.get(PLUGIN)
    found: tuple[str, ...] = allocation.pre_allocated if allocation is not None else ()
    return found
