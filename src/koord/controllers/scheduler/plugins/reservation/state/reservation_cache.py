# SPDX-License-Identifier: Apache-2.0
"""Who sits in which reservation, and what of it the node table would count twice.

On the node table a reserve pod counts with all it holds, and its owners count as every pod does. An
owner takes the place of what is held for it, so of both only the greater counts::

    requested = others + max(held, used)        for each reservation and resource

The table sums ``held + used``; the lesser of the two is taken off here, whenever a pod comes or
goes. So ``NodeTable.requested`` is what a pod sees that matches no reservation, exactly, and no
pod has to be added or removed for an attempt. The one place that every pod takes on its node is a
resource like others: a reservation holds one as long as nobody sits in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN,
    ReservationAllocation,
    holders,
)
from koord.controllers.scheduler.plugins.reservation.state.columns import ReservationColumns
from koord.controllers.scheduler.plugins.reservation.state.reservation_info import ReservationInfo

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import Amounts

_JOURNAL = 1 << 14


class ReservationCache:
    """The records of one node table.

    All moves are idempotent, so that several plugins may tell of the same pod.

    Attributes:
        records: by uid.
        version: counts changes of records.
        by_row: the records that count on a row, by uid.
        columns: what is left in them, for questions about many rows.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.records: dict[str, ReservationInfo] = {}
        self.by_row: dict[int, dict[str, ReservationInfo]] = {}
        self.columns = ReservationColumns(table)
        # Who sits where, whether or not the reservation counts there already.
        self._seats: dict[tuple[str, int], dict[str, PodInfo]] = {}
        self._claimed_by: dict[str, ReservationInfo] = {}
        self.version = 0
        self._journal: list[str] = []
        self._start = 0

    def changes(self, since: int) -> list[str] | None:
        """The uids of records that changed, each once; None if too many did."""
        start = since - self._start
        if start < 0:
            return None
        if start + 1 == len(self._journal):
            return self._journal[start:]
        return list(dict.fromkeys(self._journal[start:]))

    def record(self, uid: str) -> ReservationInfo:
        """The record of a uid, made if there is none."""
        found = self.records.get(uid)
        if found is None:
            if not self.records:
                self.table.advance_generation()  # The plugin was idle.
            found = self.records[uid] = ReservationInfo(uid)
        return found

    def changed(self, record: ReservationInfo) -> None:
        """Makes answers stale that depend on a record."""
        self._journal.append(record.uid)
        self.columns.changed(record)
        self.version += 1
        if len(self._journal) > _JOURNAL:
            half = _JOURNAL // 2
            del self._journal[:half]
            self._start += half
        if record.row >= 0:
            # Of pods too: for those that match it, what filters see of the row is another.
            self.table.touch(record.row, Aspect.RESERVATIONS | Aspect.PODS)

    def drop(self, record: ReservationInfo) -> None:
        """Forgets a record that neither object nor pod speak of any more."""
        if not record.known and record.pod is None:
            self.records.pop(record.uid, None)
            self.columns.drop(record.uid)
            if not self.records:
                self.table.advance_generation()

    def hold(self, row: int, pod: PodInfo) -> None:
        """A pod counts for its reservation from now on."""
        record = self.record(pod.uid)
        if record.pod is pod:
            return
        allocation = pod.allocations.get(PLUGIN)
        record.pod, record.row = pod, row
        record.claimed = (
            allocation.pre_allocated if isinstance(allocation, ReservationAllocation) else ()
        )
        for uid in record.claimed:
            self._claimed_by[uid] = record
        self.by_row.setdefault(row, {})[pod.uid] = record
        self._settle(record)

    def release(self, row: int, pod: PodInfo) -> None:
        """The inverse of :meth:`hold`."""
        record = self.records.get(pod.uid)
        if record is None or record.pod is not pod:
            return
        record.pod = None
        for uid in record.claimed:
            self._claimed_by.pop(uid, None)
        self._settle(record)
        del self.by_row[row][pod.uid]
        if not self.by_row[row]:
            del self.by_row[row]
        record.row, record.claimed = -1, ()
        self.drop(record)

    def assign_pod(self, row: int, pod: PodInfo, uid: str) -> None:
        """A pod sits in a reservation from now on; no uid stands for none."""
        if not uid:
            return
        self._seats.setdefault((uid, row), {})[pod.uid] = pod
        record = self.records.get(uid)
        if record is None or record.row != row or record.owners.get(pod.uid) is pod:
            return
        if record.pod is None or record.claimed:
            self._settle(record)
            return
        before = record.shared, record.shared_nonzero
        record.add_assigned_pod(pod)
        self._settled(record, *before)

    def unassign_pod(self, row: int, pod: PodInfo, uid: str) -> None:
        """The inverse of :meth:`sit`."""
        seats = self._seats.get((uid, row))
        if seats is None or seats.pop(pod.uid, None) is None:
            return
        if not seats:
            del self._seats[uid, row]
        record = self.records.get(uid)
        if record is None or record.row != row:
            return
        if record.claimed or pod.uid not in record.owners:
            self._settle(record)
            return
        before = record.shared, record.shared_nonzero
        record.remove_assigned_pod(pod.uid)
        self._settled(record, *before)

    @property
    def claimed(self) -> Collection[str]:
        """The pods that reservations take over, by uid."""
        return self._claimed_by.keys()

    def came(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row: one that a reservation takes over sits in it."""
        record = self._claimed_by.get(pod.uid)
        if record is not None and record.row == row and pod.uid not in record.owners:
            self._settle(record)

    def went(self, row: int, pod: PodInfo) -> None:
        """The inverse of :meth:`came`; the pod still stands in the table."""
        record = self._claimed_by.get(pod.uid)
        if record is not None and record.row == row and pod.uid in record.owners:
            self._settle(record, without=pod.uid)

    def differs(self, row: int) -> bool:
        """Whether the records of a row are others than its pods make, counted anew."""
        counted = self.by_row.get(row)
        if not counted:
            return False
        here = self.table.pods[row]
        sitting = {reserve.uid: owners for reserve, owners in holders(here)}
        return any(
            here.get(uid) is not record.pod or record.differs(sitting.get(uid, {}))
            for uid, record in counted.items()
        )

    def _settle(self, record: ReservationInfo, without: str = "") -> None:
        """Counts a record anew, and what the table counts twice of it."""
        before, nonzero = record.shared, record.shared_nonzero
        record.owners = self._owners(record, without) if record.pod is not None else {}
        record.recount()
        self._settled(record, before, nonzero)

    def _settled(self, record: ReservationInfo, before: Amounts, nonzero: tuple[int, int]) -> None:
        self._adjust(record, before, nonzero)
        self.changed(record)

    def _owners(self, record: ReservationInfo, without: str) -> dict[str, PodInfo]:
        owners = dict(self._seats.get((record.uid, record.row), {}))
        here = self.table.pods[record.row]
        for uid in record.claimed:
            if uid in here:
                owners[uid] = here[uid]
        owners.pop(without, None)
        return owners

    def _adjust(self, record: ReservationInfo, before: Amounts, nonzero: tuple[int, int]) -> None:
        table, shared = self.table, record.shared
        deltas = {
            name: before.get(name, 0) - shared.get(name, 0)
            for name in (*before, *(name for name in shared if name not in before))
        }
        deltas = {name: delta for name, delta in deltas.items() if delta}
        more = record.shared_nonzero
        if deltas or more != nonzero:
            table.adjust(record.row, deltas, (nonzero[0] - more[0], nonzero[1] - more[1]))


def counted_twice(table: NodeTable, row: int) -> Amounts:
    """By resource, what a row's pods ask for beyond what its ``requested`` says; summed up anew."""
    total: Amounts = {}
    for reserve, sitting in holders(table.pods[row]):
        total[requests.PODS] = total.get(requests.PODS, 0) + 1
        for name, held in reserve.shape.request.items():
            used = sum(owner.shape.request.get(name, 0) for owner in sitting.values())
            if min(held, used) > 0:
                total[name] = total.get(name, 0) + min(held, used)
    return total
