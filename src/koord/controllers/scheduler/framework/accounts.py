# SPDX-License-Identifier: Apache-2.0
"""Which pods count on which node: in the node table and in every plugin that keeps account.

The one way to move a pod, for assumed and bound pods as for what-ifs, so that no account can drift
from the others.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.cluster.pods import by_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodBatch, PodInfo, PodShape


# Of how many kinds of pods it is remembered whom to tell.
_KINDS = 4096
# So many pods at once are worth arrays.
_MANY = 8


class _Listeners(NamedTuple):
    """Who is told of pods of a shape, and who of those among them that no plugin chose for."""

    of_all: tuple[Any, ...]
    of_bare: tuple[Any, ...]


class Accounts:
    """Puts pods on nodes and takes them off, in the node table and every plugin's account.

    Args:
        table: the nodes.
        listeners: PodListener plugins, told in this order and, of removals, in the opposite one.
    """

    def __init__(self, table: NodeTable, listeners: Sequence[Any] = ()) -> None:
        self.table = table
        self._listeners: list[Any] = []
        # Each with whom to ask whether it is to be told of pods of a shape; None for always.
        self._idle_points_of: list[tuple[Any, Callable[[PodShape], Collection[str]] | None]] = []
        # By the parts that pods have, and by shape where these do not tell, whom to tell; and all
        # the different answers there are.
        self._reads = 0
        self._listeners_of: dict[tuple[int, int], _Listeners] = {}
        self._answers: dict[tuple[Any, ...], _Listeners] = {}
        self._pods: dict[str, PodInfo] = {}
        # Pods on nodes that are not known.
        self._orphans: set[str] = set()
        # How many pods of each priority count somewhere.
        self._by_priority: dict[int, int] = {}
        self._log: list[tuple[PodInfo, int, bool]] | None = None
        for each in listeners:
            self.listen(each)

    def listen(self, listener: Any) -> None:
        """Adds a listener; it is told of the pods that count already."""
        for pod in self._pods.values():
            listener.pod_added(pod.row, pod)
        by_shape = getattr(listener, "listens_by_shape", True) and hasattr(listener, "idle_points")
        self._listeners.append(listener)
        self._idle_points_of.append((listener, listener.idle_points if by_shape else None))
        if by_shape:
            self._reads |= int(getattr(listener, "reads", PodField.ALL))
        self._listeners_of.clear()

    def get(self, uid: str) -> PodInfo | None:
        """A pod that counts somewhere."""
        return self._pods.get(uid)

    def pods(self) -> dict[str, PodInfo]:
        """All pods that count somewhere, by uid; not to be changed."""
        return self._pods

    def holds(self, uid: str) -> bool:
        """Whether a pod counts somewhere, or is on a node that is not known."""
        return uid in self._pods or uid in self._orphans

    def least_priority(self) -> float:
        """The lowest priority of all pods that count somewhere; infinite if none does."""
        return min(self._by_priority, default=math.inf)

    def add(self, row: int, pod: PodInfo) -> None:
        """Counts a pod on a row."""
        pod.row = row
        self.table.add(row, pod)
        self._pods[pod.uid] = pod
        self._orphans.discard(pod.uid)
        self._by_priority[pod.priority] = self._by_priority.get(pod.priority, 0) + 1
        for listener in self._listening(pod):
            listener.pod_added(row, pod)
        if self._log is not None:
            self._log.append((pod, row, True))

    def add_all(self, placed: Sequence[tuple[int, PodInfo]]) -> None:
        """The same as :meth:`add` for each row and pod; listeners may take them all at once."""
        if self._log is not None or len(placed) < _MANY:
            for row, pod in placed:
                self.add(row, pod)
            return
        arrivals = by_shape(placed)
        self.table.add_all(arrivals)
        by_listener: dict[Any, list[PodBatch]] = {each: [] for each in self._listeners}
        for each in arrivals:
            for row, pod in zip(each.rows, each.pods, strict=True):
                pod.row = row
                self._pods[pod.uid] = pod
                self._orphans.discard(pod.uid)
            # Of one shape, and so of one priority.
            first = each.pods[0].priority
            self._by_priority[first] = self._by_priority.get(first, 0) + len(each.pods)
            for listener in self._listening(each.pods[0]):
                by_listener[listener].append(each)
        for listener, theirs in by_listener.items():
            if theirs:
                _notify_all(listener, theirs)

    def drop(self, pod: PodInfo) -> None:
        """Takes a pod off its row."""
        row = pod.row
        for listener in reversed(self._listening(pod)):
            listener.pod_removed(row, pod)
        self.table.drop(row, pod)
        del self._pods[pod.uid]
        if self._by_priority[pod.priority] == 1:
            del self._by_priority[pod.priority]
        else:
            self._by_priority[pod.priority] -= 1
        pod.row = -1
        if self._log is not None:
            self._note_drop(pod, row)

    def _note_drop(self, pod: PodInfo, row: int) -> None:
        """What was added last and goes again needs not be taken back: nobody is told twice."""
        assert self._log is not None
        if self._log and self._log[-1][0] is pod and self._log[-1][2]:
            self._log.pop()
        else:
            self._log.append((pod, row, False))

    def add_orphan(self, pod: PodInfo) -> None:
        """A pod that counts on no row is on a node that is not known: whoever keeps account of the
        cluster as a whole is told."""
        self._orphans.add(pod.uid)
        for listener in self._listening(pod):
            if hasattr(listener, "orphan_added"):
                listener.orphan_added(pod)

    def drop_orphan(self, pod: PodInfo) -> None:
        """The inverse of :meth:`add_orphan`, for a pod whose node did not come (back)."""
        self._orphans.discard(pod.uid)
        for listener in reversed(self._listening(pod)):
            if hasattr(listener, "orphan_removed"):
                listener.orphan_removed(pod)

    def relabel(self, pod: PodInfo, shape: PodShape) -> None:
        """Gives a pod that counts another shape with which it counts as the same amounts.

        Binding does that: the API server copies topology labels of the node to the pod. Only
        listeners that look at labels are told, as of a pod that goes and another that comes.
        """
        for listener in reversed(self._listening(pod)):
            if getattr(listener, "labels_matter", True):
                listener.pod_removed(pod.row, pod)
        pod.shape, pod.counted = shape, shape.container_requests.counted(pod.pod)
        for listener in self._listening(pod):
            if getattr(listener, "labels_matter", True):
                listener.pod_added(pod.row, pod)

    def _listening(self, pod: PodInfo) -> tuple[Any, ...]:
        """The listeners that care for a pod."""
        shape = pod.shape
        # Shapes that have nothing that a listener reads are all alike.
        key = (shape.fields, -1 if not shape.fields & self._reads else shape.id)
        told = self._listeners_of.get(key) or self._ask(key, shape)
        return told.of_all if pod.allocations else told.of_bare

    def _ask(self, key: tuple[int, int], shape: PodShape) -> _Listeners:
        if len(self._listeners_of) >= _KINDS:
            self._listeners_of.clear()
        of_all = tuple(
            each for each, idle_points in self._idle_points_of
            if idle_points is None or "pod_added" not in idle_points(shape)
        )  # fmt: skip
        told = self._answers.get(of_all)
        if told is None:
            of_bare = (each for each in of_all if not getattr(each, "allocations_only", False))
            told = self._answers[of_all] = _Listeners(of_all, tuple(of_bare))
        self._listeners_of[key] = told
        return told

    @contextmanager
    def what_if(self) -> Iterator[None]:
        """Takes back whatever is added and dropped inside, at its end; may be nested.

        Kept answers stay valid: the table's journal knows nothing of it afterwards.
        """
        outer, self._log = self._log, []
        mark = self.table.mark()
        try:
            yield
        finally:
            log, self._log = self._log, None
            for pod, row, added in reversed(log):
                if added:
                    self.drop(pod)
                else:
                    self.add(row, pod)
            self._log = outer
            self.table.forget(mark)


def _notify_all(listener: Any, arrivals: Sequence[PodBatch]) -> None:
    if hasattr(listener, "pods_added"):
        listener.pods_added(arrivals)
        return
    for each in arrivals:
        for row, pod in zip(each.rows, each.pods, strict=True):
            listener.pod_added(row, pod)
