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
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from koord.api.kinds.meta import LabelSelector
    from koord.controllers.cluster.label_index import LabelToken, PodSelector
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape

_LOG = 1 << 13


class RowCounts:
    """How many pods of some kind there are on each row.

    Attributes:
        by_row: without rows that have none.
        total: of all rows.
        shapes: ids of those whose pods count.
        sums: by what they were added up by, as :mod:`domain_counts` keeps them.
        users: how many use it; one without users is forgotten.
    """

    __slots__ = ("_log", "_start", "by_row", "shapes", "sums", "total", "users")

    def __init__(self) -> None:
        self.by_row: dict[int, int] = {}
        self.total = 0
        self.shapes: set[int] = set()
        self.sums: dict[Any, Any] = {}
        self.users = 0
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


class _ShapePods(NamedTuple):
    """A shape that pods on nodes have: how many by row, and the row counts that they count in."""

    shape: PodShape
    rows: dict[int, int]
    counted_in: dict[RowCounts, None]


class _Every(NamedTuple):
    """The key of all pods that have what is wanted, before some are left out.

    Attributes:
        wanted: see :class:`koord.controllers.cluster.label_index.PodSelector`.
        namespaces: the key of a selector that says in its own way which namespaces it means.
    """

    wanted: tuple[tuple[LabelToken, ...], ...]
    namespaces: Hashable


class PodCounts:
    """All pods on nodes by shape, and row counts of those that match something.

    Args:
        counts_terminating: whether pods that are being deleted count.
        shapes: where shapes are kept by labels, with those of others who keep theirs there; see
            :func:`shapes_of`.

    Attributes:
        changes: counts pods that came and went.
    """

    def __init__(
        self, counts_terminating: bool = True, shapes: ShapesByLabel | None = None
    ) -> None:
        self.changes = 0
        self._counts_terminating = counts_terminating
        # By uid, pods on nodes that did not count when they came.
        self._left_out: set[str] = set()
        self._known: dict[int, _ShapePods] = {}
        self._shapes = shapes or ShapesByLabel()
        self._row_counts: dict[Hashable, RowCounts] = {}
        # By key, of what pods those are left out that are counted under it.
        self._every_of: dict[Hashable, _Every] = {}
        self._selectors: SelectorsByLabel[RowCounts] = SelectorsByLabel()

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row from now on."""
        self._add(pod.shape, ((row, pod),))

    def pods_added(self, batches: Sequence[PodBatch]) -> None:
        """Many at once."""
        for shape, _, rows, pods in batches:
            self._add(shape, zip(rows, pods, strict=True))

    def _add(self, shape: PodShape, placed: Iterable[tuple[int, PodInfo]]) -> None:
        terminating_too = self._counts_terminating
        _, rows, counted_in = self._known.get(shape.id) or self._begin(shape)
        for row, pod in placed:
            if not terminating_too and pod.pod.metadata.deletion_timestamp is not None:
                self._left_out.add(pod.uid)
                continue
            self.changes += 1
            rows[row] = rows.get(row, 0) + 1
            for row_counts in counted_in:
                row_counts.add(row, 1)
        if not rows:
            self._end(shape)

    def _begin(self, shape: PodShape) -> _ShapePods:
        self._shapes.add(shape.id, shape.namespace, shape.labels)
        counted_in: dict[RowCounts, None] = {}
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

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse."""
        if pod.uid in self._left_out:
            self._left_out.remove(pod.uid)
            return
        self.changes += 1
        _, rows, counted_in = self._known[pod.shape.id]
        rows[row] -= 1
        for row_counts in counted_in:
            row_counts.add(row, -1)
        if not rows[row]:
            del rows[row]
        if not rows:
            self._end(pod.shape)

    def may_match(self, selector: LabelSelector | None) -> bool:
        """Whether any pod may be what a selector means; where not, its count is 0 everywhere."""
        return self._shapes.may_have(selector)

    def acquire(self, key: Hashable, selector: PodSelector) -> Sequence[tuple[RowCounts, int]]:
        """The pods that a selector means, to be given back by :meth:`release`.

        Args:
            key: equal keys match the same shapes.
            selector: the pods that count. Which namespaces it means stays the same until then.

        Returns:
            Row counts with weights 1 and -1, the sum of which it is.
        """
        whole, left_out = selector.difference()
        if left_out is None:
            return ((self._acquire(key, selector), 1),)
        # Many selectors leave out others of the same pods.
        every = _Every(whole.wanted, None if whole.admits is None else key)
        self._every_of[key] = every
        return (self._acquire(every, whole), 1), (self._acquire(key, left_out), -1)

    def _acquire(self, key: Hashable, selector: PodSelector) -> RowCounts:
        row_counts = self._row_counts.get(key)
        if row_counts is None:
            row_counts = self._row_counts[key] = RowCounts()
            self._selectors.add(key, selector, row_counts)
            for number in self._shapes.matching(selector):
                known = self._known.get(number)
                if known is None:
                    continue  # Another's.
                row_counts.shapes.add(number)
                _, rows, counted_in = known
                counted_in[row_counts] = None
                for row, count in rows.items():
                    row_counts.add(row, count)
        row_counts.users += 1
        return row_counts

    def release(self, key: Hashable) -> None:
        """Gives row counts back; they are forgotten once nobody uses them."""
        every = self._every_of.get(key)
        if every is not None:
            self._release(every)
        self._release(key)

    def _release(self, key: Hashable) -> None:
        row_counts = self._row_counts[key]
        row_counts.users -= 1
        if row_counts.users:
            return
        del self._row_counts[key]
        self._every_of.pop(key, None)
        self._selectors.remove(key)
        for number in row_counts.shapes:
            del self._known[number].counted_in[row_counts]


def shapes_of(table: NodeTable) -> ShapesByLabel:
    """The one index of the shapes on the nodes of a table by their labels."""
    shared: object = table.shared.setdefault(ShapesByLabel.__name__, ShapesByLabel())
    assert isinstance(shared, ShapesByLabel)
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
