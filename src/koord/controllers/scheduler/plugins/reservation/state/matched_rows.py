# SPDX-License-Identifier: Apache-2.0
"""The reservations that answer one question, kept by row and brought up to date by changes.

Most pods ask no more than which reservations are for them: those that match the same classes of
owners (:mod:`.owner_classes`) share one :class:`MatchedRows`, whatever else they differ in.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from koord.controllers.cluster.node_table import Aspect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from koord.controllers.scheduler.plugins.reservation.state.owner_classes import OwnerClasses
    from koord.controllers.scheduler.plugins.reservation.state.reservation_cache import (
        ReservationCache,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )


class ReservationQuestion(Protocol):
    """Which reservations are meant.

    Attributes:
        reads_nodes: labels of a reservation's node count.
    """

    reads_nodes: bool

    def candidates(self) -> Iterable[ReservationInfo]:
        """All that may be."""

    def fits(self, record: ReservationInfo) -> bool:
        """Whether one is; it can be used by somebody."""


class OwnerQuestion:
    """Those of some classes of owners that take pods that ask for nothing more.

    Args:
        owners: the classes of all reservations.
        classes: numbers of some.
    """

    reads_nodes = False

    def __init__(self, owners: OwnerClasses, classes: frozenset[int]) -> None:
        self._owners, self._classes = owners, classes

    def candidates(self) -> Iterable[ReservationInfo]:
        """The members of the classes."""
        return self._owners.members(self._classes)

    def fits(self, record: ReservationInfo) -> bool:
        """Whether it is of a class, and open to pods that do not tolerate that it is not."""
        if record.unschedulable or record.deleting:
            return False
        return self._owners.number(record.uid) in self._classes


class SingleReservationRows(NamedTuple):
    """The rows on which pods have one reservation to choose from, and the others.

    Attributes:
        rows: where there is one, and its order says nothing; ascending.
        slots: that reservation, in :class:`.columns.ReservationColumns`.
        place: by row, the place in these, -1 where there is none or more.
        others: the rows on which there are more, or one with an order.
    """

    rows: NDArray[np.intp]
    slots: NDArray[np.intp]
    place: NDArray[np.intp]
    others: list[int]


class MatchedRows:
    """The reservations that answer a question.

    Args:
        ledger: all reservations.
        question: which are meant.

    Attributes:
        by_row: those that are, by row, the oldest first.
        mask: bool by row: whether there is one.
        version: of the ledger when it was brought up to date.
    """

    def __init__(self, ledger: ReservationCache, question: ReservationQuestion) -> None:
        self._ledger, self._table = ledger, ledger.table
        self.by_row: dict[int, list[ReservationInfo]] = {}
        self.mask = np.zeros(0, np.bool_)
        self.version = -1
        self._question = question
        self._row_of: dict[str, int] = {}
        # By row, the slot of its only reservation; -1 elsewhere.
        self._slot = np.zeros(0, np.intp)
        self._others: set[int] = set()
        self._flat: SingleReservationRows | None = None
        self._table_version = -1

    def __contains__(self, uid: str) -> bool:
        return uid in self._row_of

    def update(self) -> None:
        """Brings it up to date."""
        ledger = self._ledger
        if self.version != ledger.version:
            changed = ledger.changes(self.version) if self.version >= 0 else None
            if changed is None:
                self._rebuild()
            else:
                for uid in changed:
                    self._place(uid, ledger.records.get(uid))
            self.version = ledger.version
        if self._question.reads_nodes:
            self._follow_nodes()

    @property
    def has_others(self) -> bool:
        """Whether there are rows that columns cannot answer for."""
        return bool(self._others)

    def slots(self) -> NDArray[np.intp]:
        """By row, the only reservation there in :class:`.columns.ReservationColumns`; -1 elsewhere.

        Up to date as of the last :meth:`update`.
        """
        more = self._table.size - len(self._slot)
        return np.pad(self._slot, (0, more), constant_values=-1) if more > 0 else self._slot

    def flat(self) -> SingleReservationRows:
        """The rows that columns can answer for; up to date as of the last :meth:`update`."""
        self._ledger.columns.flush()
        size = self._table.size
        if self._flat is None or len(self._flat.place) != size:
            rows = np.flatnonzero(self._slot >= 0)
            place = np.full(size, -1, np.intp)
            place[rows] = np.arange(len(rows))
            self._flat = SingleReservationRows(rows, self._slot[rows], place, sorted(self._others))
        return self._flat

    def flat_without(self, rows: Iterable[int]) -> SingleReservationRows:
        """The same with some rows among the others, whatever is there."""
        flat = self.flat()
        others = set(rows)
        apart = np.isin(flat.rows, list(others), invert=True)
        kept = flat.rows[apart]
        place = np.full(len(flat.place), -1, np.intp)
        place[kept] = np.arange(len(kept))
        return SingleReservationRows(
            kept, flat.slots[apart], place, sorted(others.union(flat.others))
        )

    def _rebuild(self) -> None:
        self.by_row, self._row_of, self._others = {}, {}, set()
        self.mask = np.zeros(self._table.size, np.bool_)
        self._slot = np.full(self._table.size, -1, np.intp)
        self._flat = None
        self._table_version = self._table.version
        for record in self._question.candidates():
            self._place(record.uid, record)

    def _place(self, uid: str, record: ReservationInfo | None) -> None:
        """Puts one reservation where it belongs, or takes it out."""
        before = self._row_of.pop(uid, None)
        fits = record is not None and record.matchable and self._question.fits(record)
        after = record.row if record is not None and fits else None
        if before is not None:
            left = [each for each in self.by_row[before] if each.uid != uid]
            if before != after:
                self._set(before, left)
            else:
                self.by_row[before] = left
        if record is None or after is None:
            return
        self._row_of[uid] = after
        here = self.by_row.get(after, [])
        insert_by_age(here, record)
        self._set(after, here)

    def _set(self, row: int, records: list[ReservationInfo]) -> None:
        if row >= len(self.mask):
            more = self._table.size - len(self.mask)
            self.mask = np.concatenate([self.mask, np.zeros(more, np.bool_)])
            self._slot = np.concatenate([self._slot, np.full(more, -1, np.intp)])
        self.mask[row] = bool(records)
        if records:
            self.by_row[row] = records
        else:
            self.by_row.pop(row, None)
        single = len(records) == 1 and not records[0].order
        slot = self._ledger.columns.slot(records[0]) if single else -1
        other = bool(records) and not single
        if slot == self._slot[row] and other == (row in self._others):
            return
        self._slot[row], self._flat = slot, None
        if other:
            self._others.add(row)
        else:
            self._others.discard(row)

    def _follow_nodes(self) -> None:
        """Looks again at reservations on nodes whose labels may have changed."""
        table, ledger = self._table, self._ledger
        if self._table_version == table.version:
            return
        changes = table.changes(self._table_version)
        self._table_version = table.version
        if changes is None:
            self._rebuild()
            return
        for row, aspects in changes.items():
            if aspects & Aspect.NODE:
                for uid, record in list(ledger.by_row.get(row, {}).items()):
                    self._place(uid, record)


def insert_by_age(records: list[ReservationInfo], record: ReservationInfo) -> None:
    """Puts a reservation where it belongs, the oldest first."""
    insort(records, record, key=age_of)


def age_of(record: ReservationInfo) -> tuple[float, str, str]:
    """What sorts the oldest first."""
    return record.age
