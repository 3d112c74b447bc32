# SPDX-License-Identifier: Apache-2.0
"""Pods that match something, counted by row: kept, not counted anew.

Whether a pod matches depends on its shape alone. So each shape knows the row counts it counts in,
and a pod that comes or goes costs one step for each of them. A new shape finds the row counts that
it counts in, and new row counts the shapes that count, by labels, without a look at the others.
What a selector leaves out is counted too, and taken from the rest: ``NotIn`` costs as much as
``In``. Whoever uses row counts reads from their log what changed since the last time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.controllers.cluster.label_index import SelectorsByLabel, ShapesByLabel, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from koord.api.kinds.meta import LabelSelector
    from koord.controllers.cluster.label_index import LabelToken, PodSelector
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.handle import Handle

_LOG = 1 << 13


class RowCounts:
    """How many pods of some kind there are on each row.

    Attributes:
        by_row: without rows that have none.
        total: of all rows.
        sums: by what they were added up by, as :mod:`domain_counts` keeps them.
    """

    __slots__ = ("_log", "_start", "by_row", "sums", "total")

    def __init__(self) -> None:
        self.by_row: dict[int, int] = {}
        self.total = 0
        self.sums: dict[Any, Any] = {}
        self._log: list[tuple[int, int]] = []
        self._start = 0

    @property
    def version(self) -> int:
        """How many changes there were."""
        return self._start + len(self._log)

    def add(self, row: int, change: int) -> None:
        """Counts pods that came (or went, below 0)."""
        count = self.by_row.get(row, 0) + change
        if count:
            self.by_row[row] = count
        else:
            del self.by_row[row]
        self.total += change
        self._log.append((row, change))
        if len(self._log) > _LOG:
            del self._log[: _LOG // 2]
            self._start += _LOG // 2

    def since(self, version: int) -> list[tuple[int, int]] | None:
        """Rows and changes after a version; None if that is too long ago."""
        start = version - self._start
        return self._log[start:] if start >= 0 else None


class _SelectorCounts(RowCounts):
    """Row counts of the pods that a selector means, with what keeps them up to date.

    Attributes:
        terminating: whether pods that are being deleted count.
        shapes: ids of those whose pods count.
        users: how many use it; one without users is forgotten.
    """

    __slots__ = ("shapes", "terminating", "users")

    def __init__(self, *, terminating: bool) -> None:
        super().__init__()
        self.terminating = terminating
        self.shapes: set[int] = set()
        self.users = 0


class _ShapePods(NamedTuple):
    """A shape that pods on nodes have: how many by row, and the row counts that they count in.

    Pods that are being deleted are among those by row.
    """

    shape: PodShape
    rows: dict[int, int]
    counted_in: dict[_SelectorCounts, None]


class _Every(NamedTuple):
    """Stands in a key for all pods that have what is wanted, before some are left out.

    Attributes:
        wanted: see :class:`koord.controllers.cluster.label_index.PodSelector`.
        namespaces: the key of a selector that says in its own way which namespaces it means.
    """

    wanted: tuple[tuple[LabelToken, ...], ...]
    namespaces: Hashable


class _Key(NamedTuple):
    """Under which row counts are kept.

    Attributes:
        selector: stands for what they match.
        terminating: as in :class:`_SelectorCounts`.
    """

    selector: Hashable
    terminating: bool


class PodCounts:
    """All pods on nodes by shape, and row counts of those that match something.

    One for all plugins that count pods, see :func:`pod_counts`.

    Attributes:
        changes: counts pods that came and went.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._known: dict[int, _ShapePods] = {}
        # Of those that were being deleted when they came, which are few: the uids, and by shape how
        # many there are by row.
        self._terminating: set[str] = set()
        self._terminating_rows: dict[int, dict[int, int]] = {}
        self._shapes = ShapesByLabel()
        self._row_counts: dict[_Key, _SelectorCounts] = {}
        # By key, of what pods those are left out that are counted under it.
        self._every_of: dict[_Key, _Key] = {}
        self._selectors: SelectorsByLabel[_SelectorCounts] = SelectorsByLabel()

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row from now on."""
        shape = pod.shape
        _, rows, counted_in = self._known.get(shape.id) or self._begin(shape)
        self.changes += 1
        rows[row] = rows.get(row, 0) + 1
        terminating = pod.pod.metadata.deletion_timestamp is not None
        if terminating:
            self._terminating.add(pod.uid)
            _count(self._terminating_rows.setdefault(shape.id, {}), row, 1)
        for row_counts in counted_in:
            if not terminating or row_counts.terminating:
                row_counts.add(row, 1)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        number, uid = pod.shape.id, pod.uid
        _, rows, counted_in = self._known[number]
        self.changes += 1
        _count(rows, row, -1)
        # What is said of it by now may be another state of it than the one that was counted.
        terminating = uid in self._terminating
        if terminating:
            self._terminating.remove(uid)
            of_shape = self._terminating_rows[number]
            _count(of_shape, row, -1)
            if not of_shape:
                del self._terminating_rows[number]
        for row_counts in counted_in:
            if not terminating or row_counts.terminating:
                row_counts.add(row, -1)
        if not rows:
            self._end(pod.shape)

    def _begin(self, shape: PodShape) -> _ShapePods:
        self._shapes.add(shape.id, shape.namespace, shape.labels)
        counted_in: dict[_SelectorCounts, None] = {}
        if self._row_counts:
            tokens = tokens_of(shape.namespace, shape.labels)
            counted_in = dict.fromkeys(self._selectors.matching(shape.namespace, tokens))
            for row_counts in counted_in:
                row_counts.shapes.add(shape.id)
        known = self._known[shape.id] = _ShapePods(shape, {}, counted_in)
        return known

    def _end(self, shape: PodShape) -> None:
        """The exact inverse."""
        for row_counts in self._known.pop(shape.id).counted_in:
            row_counts.shapes.discard(shape.id)
        self._shapes.remove(shape.id, shape.labels)

    def may_match(self, selector: LabelSelector | None) -> bool:
        """Whether any pod may be what a selector means; where not, its count is 0 everywhere."""
        return self._shapes.may_have(selector)

    def acquire(
        self, key: Hashable, selector: PodSelector, *, terminating: bool = True
    ) -> Sequence[tuple[RowCounts, int]]:
        """The pods that a selector means, to be given back by :meth:`release`.

        Args:
            key: equal keys match the same shapes.
            selector: the pods that count. Which namespaces it means stays the same until then.
            terminating: whether those count that are being deleted.

        Returns:
            Row counts with weights 1 and -1, the sum of which it is.
        """
        own = _Key(key, terminating)
        whole, left_out = selector.difference()
        if left_out is None:
            return ((self._acquire(own, selector), 1),)
        # Many selectors leave out others of the same pods.
        namespaces = None if whole.admits is None else key
        every = self._every_of[own] = _Key(_Every(whole.wanted, namespaces), terminating)
        return (self._acquire(every, whole), 1), (self._acquire(own, left_out), -1)

    def _acquire(self, key: _Key, selector: PodSelector) -> _SelectorCounts:
        row_counts = self._row_counts.get(key)
        if row_counts is None:
            row_counts = self._row_counts[key] = _SelectorCounts(terminating=key.terminating)
            self._selectors.add(key, selector, row_counts)
            for number in self._shapes.matching(selector):
                row_counts.shapes.add(number)
                _, rows, counted_in = self._known[number]
                counted_in[row_counts] = None
                left_out = None if key.terminating else self._terminating_rows.get(number)
                for row, count in rows.items():
                    if left_out is not None:
                        count -= left_out.get(row, 0)
                    if count:
                        row_counts.add(row, count)
        row_counts.users += 1
        return row_counts

    def release(self, key: Hashable, *, terminating: bool = True) -> None:
        """Gives row counts back; they are forgotten once nobody uses them."""
        own = _Key(key, terminating)
        every = self._every_of.get(own)
        if every is not None:
            self._release(every)
        self._release(own)

    def _release(self, key: _Key) -> None:
        row_counts = self._row_counts[key]
        row_counts.users -= 1
        if row_counts.users:
            return
        del self._row_counts[key]
        self._every_of.pop(key, None)
        self._selectors.remove(key)
        for number in row_counts.shapes:
            del self._known[number].counted_in[row_counts]


def _count(by_row: dict[int, int], row: int, change: int) -> None:
    count = by_row.get(row, 0) + change
    if count:
        by_row[row] = count
    else:
        del by_row[row]


def pod_counts(handle: Handle) -> PodCounts:
    """The one that follows the pods on a table's nodes, whoever asks; made for the first."""
    shared = handle.table.shared.get(PodCounts.__name__)
    if shared is None:
        shared = handle.table.shared[PodCounts.__name__] = PodCounts()
        handle.accounts.listen(shared)
    assert isinstance(shared, PodCounts)
    return shared


class ShapeCache:
    """Values by shape, of which the last used are kept.

    Args:
        limit: how many; the one longest unused goes first.
        dropped: called with each that goes.
    """

    def __init__(self, limit: int, dropped: Callable[[Any], None]) -> None:
        self._limit = limit
        self._dropped = dropped
        self._by_shape: dict[int, Any] = {}

    def __contains__(self, shape: PodShape) -> bool:
        return shape.id in self._by_shape

    def get(self, shape: PodShape) -> Any | None:
        """What is kept for a shape, which is used last now."""
        value = self._by_shape.pop(shape.id, None)
        if value is not None:
            self._by_shape[shape.id] = value
        return value

    def put(self, shape: PodShape, value: Any) -> None:
        """Keeps it."""
        if shape.id not in self._by_shape and len(self._by_shape) >= self._limit:
            self._dropped(self._by_shape.pop(next(iter(self._by_shape))))
        self._by_shape[shape.id] = value

    def drop(self, shape: PodShape) -> None:
        """Forgets one."""
        value = self._by_shape.pop(shape.id, None)
        if value is not None:
            self._dropped(value)

    def clear(self) -> None:
        """Forgets all."""
        for value in self._by_shape.values():
            self._dropped(value)
        self._by_shape.clear()
