# SPDX-License-Identifier: Apache-2.0
"""Which pods count on which node: in the node table and in every plugin that keeps account.

The one way to move a pod, for assumed and bound pods as for what-ifs, so that no account can drift
from the others.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.framework.plugin import idle_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape


# How many shapes it is remembered of whom to tell.
_SHAPES = 4096


class Accounts:
    """Moves pods.

    Args:
        table: the nodes.
        listeners: PodListener plugins, told in this order and, of removals, in the opposite one.
    """

    def __init__(self, table: NodeTable, listeners: Sequence[Any] = ()) -> None:
        self.table = table
        self._listeners = list(listeners)
        # By shape, whom to tell of its pods.
        self._told: dict[int, list[Any]] = {}
        self._pods: dict[str, PodInfo] = {}
        self._log: list[tuple[PodInfo, int, bool]] | None = None

    def listen(self, listener: Any) -> None:
        """Adds a listener; it is told of the pods that count already."""
        for pod in self._pods.values():
            listener.pod_added(pod.row, pod)
        self._listeners.append(listener)
        self._told.clear()

    def get(self, uid: str) -> PodInfo | None:
        """A pod that counts somewhere."""
        return self._pods.get(uid)

    def pods(self) -> dict[str, PodInfo]:
        """All pods that count somewhere, by uid; not to be changed."""
        return self._pods

    def add(self, row: int, pod: PodInfo) -> None:
        """Counts a pod on a row."""
        pod.row = row
        self.table.add(row, pod)
        self._pods[pod.uid] = pod
        for listener in self._listening(pod.shape):
            listener.pod_added(row, pod)
        if self._log is not None:
            self._log.append((pod, row, True))

    def drop(self, pod: PodInfo) -> None:
        """Takes a pod off its row."""
        row = pod.row
        for listener in reversed(self._listening(pod.shape)):
            listener.pod_removed(row, pod)
        self.table.drop(row, pod)
        del self._pods[pod.uid]
        pod.row = -1
        if self._log is not None:
            self._log.append((pod, row, False))

    def relabel(self, pod: PodInfo, shape: PodShape) -> None:
        """Gives a pod that counts another shape that asks for the same amounts.

        Binding does that: the API server copies topology labels of the node to the pod. Only
        listeners that look at labels are told, as of a pod that goes and another that comes.
        """
        for listener in reversed(self._listening(pod.shape)):
            if getattr(listener, "labels_matter", True):
                listener.pod_removed(pod.row, pod)
        pod.shape = shape
        for listener in self._listening(shape):
            if getattr(listener, "labels_matter", True):
                listener.pod_added(pod.row, pod)

    def _listening(self, shape: PodShape) -> list[Any]:
        """The listeners that care for pods of a shape."""
        told = self._told.get(shape.id)
        if told is None:
            if len(self._told) >= _SHAPES:
                self._told.clear()
            told = self._told[shape.id] = [
                each for each in self._listeners if "pod_added" not in idle_at(each, shape)
            ]
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
