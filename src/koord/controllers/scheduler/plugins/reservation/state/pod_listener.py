# SPDX-License-Identifier: Apache-2.0
"""The plugin's part as a PodListener: what reserve pods hold, and who sits where."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from koord.api.protocol import annotation, keys
from koord.api.protocol import reservations as protocol
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.recounting import by_row
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN,
    ReservationAllocation,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.plugins.reservation.state import reservation_cache
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import owns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodBatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )

_LOG = log.get("scheduler")
# What stands for a reservation says so in an annotation, or in a label of koord's.
_MARKED = int(PodField.ANNOTATIONS | PodField.KOORD_LABELS)


class ReservationPodListener:
    """Mixed into the plugin."""

    account: ClassVar[str] = "reservations"
    book: ReservationIndex
    handle: Handle

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what a reserve pod holds, or who sits where."""
        records = self.book.ledger
        if not (pod.shape.fields & _MARKED or pod.allocations or records.claimed):
            return  # which is most of them
        if stands_for_reservation(pod.pod):
            records.hold(row, pod)
            return
        if _in_operating_mode(pod):
            self.book.put_pod(pod.pod)
            records.hold(row, pod)
        allocation = pod.allocations.get(PLUGIN)
        if allocation is not None:
            records.assign_pod(row, pod, allocation.uid)
        records.came(row, pod)

    def pods_added(self, arrivals: Sequence[PodBatch]) -> None:
        """Counts those of many that a reservation has to do with."""
        claimed = self.book.ledger.claimed
        for shape, allocated, rows, pods in arrivals:
            all_of_them = (
                allocated
                or keys.RESERVE_POD in shape.annotations
                or keys.OPERATING_MODE in shape.labels
            )
            for row, pod in zip(rows, pods, strict=True) if all_of_them or claimed else ():
                if all_of_them or pod.uid in claimed:
                    self.pod_added(row, pod)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse of :meth:`pod_added`."""
        records = self.book.ledger
        if stands_for_reservation(pod.pod):
            records.release(row, pod)
            return
        records.went(row, pod)
        allocation = pod.allocations.get(PLUGIN)
        if allocation is not None:
            records.unassign_pod(row, pod, allocation.uid)
            self.book.unjudged.get(allocation.uid, set()).discard(pod.uid)
        if _in_operating_mode(pod):
            self.book.remove(pod.uid)
            records.release(row, pod)

    def restore(self, pod: PodInfo) -> None:
        """Reads in which reservation a bound pod sits."""
        if keys.RESERVATION_ALLOCATED not in pod.pod.metadata.annotations:
            return
        try:
            found = protocol.reservation_allocated(pod.pod)
        except KoordError as error:
            where = log.fields(pod=pod.key, error=str(error))
            _LOG.warning("it is not known in which reservation a pod sits", extra=where)
            return
        if found is None or not found.uid:
            return
        wrong = self._contradicted(pod.pod, found.uid, found.name)
        self.handle.contradictions.note(pod.pod, keys.RESERVATION_ALLOCATED, wrong)
        if not self.book.is_known(found.uid):
            self.book.unjudged.setdefault(found.uid, set()).add(pod.uid)
        if wrong is None:
            pod.allocations[PLUGIN] = ReservationAllocation(found.uid, found.name)

    def _contradicted(self, pod: Pod, uid: str, name: str) -> KoordError | None:
        """Why a pod does not sit where it says: the reservation is known, and not for such pods.

        Rule: docs/reference/reservations.md#what-a-bound-pod-says.
        """
        record = self.book.get(uid)
        if record is None or not record.known or record.error:
            return None
        if owns(record, pod, personal=True) or protocol.ignores_reservations(pod):
            return None
        field = annotation.field_of(keys.RESERVATION_ALLOCATED)
        return KoordError(pod.title, field, name, "a Reservation that has it among its owners")

    def _judge_seats(self, uid: str) -> None:
        """A reservation came after pods that say that they sit in it."""
        accounts = self.handle.accounts
        for each in self.book.unjudged.pop(uid, ()):
            pod = accounts.get(each)
            if pod is None or pod.decided:
                continue
            fresh = PodInfo(pod.pod, pod.shape)
            self.restore(fresh)
            if PLUGIN not in fresh.allocations:
                row = pod.row
                accounts.drop(pod)
                pod.allocations = {k: v for k, v in pod.allocations.items() if k != PLUGIN}
                accounts.add(row, pod)

    def recount(self) -> Iterator[str | None]:
        """What reservations have given away, node by node."""
        return by_row(self.book.table, self._differs)

    def _differs(self, row: int) -> bool:
        """Whether a reserve pod of a row is not on the books, or its record is wrong."""
        counted = self.book.ledger.by_row.get(row, {})
        missing = any(
            uid not in counted and _holds(pod) for uid, pod in self.book.table.pods[row].items()
        )
        return missing or self.book.ledger.differs(row)

    def counted_twice(self, row: int) -> dict[str, int]:
        """By resource, what of a row's pods the node table does not sum up; for its checks."""
        return reservation_cache.counted_twice(self.book.table, row)


def _in_operating_mode(pod: PodInfo) -> bool:
    return pod.shape.labels.get(keys.OPERATING_MODE) == protocol.RESERVATION


def _holds(pod: PodInfo) -> bool:
    """Whether a pod counts for a reservation."""
    shape = pod.shape
    if keys.OPERATING_MODE in shape.labels:
        return _in_operating_mode(pod)
    return keys.RESERVE_POD in shape.annotations and stands_for_reservation(pod.pod)
