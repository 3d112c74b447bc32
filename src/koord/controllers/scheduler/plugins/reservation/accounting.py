# SPDX-License-Identifier: Apache-2.0
"""The plugin's part as a PodListener: what reserve pods hold, and who sits where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.api.protocol import reservations as protocol
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.reservation import ledger
from koord.controllers.scheduler.plugins.reservation.offer import PLUGIN, Allocation
from koord.controllers.scheduler.plugins.reservation.reservepod import stands_for_reservation

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.reservation.book import Book

_LOG = log.get("scheduler")


class Accounting:
    """Mixed into the plugin."""

    book: Book

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what a reserve pod holds, or who sits where."""
        records = self.book.ledger
        if stands_for_reservation(pod.pod):
            records.hold(row, pod)
            return
        if pod.shape.labels.get(keys.OPERATING_MODE) == protocol.RESERVATION:
            self.book.put_pod(pod.pod)
            records.hold(row, pod)
        allocation = pod.allocations.get(PLUGIN)
        if allocation is not None:
            records.sit(row, pod, allocation.uid)
        records.came(row, pod)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse of :meth:`pod_added`."""
        records = self.book.ledger
        if stands_for_reservation(pod.pod):
            records.release(row, pod)
            return
        records.went(row, pod)
        allocation = pod.allocations.get(PLUGIN)
        if allocation is not None:
            records.rise(row, pod, allocation.uid)
        if pod.shape.labels.get(keys.OPERATING_MODE) == protocol.RESERVATION:
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
            pod.allocations[PLUGIN] = Allocation(found.uid, found.name)

    def counted_twice(self, row: int) -> dict[str, int]:
        """By resource, what of a row's pods the node table does not sum up; for its checks."""
        return ledger.counted_twice(self.book.table, row)
