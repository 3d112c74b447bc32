# SPDX-License-Identifier: Apache-2.0
"""The queue's nominations, by row of the node table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.decision.decider import Nominations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.queue.nominator import Nominator


class QueueNominations(Nominations):
    """See :class:`Nominations`; those of nodes that are not known count nowhere."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.nominator: Nominator | None = None

    @property
    def empty(self) -> bool:
        """Whether no pod is nominated anywhere."""
        return not self.nominator

    def on_rows(self, pod: PodInfo) -> Mapping[int, Sequence[PodInfo]]:
        """By row, pods nominated there whose priority is not below the pod's, without itself."""
        if not self.nominator:
            return {}
        found: dict[int, Sequence[PodInfo]] = {}
        least, own = pod.priority, pod.uid
        for name, pods in self.nominator.by_node().items():
            chosen = [p for p in pods.values() if p.priority >= least and p.uid != own]
            row = self._table.row(name) if chosen else None
            if row is not None:
                found[row] = sorted(chosen, key=_importance) if len(chosen) > 1 else chosen
        return found

    def row_of(self, pod: PodInfo) -> int | None:
        """The row that the pod itself is nominated to."""
        name = self.nominator.node_of(pod.uid) if self.nominator else ""
        return self._table.row(name) if name else None

    def drop_lower(self, row: int, priority: int) -> Sequence[PodInfo]:
        """Takes back the nominations of a row to pods below a priority; gives those pods."""
        if self.nominator is None:
            return ()
        return self.nominator.forget_lower(self._table.name(row), priority)


def _importance(pod: PodInfo) -> int:
    return -pod.priority
