# SPDX-License-Identifier: Apache-2.0
"""How many pods of a job each node takes, found by putting them there.

Rule: docs/reference/gangs.md#placing.
Nodes whose columns leave room for equally many pods are taken for alike: one of them is tried, and
answers for all. That is checked where it matters: whoever then finds that a node takes less calls
:meth:`NodeCapacity.distrust`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.scheduler.framework.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider, Decision
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.rejection import Rejection


class NodeCapacity:
    """Rows with how many of a job's pods they take, in the job's order, until the first fails.

    Args:
        decider: of the job's profile.
        pods: the job's pods in order, at least one.
        cycle_of: makes a pod's cycle.

    Attributes:
        slots: by row, how many; rows that do not take the first are not named.
    """

    def __init__(
        self, decider: Decider, pods: Sequence[PodInfo], cycle_of: Callable[[PodInfo], Cycle]
    ) -> None:
        self._decider = decider
        self._pods = pods
        self._cycle_of = cycle_of
        cycle = cycle_of(pods[0])
        rows, self._elsewhere = decider.survey(cycle)
        room = capacity_by_columns(decider.table, pods, rows)
        # A kind is a number of pods, or, as ~row, a row that columns do not tell all of.
        self._kinds: dict[int, list[int]] = {}
        self._kind_of: dict[int, int] = {}
        adjusted = decider.table.adjusted
        for row, count in zip(rows.tolist(), room.tolist(), strict=True):
            odd = row in adjusted or cycle.overlay(row) is not None
            kind = ~row if odd else count
            self._kinds.setdefault(kind, []).append(row)
            self._kind_of[row] = kind
        self._guessed = {kind for kind, alike in self._kinds.items() if len(alike) > 1}
        self.slots: dict[int, int] = {}
        self._refused: dict[int, Rejection] = {}
        for alike in self._kinds.values():
            self._note(alike, *self._measure(alike[0]))

    @property
    def early(self) -> bool:
        """Whether the first pod was refused before any node was looked at."""
        return self._elsewhere.early is not None

    def distrust(self, row: int | None = None) -> bool:
        """Asks each node of a row's kind for itself, or all that may take more than was said.

        Returns:
            Whether any was asked that had not been.
        """
        if row is not None:
            kinds = [self._kind_of[row]]
        else:
            # Who takes all that the columns leave room for has none that take more among its like.
            kinds = [kind for kind in self._kinds if self.slots[self._kinds[kind][0]] < kind]
        asked = False
        for kind in sorted(self._guessed.intersection(kinds)):
            self._guessed.discard(kind)
            asked = True
            for each in self._kinds[kind]:
                self._note([each], *self._measure(each))
        return asked

    def diagnosis(self) -> Diagnosis:
        """Why each node takes no more."""
        elsewhere = self._elsewhere
        by_row = {**elsewhere.by_row, **self._refused}
        return Diagnosis(elsewhere.nodes, elsewhere.early, by_row)

    def _note(self, rows: Sequence[int], count: int, refused: Rejection | None) -> None:
        for row in rows:
            self.slots[row] = count
            self._refused.pop(row, None)
            if refused is not None:
                self._refused[row] = refused

    def _measure(self, row: int) -> tuple[int, Rejection | None]:
        taken: list[Decision] = []
        refused: Rejection | None = None
        for pod in self._pods:
            decision = self._decider.try_row(self._cycle_of(pod), row)
            if decision.diagnosis is not None:
                refused = decision.diagnosis.early or decision.diagnosis.by_row[row]
                break
            refused = self._decider.assume(decision)
            if refused is not None:
                break
            taken.append(decision)
        for decision in reversed(taken):
            self._decider.retract(decision)
        return len(taken), refused


def capacity_by_columns(
    table: NodeTable, pods: Sequence[PodInfo], rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """By row, how many pods the columns leave room for, in order until one does not fit."""
    total: dict[int, int] = {}
    steps: dict[int, list[int]] = {}
    for number, pod in enumerate(pods):
        required = table.columns_of(pod.shape.container_requests).required
        for index, amount in zip(*map(np.ndarray.tolist, required), strict=True):
            total[index] = total.get(index, 0) + amount
            steps.setdefault(index, [0] * number)
        for index, sums in steps.items():
            sums.append(total[index])
    room = np.full(len(rows), len(pods), np.intp)
    for index, sums in steps.items():
        if total[index]:
            free = table.allocatable[index, rows] - table.requested[index, rows]
            np.minimum(room, np.searchsorted(np.array(sums), free, "right"), out=room)
    return room
