# SPDX-License-Identifier: Apache-2.0
"""The jobs of one workload reserve one after another.

The pod that comes anew for one that was evicted may take any reservation of its workload. With
several it would take another job's, whose own pod then had nowhere to go.

Rule: docs/reference/migration.md#one-after-another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class ReservationQueue:
    """Whose turn it is, by the uid of the controller that makes the pods anew."""

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._held_by: dict[str, str] = {}

    def hold(self, controller: str, job: str) -> None:
        """A job has a reservation that no pod has taken."""
        if controller:
            self._holders.setdefault(controller, set()).add(job)
            self._held_by[job] = controller

    def take(self, controller: str, job: str, group: Collection[str]) -> bool:
        """Whether a job may reserve now; it has its turn from then on.

        Args:
            controller: empty where nobody makes the pod anew.
            job: uid.
            group: uids of the jobs that move together with it.
        """
        others = self._holders.get(controller, set()) - {job, *group}
        if others:
            self._waiting.setdefault(controller, set()).add(job)
            return False
        self.hold(controller, job)
        return True

    def release(self, job: str) -> list[str]:
        """A job has no such reservation any more; who waits for that."""
        controller = self._held_by.pop(job, None)
        if controller is None:
            return []
        self._holders[controller].discard(job)
        if self._holders[controller]:
            return []
        del self._holders[controller]
        return sorted(self._waiting.pop(controller, ()))
