# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of reservations, and whether one satisfies it.

Rule: docs/reference/reservations.md#what-a-pod-says-of-reservations.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from koord.api.kinds.constraints import Taint
from koord.api.protocol import annotation, keys
from koord.api.protocol import reservations as protocol
from koord.api.tolerations import tolerates
from koord.controllers.scheduler.plugins.reservation.objects import node_selector_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.constraints import NodeSelectorTerm, Toleration
    from koord.api.kinds.pod import Pod

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class AffinityMismatch(Enum):
    """Why a pod that owns a reservation does not get it."""

    NAME = "didn't match the requested reservation name"
    AFFINITY = "didn't match affinity rules"
    UNSCHEDULABLE = "is unschedulable"
    EXACT = "is not exact matched"
    TAINT = "had untolerated taint"


class ReservationTraits(Protocol):
    """What pods select a reservation by.

    Attributes:
        name: of the object.
        labels: the object's.
        taints: those that pods have to tolerate.
        held: what it holds, by resource.
        unschedulable, deleting: no pod gets it any more that does not tolerate it.
    """

    name: str
    labels: dict[str, str]
    taints: list[Taint]
    held: dict[str, int]
    unschedulable: bool
    deleting: bool


class ReservationRequest:
    """What a pod asks of reservations.

    Args:
        pod: whose annotations and labels are read.

    Attributes:
        ignores: the pod uses reserved and free resources alike.
        required: the pod must use a reservation.
        name: the one it must use; empty for any.

    Raises:
        KoordError: a malformed annotation.
    """

    __slots__ = ("_exact", "_selector", "_terms", "ignores", "name", "required", "tolerations")

    def __init__(self, pod: Pod) -> None:
        self.ignores = protocol.ignores_reservations(pod)
        affinity = protocol.reservation_affinity(pod)
        self._exact = protocol.exact_match(pod)
        self.required = affinity is not None
        self.name = affinity.name if affinity else ""
        self.tolerations: Sequence[Toleration] = affinity.tolerations if affinity else ()
        self._selector = affinity.reservation_selector if affinity else {}
        self._terms: Sequence[NodeSelectorTerm] | None = None
        wanted = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if wanted is not None:
            self._terms = wanted.reservation_selector_terms
            where = annotation.field_of(keys.RESERVATION_AFFINITY)
            where += ".requiredDuringSchedulingIgnoredDuringExecution.reservationSelectorTerms"
            node_selector_terms.check(self._terms, pod.title, where)

    @property
    def selector(self) -> Mapping[str, str]:
        """Labels that the reservation must have; empty where a name decides."""
        return {} if self.name else self._selector

    @property
    def is_plain(self) -> bool:
        """Whether the pod asks no more than that a reservation is for it."""
        return not (self.ignores or self.required) and self._exact is None

    @property
    def reads_labels(self) -> bool:
        """Whether labels of reservations, and of their nodes, count."""
        return bool(self._selector or self._terms is not None) and not self.name

    def mismatch(
        self, record: ReservationTraits, request: Mapping[str, int], node_labels: Mapping[str, str]
    ) -> AffinityMismatch | None:
        """Why a reservation that is for the pod is not what it asks for.

        Args:
            record: the reservation.
            request: of the pod, by resource.
            node_labels: of the reservation's node; empty if they do not count.
        """
        if self.name:
            if self.name != record.name:
                return AffinityMismatch.NAME
            return None if self._matches_exactly(record, request) else AffinityMismatch.EXACT
        if (record.unschedulable or record.deleting) and not self._tolerates(_UNSCHEDULABLE):
            return AffinityMismatch.UNSCHEDULABLE
        if self.required and self.untolerated(record) is not None:
            return AffinityMismatch.TAINT
        if self.reads_labels and not self._selects(record, node_labels):
            return AffinityMismatch.AFFINITY
        return None if self._matches_exactly(record, request) else AffinityMismatch.EXACT

    def untolerated(self, record: ReservationTraits) -> Taint | None:
        """The first taint that keeps the pod away."""
        return next((taint for taint in record.taints if not self._tolerates(taint)), None)

    def _tolerates(self, taint: Taint) -> bool:
        return tolerates(self.tolerations, taint)

    def _selects(self, record: ReservationTraits, node_labels: Mapping[str, str]) -> bool:
        labels = {**node_labels, **record.labels}
        if any(labels.get(key) != value for key, value in self._selector.items()):
            return False
        return self._terms is None or node_selector_terms.match(self._terms, labels, record.name)

    def _matches_exactly(self, record: ReservationTraits, request: Mapping[str, int]) -> bool:
        return protocol.matches_exactly(self._exact, request, record.held)


def described(taint: Taint) -> str:
    """A taint in messages."""
    return f"{{{taint.key}: {taint.value}}}"
