# SPDX-License-Identifier: Apache-2.0
"""Which reservations pods of one shape may use, kept by row and brought up to date by changes.

The first pod of a shape looks at the reservations whose owners may mean it; after that only at
those that changed. A pod for which some reservation is held by name has these beside.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.api.protocol import keys
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    AffinityMismatch,
    ReservationRequest,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import in_operating_mode
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import owns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
        ReservationIndex,
    )
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )
    from koord.controllers.scheduler.plugins.reservation.state.selector_index import SelectorIndex

# Fewer candidates than this are not worth a second index.
_FEW = 64
_NO_LABELS: dict[str, str] = {}


class ShapeMatches:
    """The reservations for one shape.

    Args:
        book: all reservations.
        shape: the shape.
        node_labels: whether labels of a reservation's node count as its own.
        index: finds reservations by their labels; None for none.

    Attributes:
        request: what the pods ask for.
        by_row: those they may use, by row, the oldest first.
        mask: bool by row: whether there is one.
        orders: of those that such a pod would get, where they have one.
        version: of the book's ledger when it was brought up to date.
        flat: what :meth:`PodMatches.flat` said last, and of what: version and rows.

    Raises:
        KoordError: a malformed annotation.
    """

    def __init__(
        self,
        book: ReservationIndex,
        shape: PodShape,
        *,
        node_labels: bool = True,
        index: SelectorIndex | None = None,
    ) -> None:
        self.book = book
        # Not the shape, which keeps this: a circle would stay until the collector comes.
        self._pod, self._amounts = shape.pod, shape.request
        self.request = ReservationRequest(shape.pod)
        self.by_row: dict[int, list[ReservationInfo]] = {}
        self.mask = np.zeros(0, np.bool_)
        self.orders = OrderedRows()
        # Of these there is something to say though nothing matches.
        self._insists = (
            self.request.required
            or keys.RESERVE_POD in shape.annotations
            or in_operating_mode(shape.pod)
        )
        self._reads_nodes = node_labels and self.request.reads_labels
        self._index = index
        self._row_of: dict[str, int] = {}
        self.version = -1
        self.flat: tuple[tuple[int, int], SingleReservationRows] | None = None
        self._table_version = -1

    def concerns_nobody(self, book: ReservationIndex) -> bool:
        """Whether it is known that pods of the shape have nothing to do with reservations."""
        return (
            not self.by_row
            and self.version == book.ledger.version
            and not self._insists
            and not book.is_personal
            and self.book is book
        )

    def update(self) -> None:
        """Brings it up to date."""
        ledger = self.book.ledger
        if self.version != ledger.version:
            changed = ledger.changes(self.version) if self.version >= 0 else None
            if changed is None:
                self._rebuild()
            else:
                for uid in changed:
                    self._place(uid, ledger.records.get(uid))
            self.version = ledger.version
        if self._reads_nodes:
            self._follow_nodes()

    def of_pod(self, pod: Pod) -> dict[int, list[ReservationInfo]]:
        """By row, those for this pod alone, by its name or uid."""
        found: dict[int, list[ReservationInfo]] = {}
        for uid, record in self.book.for_pod(pod).items():
            if uid in self._row_of or not record.matchable:
                continue
            if self.request.ignores or (
                owns(record, pod, personal=True) and self.mismatch(record) is None
            ):
                _insert(found.setdefault(record.row, []), record)
        return found

    def takes(self, pod: Pod, record: ReservationInfo) -> bool:
        """Whether a pod of the shape might use a reservation, once there is room in it."""
        if self.request.ignores:
            return True
        return owns(record, pod, personal=True) and self.mismatch(record) is None

    def mismatch(self, record: ReservationInfo) -> AffinityMismatch | None:
        """Why the pods do not get a reservation that is for them."""
        labels = self._labels(record) if self._reads_nodes else _NO_LABELS
        return self.request.mismatch(record, self._amounts, labels)

    def _labels(self, record: ReservationInfo) -> Mapping[str, str]:
        node = self.book.table.nodes[record.row] if record.row >= 0 else None
        return node.metadata.labels if node is not None else _NO_LABELS

    def _rebuild(self) -> None:
        self.by_row, self._row_of = {}, {}
        self.orders = OrderedRows()
        self.mask = np.zeros(self.book.table.size, np.bool_)
        self._table_version = self.book.table.version
        for record in self._candidates():
            self._place(record.uid, record)

    def _candidates(self) -> Iterable[ReservationInfo]:
        book, wanted = self.book, self.request
        if wanted.ignores:
            return list(book.ledger.records.values())
        if wanted.name:
            return list(book.named(wanted.name))
        found = book.for_shape(self._pod)
        if self._index is not None and wanted.selector and len(found) > _FEW:
            rows = self._index.rows(wanted.selector)
            if rows is not None and len(rows) < len(found):
                return [r for row in sorted(rows) for r in book.ledger.by_row.get(row, {}).values()]
        return list(found.values())

    def _place(self, uid: str, record: ReservationInfo | None) -> None:
        """Puts one reservation where it belongs, or takes it out."""
        before = self._row_of.pop(uid, None)
        if before is not None:
            left = [each for each in self.by_row[before] if each.uid != uid]
            self._set(before, left)
        if record is None or not record.matchable or not self._fits(record):
            return
        row = self._row_of[uid] = record.row
        here = self.by_row.get(row, [])
        _insert(here, record)
        self._set(row, here)

    def _fits(self, record: ReservationInfo) -> bool:
        if self.request.ignores:
            return True
        return owns(record, self._pod, personal=False) and self.mismatch(record) is None

    def _set(self, row: int, records: list[ReservationInfo]) -> None:
        if row >= len(self.mask):
            more = np.zeros(self.book.table.size - len(self.mask), np.bool_)
            self.mask = np.concatenate([self.mask, more])
        self.mask[row] = bool(records)
        if records:
            self.by_row[row] = records
        else:
            self.by_row.pop(row, None)
            # Filter asks about rows that have one: nobody else would take its order back.
            self.orders.remove(row)

    def _follow_nodes(self) -> None:
        """Looks again at reservations on nodes whose labels may have changed."""
        table, ledger = self.book.table, self.book.ledger
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


class SingleReservationRows(NamedTuple):
    """The rows on which pods of a shape have one reservation to choose from, and the others.

    Attributes:
        rows: where there is one, and its order says nothing.
        slots: that reservation, in :class:`.columns.Columns`.
        place: by row, the place in these, -1 where there is none or more.
        others: the rows on which there are more, or one with an order.
    """

    rows: NDArray[np.intp]
    slots: NDArray[np.intp]
    place: NDArray[np.intp]
    others: list[int]


class PodMatches:
    """One pod's view of reservations during one attempt.

    Attributes:
        matches: those for its shape.
        own: by row, those for this pod alone.
        partners: other plugins that may refuse the pod a reservation; None until asked.
    """

    __slots__ = ("matches", "own", "partners")

    def __init__(self, matches: ShapeMatches, own: dict[int, list[ReservationInfo]]) -> None:
        self.matches = matches
        self.own = own
        self.partners: list[Any] | None = None

    @property
    def request(self) -> ReservationRequest:
        """What the pod asks for."""
        return self.matches.request

    def own_rows(self) -> NDArray[np.intp] | None:
        """The rows of reservations that are for this pod alone, ascending."""
        return np.array(sorted(self.own), np.intp) if self.own else None

    def rows(self) -> list[int]:
        """The rows that have one."""
        self.matches.update()
        shared = self.matches.by_row
        return [*shared, *(self.own.keys() - shared.keys())] if self.own else list(shared)

    def mask(self, size: int) -> NDArray[np.bool_]:
        """Bool by row: whether there is one; a copy."""
        self.matches.update()
        made = np.zeros(size, np.bool_)
        shared = self.matches.mask[:size]
        made[: len(shared)] = shared
        if self.own:
            made[list(self.own)] = True
        return made

    def records(self, row: int) -> list[ReservationInfo]:
        """Those on a row, the oldest first."""
        matches = self.matches
        if matches.version != matches.book.ledger.version:
            # A what-if has changed who sits where since the attempt began.
            matches.update()
        shared = matches.by_row.get(row, _NONE)
        own = self.own.get(row) if self.own else None
        if own is None:
            return shared
        return sorted((*shared, *(each for each in own if each.matchable)), key=_age)

    def flat(self) -> SingleReservationRows:
        """The rows that columns can answer for; those of reservations for this pod are others."""
        matches, ledger = self.matches, self.matches.book.ledger
        matches.update()
        kept = matches.flat
        size = matches.book.table.size
        if kept is not None and kept[0] == (ledger.version, size) and not self.own:
            return kept[1]
        single: list[ReservationInfo] = []
        others = list(self.own)
        for row, records in matches.by_row.items():
            if len(records) == 1 and not records[0].order and row not in self.own:
                single.append(records[0])
            elif row not in self.own:
                others.append(row)
        rows = np.array([record.row for record in single], np.intp)
        place = np.full(size, -1, np.intp)
        place[rows] = np.arange(len(rows))
        found = SingleReservationRows(rows, ledger.columns.slots(single), place, others)
        if not self.own:
            matches.flat = (ledger.version, size), found
        return found

    def note_order(self, row: int, record: ReservationInfo | None) -> None:
        """Keeps the order of the reservation that the pod would get on a row."""
        orders = self.matches.orders
        if record is not None and record.order:
            orders.put(row, record.order)
        elif orders:
            orders.remove(row)

    def first_by_order(self, feasible: NDArray[np.bool_], rank: NDArray[np.int64]) -> int:
        """The feasible row whose reservation comes first by order; -1 if none has one.

        Among equals the first node by name.
        """
        return self.matches.orders.first(feasible, rank)


class OrderedRows:
    """Rows in the order of what pods would get there, and by the names of their nodes."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._sorted: list[tuple[int, int, int]] = []
        self._rank: NDArray[np.int64] | None = None

    def __bool__(self) -> bool:
        return bool(self._of)

    def put(self, row: int, order: int) -> None:
        """A row's order."""
        if self._of.get(row) != order:
            self.remove(row)
            self._of[row] = order
            if self._rank is not None:
                insort(self._sorted, (order, self._place(row), row))

    def remove(self, row: int) -> None:
        """A row has none any more."""
        order = self._of.pop(row, None)
        if order is not None and self._rank is not None:
            del self._sorted[bisect_left(self._sorted, (order, self._place(row), row))]

    def first(self, feasible: NDArray[np.bool_], rank: NDArray[np.int64]) -> int:
        """The first row that is feasible; -1 for none."""
        if self._rank is not rank:
            self._rank = rank
            self._sorted = sorted((n, self._place(row), row) for row, n in self._of.items())
        return next((row for _, _, row in self._sorted if feasible[row]), -1)

    def _place(self, row: int) -> int:
        assert self._rank is not None
        return int(self._rank[row]) if row < len(self._rank) else row


_NONE: list[ReservationInfo] = []


def _age(record: ReservationInfo) -> tuple[float, str, str]:
    return record.age


def _insert(records: list[ReservationInfo], record: ReservationInfo) -> None:
    insort(records, record, key=_age)


def matches_of(
    info: PodInfo,
    book: ReservationIndex,
    name: str,
    *,
    node_labels: bool,
    index: SelectorIndex | None,
) -> ShapeMatches:
    """The up-to-date matches of a pod's shape, kept with the shape.

    Raises:
        KoordError: a malformed annotation.
    """
    memo = info.shape.memo
    found = memo.get(name)
    if found is None or found.book is not book:
        found = memo[name] = ShapeMatches(book, info.shape, node_labels=node_labels, index=index)
    found.update()
    assert isinstance(found, ShapeMatches)
    return found
