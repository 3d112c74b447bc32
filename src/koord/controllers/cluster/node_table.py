# SPDX-License-Identifier: Apache-2.0
"""The node table: every node of the cluster as a row, every resource as a column.

The columns are NumPy arrays that are changed in place; nothing is copied per pod. Every change is
journalled as (row, what kind of change), so that whoever keeps an answer per row learns which of
them are stale::

    table = NodeTable()
    row = table.put(node)
    seen = table.version
    table.add(row, pod)
    table.changes(seen)  # {row: Aspect.PODS}

Unlike :class:`koord.kernels.placement.NodeTable`, which replays traces of fixed shape, this one
follows a live cluster: nodes come, change and go, resources appear, rows are used again.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

import numpy as np

from koord.api import requests
from koord.controllers.cluster.node_labels import NodeLabels, NodeTaints
from koord.controllers.cluster.resource_columns import (
    ABSENT,
    CPU,
    MEMORY,
    PODS,
    STORAGE,
    ResourceColumns,
)
from koord.kernels.placement_board import Ranks, changed_rows, count_pod, count_pods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import CountedColumns, CountedRequests, PodBatch, PodInfo

__all__ = ["ABSENT", "CPU", "MEMORY", "PODS", "STORAGE", "Aspect", "NodeTable"]

_GROWTH = 64
_JOURNAL = 1 << 16


class Aspect(IntFlag):
    """What changed on a row, and what an answer for a row depends on."""

    NODE = 1
    PODS = 2
    LOAD = 4
    NUMA = 8
    DEVICES = 16
    RESERVATIONS = 32
    VOLUMES = 64
    ALL = 127


# As a plain int: to look a member up in its class takes longer than to note it.
_PODS = int(Aspect.PODS)


class NodeTable:
    """Nodes as rows and resources as columns, with a journal of what changed on which row.

    Attributes:
        allocatable: int64 ``[resource, row]``; CPU in milli, all else in units. A resource has a
            column while a node offers it.
        requested: the same for what pods on the row ask for, as a pod sees it that uses no
            reservation.
        nonzero: int64 ``[2, row]``, CPU milli and memory bytes as scores count them: containers
            without a request count as 100 milli and 200 MiB.
        open: bool by row; rows of nodes that went are False until used again.
        rank: by row, the place of the node's name in their order: who goes first among equals.
        nodes: by row, the typed object; None where the row is not open.
        pods: by row, the pods that count there, by uid.
        adjusted: rows on which :meth:`adjust` was used, so that what is requested there may differ
            from what the pods ask for.
        labels, taints: of the nodes, as columns.
        nodes_version: counts nodes that came, went or changed.
        generation: counts those too, and whatever else plugins report by
            :meth:`advance_generation`: while it stays, the same plugins have something to do for
            pods of a shape.
        version: counts changes. ``layout`` counts those after which the columns are other arrays:
            they have grown, or nodes offer other resources.
        shared: what plugins keep once a table, by plugin, where several profiles configure them.
    """

    def __init__(self) -> None:
        self._columns = ResourceColumns()
        self.allocatable, self.requested = self._columns.allocatable, self._columns.requested
        self.nonzero = np.zeros((2, 0), np.int64)
        self.open = np.zeros(0, np.bool_)
        self._numbers = np.zeros(0, np.intp)
        self._rank: NDArray[np.int64] | None = None
        # The same for boards, and what it was made of.
        self._order: tuple[NDArray[np.int64], Ranks] | None = None
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.labels = NodeLabels()
        self.taints = NodeTaints()
        self.nodes_version = 0
        self.generation = 0
        self._row_of: dict[str, int] = {}
        self._free_rows: list[int] = []
        self.layout = 0
        self.shared: dict[str, object] = {}
        self.adjusted: set[int] = set()
        self._journal: list[int] = []
        self._journal_start = 0
        self._read = 0

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def size(self) -> int:
        """How many rows there are, closed ones included: the length of every column in use."""
        return len(self.nodes)

    @property
    def rows(self) -> NDArray[np.intp] | slice:
        """All open rows, as an index of columns: a slice where none is closed."""
        if not self._free_rows:
            return slice(0, len(self.nodes))
        return np.flatnonzero(self.open)

    @property
    def version(self) -> int:
        """How many changes there were."""
        self._read = self._journal_start + len(self._journal)
        return self._read

    @property
    def rank(self) -> NDArray[np.int64]:
        """By row, the place of the node's name in the order of names."""
        rank = self._rank
        if rank is None or len(rank) != len(self.nodes):
            rank = self._rank = np.full(self.size, self.size, np.int64)
            for place, name in enumerate(sorted(self._row_of)):
                rank[self._row_of[name]] = place
        return rank

    @property
    def order(self) -> Ranks:
        """:attr:`rank` for boards of as many rows as there is room for; one while it stays."""
        rank = self.rank  # another one after there is more room
        if self._order is None or self._order[0] is not rank:
            self._order = rank, Ranks(len(self.open), rank)
        return self._order[1]

    def row(self, name: str) -> int | None:
        """The row of a node, None if there is no such node."""
        return self._row_of.get(name)

    def name(self, row: int) -> str:
        """The name of an open row's node."""
        node = self.nodes[row]
        return node.metadata.name if node is not None else ""

    def names(self) -> list[str]:
        """The names of all nodes, in order."""
        return sorted(self._row_of)

    @property
    def resources(self) -> Sequence[str]:
        """The names of the resource columns; "" is ``ABSENT``'s."""
        return self._columns.names

    @property
    def resources_key(self) -> object:
        """Indexes of resource columns hold while this is the same object."""
        return self._columns.key

    def resource(self, name: str) -> int:
        """The column of a resource; ``ABSENT``, 0 on every row, for one that no node offers."""
        return self._columns.column(name)

    def columns_of(self, counted: CountedRequests) -> CountedColumns:
        """What a pod counts as, as columns of this table and amounts, the pod itself included."""
        return self._columns.of(counted)

    def requested_by_name(self, row: int) -> dict[str, int]:
        """What is requested on a row, by name, also of what no node offers."""
        return self._columns.requested_by_name(row)

    def put(self, node: Node) -> int:
        """Adds a node, or takes over its new state, and returns its row."""
        name = node.metadata.name
        row = self._row_of.get(name)
        if row is None:
            row = self._open(name)
        self.nodes[row] = node
        if self._columns.offer(row, requests.offered(node)):
            self._take_columns()
        self._describe(row, node)
        self.touch(row, Aspect.NODE)
        return row

    def remove(self, name: str) -> None:
        """Closes the row of a node; whatever pods still count there go with it."""
        row = self._row_of.pop(name)
        self.nodes[row] = None
        self.open[row] = False
        self.pods[row] = {}
        if self._columns.close(row):
            self._take_columns()
        self.nonzero[:, row] = 0
        self.adjusted.discard(row)
        self._free_rows.append(row)
        self._rank = None
        self._describe(row, None)
        self.touch(row, Aspect.ALL)

    def add(self, row: int, pod: PodInfo) -> None:
        """Counts a pod on a row. It must not count anywhere yet."""
        self._count(row, pod, 1)
        self.pods[row][pod.uid] = pod
        self.touch(row, _PODS)

    def add_all(self, arrivals: Sequence[PodBatch]) -> None:
        """The same as :meth:`add` for each row and pod."""
        rows: list[int] = []
        vectors: list[tuple[NDArray[np.intp], NDArray[np.int64]]] = []
        for _, _, at, pods in arrivals:
            rows += at
            columns = self.columns_of(pods[0].counted)
            vectors += [columns.counted] * len(at)
            for row in at if columns.unoffered else ():
                self._columns.count_unoffered(row, columns.unoffered, 1)
            for row, pod in zip(at, pods, strict=True):
                self.pods[row][pod.uid] = pod
        where = np.array(rows, np.intp)
        indexes, amounts = [index for index, _ in vectors], [amounts for _, amounts in vectors]
        count_pods(self.requested, where, indexes, amounts)
        scored = np.array([each.pods[0].counted.nonzero for each in arrivals], np.int64).T
        for column, of_shapes in zip(self.nonzero, scored, strict=True):
            np.add.at(column, where, np.repeat(of_shapes, [len(each.rows) for each in arrivals]))
        self.touch_all(where, Aspect.PODS)

    def drop(self, row: int, pod: PodInfo) -> None:
        """The exact inverse of :meth:`add`."""
        self._count(row, pod, -1)
        del self.pods[row][pod.uid]
        self.touch(row, _PODS)

    def adjust(
        self,
        row: int,
        amounts: Mapping[str, int],
        nonzero: tuple[int, int] = (0, 0),
    ) -> None:
        """Adds to what is requested on a row, for plugins that count what no pod says.

        Args:
            row: where.
            amounts: by resource, what is added; may be negative.
            nonzero: the same for :attr:`nonzero`.
        """
        unoffered = {name: n for name, n in amounts.items() if self.resource(name) == ABSENT}
        offered = [name for name in amounts if name not in unoffered]
        index = np.array([self.resource(name) for name in offered], np.intp)
        values = np.array([amounts[name] for name in offered], np.int64)
        count_pod(self.requested, self.nonzero, row, index, values, *nonzero, 1)
        if unoffered:
            self._columns.count_unoffered(row, unoffered, 1)
        self.adjusted.add(row)
        self.touch(row, _PODS)

    def touch(self, row: int, aspect: Aspect | int) -> None:
        """Makes answers stale that depend on an aspect of a row."""
        # As a plain int: sums of flags are objects of their own, and slow to make.
        self._journal.append(row << 8 | int(aspect))
        if len(self._journal) > _JOURNAL:
            half = _JOURNAL // 2
            del self._journal[:half]
            self._journal_start += half

    def touch_all(self, rows: NDArray[np.intp], aspect: Aspect) -> None:
        """The same as :meth:`touch` for each row."""
        half = _JOURNAL // 2
        for start in range(0, len(rows), half):
            self._journal += (rows[start : start + half] << 8 | int(aspect)).tolist()
            if len(self._journal) > _JOURNAL:
                del self._journal[:half]
                self._journal_start += half

    def advance_generation(self) -> None:
        """Says that other plugins than before may have something to do for pods."""
        self.generation += 1

    def index(self, row: int) -> NDArray[np.intp]:
        """One row as an index of columns; not to be changed."""
        return self._numbers[row : row + 1]

    def mark(self) -> int:
        """The version, for :meth:`forget`."""
        return self._journal_start + len(self._journal)

    def forget(self, mark: int) -> None:
        """Forgets the changes after a mark, for who has undone them all.

        They stay if anybody has asked for the version since, for an answer may be kept that was
        true only then.
        """
        start = mark - self._journal_start
        if self._read <= mark and start >= 0:
            del self._journal[start:]

    def changes(self, since: int, most: int | None = None) -> dict[int, int] | None:
        """The rows that changed after a version, each with all its aspects.

        Args:
            since: the version.
            most: how many changes are worth a list; None for half as many as there are rows.

        Returns:
            None if so much has changed that every row must be looked at anew.
        """
        found = self.changed_rows(since, most)
        if found is None:
            return None
        return dict(zip(found[0].tolist(), found[1].tolist(), strict=True))

    def changed_rows(
        self, since: int, most: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int] | None:
        """The same as :meth:`changes` in arrays: the rows, ascending, and the aspects of each.

        Returns:
            Further the aspects that any of the rows has, and those that all have.
        """
        if most is None:
            most = max(64, len(self.nodes) // 2)
        start = since - self._journal_start
        if start < 0 or len(self._journal) - start > most:
            return None
        return changed_rows(self._journal, start)

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        counted = pod.counted
        columns = self._columns.of(counted)
        index, amounts = columns.counted
        count_pod(self.requested, self.nonzero, row, index, amounts, *counted.nonzero, sign)
        if columns.unoffered:
            self._columns.count_unoffered(row, columns.unoffered, sign)

    def _take_columns(self) -> None:
        self.allocatable, self.requested = self._columns.allocatable, self._columns.requested
        self.layout += 1

    def _describe(self, row: int, node: Node | None) -> None:
        self.nodes_version += 1
        self.generation += 1
        self.labels.set(row, node, len(self.open))
        self.taints.set(row, node, len(self.open))

    def _open(self, name: str) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self.nodes)
            self.nodes.append(None)
            self.pods.append({})
            if row >= len(self.open):
                self._grow(max(_GROWTH, 2 * row))
        self._row_of[name] = row
        self.open[row] = True
        self._rank = None
        self.touch(row, Aspect.ALL)
        return row

    def _grow(self, rows: int) -> None:
        self._columns.grow(rows)
        self.nonzero = np.pad(self.nonzero, ((0, 0), (0, rows - self.nonzero.shape[1])))
        closed = np.zeros(rows - len(self.open), np.bool_)
        self.open = np.concatenate([self.open, closed])
        self._numbers = np.arange(rows, dtype=np.intp)
        self._take_columns()
