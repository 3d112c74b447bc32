# SPDX-License-Identifier: Apache-2.0
"""How many pods of a job each node takes, found by putting them there (spec section 10.3, 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decider import Decider, Decision
    from koord.controllers.scheduler.framework.rejection import Rejection


class NodeOffers:
    """Rows with how many of a job's pods they take, in the job's order, until the first fails.

    Nodes that are alike in all columns are asked once at first: one answers for all. Whoever finds
    that a node took less calls :meth:`distrust`, and each of its kind is asked for itself.

    Args:
        decider: of the job's profile.
        pods: the job's pods in order, at least one.
        first: filters for the first pod; narrows the nodes.
    """

    def __init__(
        self, decider: Decider, pods: Sequence[PodInfo], cycle_of: Callable[[PodInfo], Cycle]
    ) -> None:
        self._decider = decider
        self._pods = pods
        self._cycle_of = cycle_of
        cycle = cycle_of(pods[0])
        rows, self._elsewhere = decider.survey(cycle)
        self._kinds: dict[bytes, list[int]] = {}
        table = decider.table
        for row in rows.tolist():
            kind = table.allocatable[:, row].tobytes() + table.requested[:, row].tobytes()
            self._kinds.setdefault(kind, []).append(row)
        self._kind_of = {row: kind for kind, alike in self._kinds.items() for row in alike}
        self._shared = {kind for kind, alike in self._kinds.items() if len(alike) > 1}
        self.slots: dict[int, int] = {}
        self._refused: dict[int, Rejection] = {}
        for alike in self._kinds.values():
            count, refused = self._measure(alike[0])
            self._note(alike, count, refused)

    @property
    def early(self) -> bool:
        """Whether the first pod was refused before any node was looked at."""
        return self._elsewhere.early is not None

    def distrust(self, row: int | None = None) -> bool:
        """Asks each node of a row's kind for itself, or all if no row is given.

        Returns:
            Whether any was asked that had not been.
        """
        kinds = [self._kind_of[row]] if row is not None else sorted(self._shared)
        asked = False
        for kind in kinds:
            if kind in self._shared:
                self._shared.discard(kind)
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
