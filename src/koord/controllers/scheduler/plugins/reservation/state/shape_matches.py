# SPDX-License-Identifier: Apache-2.0
"""Which reservations pods of one shape may use, kept by row and brought up to date by changes.

The first pod of a shape looks at the classes of owners that may mean it, or where it asks for more
at reservations; after that only at those that changed. A pod for which some reservation is held by
name has these beside.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    AffinityMismatch,
    ReservationRequest,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import in_operating_mode
from koord.controllers.scheduler.plugins.reservation.state.matched_rows import (
    MatchedRows,
    SingleReservationRows,
    age_of,
    insert_by_age,
)
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import owns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.reservation.state.columns import ColumnFit
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


class _ShapeQuestion:
    """The reservations for pods of a shape that ask for more than to be meant.

    Not the shape itself, which keeps who asks: a circle would stay until the collector comes.
    """

    def __init__(
        self,
        book: ReservationIndex,
        shape: PodShape,
        request: ReservationRequest,
        index: SelectorIndex | None,
        *,
        node_labels: bool,
    ) -> None:
        self._book, self._request, self._index = book, request, index
        self._pod, self._amounts = shape.pod, shape.request
        self.reads_nodes = node_labels and request.reads_labels

    def candidates(self) -> Iterable[ReservationInfo]:
        """Those that owners or a name lead to."""
        book, wanted = self._book, self._request
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

    def fits(self, record: ReservationInfo) -> bool:
        """Whether it is for the pods, and all that they ask of it is so."""
        if self._request.ignores:
            return True
        return owns(record, self._pod, personal=False) and self.mismatch(record) is None

    def mismatch(self, record: ReservationInfo) -> AffinityMismatch | None:
        """Why the pods do not get a reservation that is for them."""
        labels = self._labels(record) if self.reads_nodes else _NO_LABELS
        return self._request.mismatch(record, self._amounts, labels)

    def _labels(self, record: ReservationInfo) -> Mapping[str, str]:
        node = self._book.table.nodes[record.row] if record.row >= 0 else None
        return node.metadata.labels if node is not None else _NO_LABELS


class ShapeMatches:
    """The reservations for one shape.

    Args:
        book: all reservations.
        shape: the shape.
        node_labels: whether labels of a reservation's node count as its own.
        index: finds reservations by their labels; None for none.

    Attributes:
        request: what the pods ask for.
        rows: those they may use, by row; shared with all that may use the same.
        orders: of those that such a pod would get, where they have one.

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
        self.request = ReservationRequest(shape.pod)
        self.orders = OrderedRows()
        # Of these there is something to say though nothing matches.
        self._insists = (
            self.request.required
            or keys.RESERVE_POD in shape.annotations
            or in_operating_mode(shape.pod)
        )
        self._pod = shape.pod
        self._question = _ShapeQuestion(book, shape, self.request, index, node_labels=node_labels)
        self._classes: frozenset[int] | None = None
        self._last_class = -1
        if self.request.is_plain:
            self._classes, self._last_class = book.owners.of(shape.pod), book.owners.last
            self.rows = book.shared_rows(self._classes)
        else:
            self.rows = MatchedRows(book.ledger, self._question)

    @property
    def by_row(self) -> dict[int, list[ReservationInfo]]:
        """Those they may use, by row, the oldest first."""
        return self.rows.by_row

    def concerns_nobody(self, book: ReservationIndex) -> bool:
        """Whether it is known that pods of the shape have nothing to do with reservations."""
        return (
            not self.rows.by_row
            and self.rows.version == book.ledger.version
            and self._knows_owners()
            and not self._insists
            and not book.is_personal
            and self.book is book
        )

    def update(self) -> None:
        """Brings it up to date."""
        if not self._knows_owners():
            self._follow_owners()
        self.rows.update()

    def _knows_owners(self) -> bool:
        return self._classes is None or self._last_class == self.book.owners.last

    def _follow_owners(self) -> None:
        """Looks at classes of owners that came since."""
        owners, before = self.book.owners, self._classes
        assert before is not None
        now = owners.brought_up_to_date(before, self._last_class, self._pod)
        self._last_class = owners.last
        if now is not before:
            self._classes, self.rows = now, self.book.shared_rows(now)

    def of_pod(self, pod: Pod) -> dict[int, list[ReservationInfo]]:
        """By row, those for this pod alone, by its name or uid."""
        found: dict[int, list[ReservationInfo]] = {}
        for uid, record in self.book.for_pod(pod).items():
            if uid in self.rows or not record.matchable:
                continue
            if self.request.ignores or (
                owns(record, pod, personal=True) and self.mismatch(record) is None
            ):
                insert_by_age(found.setdefault(record.row, []), record)
        return found

    def takes(self, pod: Pod, record: ReservationInfo) -> bool:
        """Whether a pod of the shape might use a reservation, once there is room in it."""
        if self.request.ignores:
            return True
        return owns(record, pod, personal=True) and self.mismatch(record) is None

    def mismatch(self, record: ReservationInfo) -> AffinityMismatch | None:
        """Why the pods do not get a reservation that is for them."""
        return self._question.mismatch(record)


class PodMatches:
    """One pod's view of reservations during one attempt.

    Attributes:
        matches: those for its shape.
        own: by row, those for this pod alone.
        partners: other plugins that may refuse the pod a reservation; None until asked.
        column_fit: what columns said last, and of which state.
    """

    __slots__ = ("column_fit", "matches", "own", "partners")

    def __init__(self, matches: ShapeMatches, own: dict[int, list[ReservationInfo]]) -> None:
        self.matches = matches
        self.own = own
        self.partners: list[Any] | None = None
        self.column_fit: tuple[tuple[SingleReservationRows, int, int], ColumnFit] | None = None

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
        shared = self.matches.rows.mask[:size]
        made[: len(shared)] = shared
        if self.own:
            made[list(self.own)] = True
        return made

    def records(self, row: int) -> list[ReservationInfo]:
        """Those on a row, the oldest first."""
        matches = self.matches
        if matches.rows.version != matches.book.ledger.version:
            # A what-if has changed who sits where since the attempt began.
            matches.update()
        shared = matches.rows.by_row.get(row, _NONE)
        own = self.own.get(row) if self.own else None
        if own is None:
            return shared
        return sorted((*shared, *(each for each in own if each.matchable)), key=age_of)

    def flat(self) -> SingleReservationRows:
        """The rows that columns can answer for; those of reservations for this pod are others."""
        self.matches.update()
        rows = self.matches.rows
        return rows.flat_without(self.own) if self.own else rows.flat()

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

    def keep(self, rows: Iterable[int]) -> None:
        """All rows but these have none any more."""
        for row in self._of.keys() - set(rows):
            self.remove(row)

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
