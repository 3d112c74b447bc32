# SPDX-License-Identifier: Apache-2.0
"""The plugin's part as a PodListener: what reserve pods hold, and who sits where."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.framework.recounting import by_row
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN,
    ReservationAllocation,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.plugins.reservation.state import reservation_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.controllers.cluster.pods import PodBatch, PodInfo
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )

_LOG = log.get("scheduler")


class ReservationPodListener:
    """Mixed into the plugin."""

    account: ClassVar[str] = "reservations"
    book: ReservationIndex

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what a reserve pod holds, or who sits where."""
        records = self.book.ledger
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
        if found is not None and found.uid:
            pod.allocations[PLUGIN] = ReservationAllocation(found.uid, found.name)

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
