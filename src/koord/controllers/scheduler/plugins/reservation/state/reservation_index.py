# SPDX-License-Identifier: Apache-2.0
"""All reservations of a cluster, found by what pods say of themselves.

No pod walks over all reservations, or over all nodes: owner entries are filed under keys (see
:mod:`.owners`), reservations under their names and, where configured, their labels.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from koord.controllers.scheduler.plugins.reservation.matched_reservation import PLUGIN
from koord.controllers.scheduler.plugins.reservation.objects import owners
from koord.controllers.scheduler.plugins.reservation.state.columns_beside import (
    ColumnsBesideReservations,
)
from koord.controllers.scheduler.plugins.reservation.state.matched_rows import (
    MatchedRows,
    OwnerQuestion,
)
from koord.controllers.scheduler.plugins.reservation.state.owner_classes import OwnerClasses
from koord.controllers.scheduler.plugins.reservation.state.reservation_cache import ReservationCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.reservation.objects.owners import Key
    from koord.controllers.scheduler.plugins.reservation.state.event_handlers import (
        ReservationEventHandlers,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )

K = TypeVar("K")
_RECENT = 16


class ReservationIndex:
    """Reservations, and pods in operating mode, of one node table.

    Attributes:
        ledger: who sits where.
        feed: tells the scheduler of reserve pods; None until it does.
        by_namespace: owners that name no namespace are not of all of them.
        owners: reservations by what their owners say.
        beside: the table's columns as pods see them.
        unjudged: by reservation that the API has not told of, uids of pods that say they sit in it.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.ledger = ReservationCache(table)
        self.feed: ReservationEventHandlers | None = None
        self.unjudged: dict[str, set[str]] = {}
        self.by_namespace = False
        self._by_key: dict[Key, dict[str, ReservationInfo]] = {}
        self._personal: dict[Key, dict[str, ReservationInfo]] = {}
        self._by_name: dict[str, dict[str, ReservationInfo]] = {}
        self._filed: dict[str, tuple[str, list[tuple[Key, bool]]]] = {}
        self.owners = OwnerClasses()
        self.beside = ColumnsBesideReservations(table, self.ledger.columns)
        # What pods that match the same classes share, while any of them does. Pods of which nobody
        # is there yet come again.
        self._rows: WeakValueDictionary[frozenset[int], MatchedRows] = WeakValueDictionary()
        self._recent: deque[MatchedRows] = deque(maxlen=_RECENT)

    @classmethod
    def of(cls, table: NodeTable) -> ReservationIndex:
        """The book of a table: one, however many profiles configure the plugin."""
        found = table.shared.get(PLUGIN)
        if not isinstance(found, cls):
            found = table.shared[PLUGIN] = cls(table)
        return found

    @property
    def is_personal(self) -> bool:
        """Whether any reservation is for pods of certain names or uids."""
        return bool(self._personal)

    def put(self, reservation: Reservation) -> None:
        """A Reservation came or changed."""
        record = self.ledger.record(reservation.metadata.uid)
        if record.object is not reservation:
            record.read(reservation, by_namespace=self.by_namespace)
            self._file(record)

    def put_pod(self, pod: Pod) -> None:
        """A pod in operating mode came or changed."""
        record = self.ledger.record(pod.metadata.uid)
        if record.object is not pod:
            record.read_pod(pod, by_namespace=self.by_namespace)
            self._file(record)

    def remove(self, uid: str) -> None:
        """An object went."""
        record = self.ledger.records.get(uid)
        if record is None or not record.known:
            return
        self._unfile(uid)
        self.owners.remove(uid)
        record.forget()
        self.ledger.changed(record)
        self.ledger.drop(record)

    def get(self, uid: str) -> ReservationInfo | None:
        """The record of a uid."""
        return self.ledger.records.get(uid)

    def is_known(self, uid: str) -> bool:
        """Whether the API has told of an object of that uid."""
        record = self.ledger.records.get(uid)
        return record is not None and record.known

    def named(self, name: str) -> Iterable[ReservationInfo]:
        """The reservations of a name."""
        return self._by_name.get(name, {}).values()

    def for_shape(self, pod: Pod) -> dict[str, ReservationInfo]:
        """By uid, those that may be for pods of a shape, those for single pods left out."""
        found: dict[str, ReservationInfo] = {}
        for key in owners.shape_keys(pod):
            found.update(self._by_key.get(key, {}))
        return found

    def shared_rows(self, classes: frozenset[int]) -> MatchedRows:
        """The reservations of some classes of owners, for all that match these."""
        found = self._rows.get(classes)
        if found is None:
            question = OwnerQuestion(self.owners, classes)
            found = self._rows[classes] = MatchedRows(self.ledger, question)
            self._recent.append(found)
        return found

    def for_pod(self, pod: Pod) -> dict[str, ReservationInfo]:
        """By uid, those that may be for this pod by its name or uid."""
        if not self._personal:
            return {}
        by_name, by_uid = owners.personal_keys(pod)
        return {**self._personal.get(by_name, {}), **self._personal.get(by_uid, {})}

    def _file(self, record: ReservationInfo) -> None:
        self._unfile(record.uid)
        filed: list[tuple[Key, bool]] = []
        for entry in record.entries:
            personal = owners.is_personal(entry)
            index = self._personal if personal else self._by_key
            for key in owners.entry_keys(entry):
                index.setdefault(key, {})[record.uid] = record
                filed.append((key, personal))
        self._by_name.setdefault(record.name, {})[record.uid] = record
        self._filed[record.uid] = (record.name, filed)
        self.owners.put(record)
        self.ledger.changed(record)

    def _unfile(self, uid: str) -> None:
        name, filed = self._filed.pop(uid, ("", []))
        for key, personal in filed:
            _take(self._personal if personal else self._by_key, key, uid)
        if name:
            _take(self._by_name, name, uid)


def owns(record: ReservationInfo, pod: Pod, *, personal: bool) -> bool:
    """Whether a reservation is for a pod.

    Args:
        record: the reservation.
        pod: the pod, or any of its shape.
        personal: whether entries that ask for a pod's name or uid count; they do not for a shape.
    """
    return any(
        owners.matches(entry, pod)
        for entry in record.entries
        if personal or not owners.is_personal(entry)
    )


def _take(index: dict[K, dict[str, ReservationInfo]], key: K, uid: str) -> None:
    bucket = index.get(key)
    if bucket is not None:
        bucket.pop(uid, None)
        if not bucket:
            del index[key]
