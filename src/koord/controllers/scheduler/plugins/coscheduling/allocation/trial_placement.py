# SPDX-License-Identifier: Apache-2.0
"""Members of a job put on nodes for a try, and taken off again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.cycle import Cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider, Decision


class TrialPlacement:
    """Where a job's pods stand during a try. Leave with nobody on it: :meth:`clear`.

    Args:
        decider: of the job's profile.
        members: all pods of the job.
    """

    def __init__(self, decider: Decider, members: tuple[PodInfo, ...]) -> None:
        self._decider = decider
        self._members = members
        self._on: dict[int, list[Decision]] = {}

    def cycle_of(self, pod: PodInfo) -> Cycle:
        """An attempt of a pod as one of the job."""
        cycle = Cycle(pod, self._decider.table)
        cycle.members = self._members
        cycle.preempting = True
        return cycle

    def place(self, pod: PodInfo, row: int) -> bool:
        """Puts a pod on a row if it fits there; whether it did."""
        decision = self._decider.try_row(self.cycle_of(pod), row)
        if decision.row < 0 or self._decider.assume(decision) is not None:
            return False
        self.take_over([decision])
        return True

    def take_over(self, decisions: Sequence[Decision]) -> None:
        """Counts pods that are assumed already as put there."""
        for decision in decisions:
            self._on.setdefault(decision.row, []).append(decision)

    def place_all(self, pods: Sequence[PodInfo], row: int) -> bool:
        """Puts pods on a row one after the other; all, or none."""
        for pod in pods:
            if not self.place(pod, row):
                self.remove(row)
                return False
        return True

    def remove(self, row: int) -> list[PodInfo]:
        """Takes all pods off a row; gives them in the order in which they came."""
        decisions = self._on.pop(row, [])
        for decision in reversed(decisions):
            self._decider.retract(decision)
        return [decision.cycle.pod for decision in decisions]

    def clear(self) -> None:
        """Takes all pods off all rows."""
        for row in reversed(list(self._on)):
            self.remove(row)

    def rows(self) -> dict[int, list[PodInfo]]:
        """By row, the pods on it."""
        return {row: [each.cycle.pod for each in found] for row, found in self._on.items()}
