# SPDX-License-Identifier: Apache-2.0
"""The status of a job, read, and changed on a copy.

Rule: docs/reference/migration.md#reconcile.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from koord.api.kinds.migration import FAILED, SUCCEEDED, PodMigrationJobCondition

if TYPE_CHECKING:
    from koord.api.kinds.migration import PodMigrationJobStatus

RESERVATION_CREATED = "ReservationCreated"
RESERVATION_SCHEDULED = "ReservationScheduled"
EVICTION = "Eviction"
SURGE = "Surge"
"""Condition of koord's own: whether a Deployment has a second replica for the job."""
POD_SCHEDULED = "PodScheduled"
RESERVATION_BOUND = "ReservationBound"
POD_BOUND_RESERVATION = "PodBoundReservation"
BOUND_POD_READY = "BoundPodReady"
TRUE, FALSE = "True", "False"
EVICTING, EVICT_COMPLETE, FAILED_EVICT = "Evicting", "EvictComplete", "FailedEvict"
COMPLETE = "Complete"
ENDED_WELL = SUCCEEDED


class StatusDraft:
    """A status that is changed; the original stays as it is.

    Args:
        status: as it is.
        now_seconds: wall time.

    Attributes:
        status: as it is to be.
    """

    def __init__(self, status: PodMigrationJobStatus, now_seconds: float) -> None:
        self._before = status
        self.status = msgspec.structs.replace(status, conditions=list(status.conditions))
        self._now = datetime.fromtimestamp(int(now_seconds), UTC)

    @property
    def changed(self) -> bool:
        """Whether anything is other than it was."""
        return self.status != self._before

    def condition(self, kind: str) -> PodMigrationJobCondition | None:
        """The condition of a type."""
        return condition(self.status, kind)

    def is_true(self, kind: str) -> bool:
        """Whether a condition is there and true."""
        found = self.condition(kind)
        return found is not None and found.status == TRUE

    def note(self, kind: str, status: str, reason: str = "", message: str = "") -> bool:
        """Sets a condition; whether that changes anything."""
        known = self.condition(kind)
        if known is not None and (known.status, known.reason, known.message) == (
            status, reason, message,
        ):  # fmt: skip
            return False
        since = known.last_transition_time if known and known.status == status else self._now
        made = PodMigrationJobCondition(
            type=kind, status=status, reason=reason, message=message, last_transition_time=since
        )
        if known is None:
            self.status.conditions.append(made)
        else:
            self.status.conditions[self.status.conditions.index(known)] = made
        return True

    def report(self, kind: str, status: str, reason: str = "", message: str = "") -> bool:
        """Sets a condition and says so at the top; whether that changes anything."""
        if not self.note(kind, status, reason, message):
            return False
        self.status.status, self.status.reason, self.status.message = kind, reason, message
        return True

    def fail(self, reason: str, message: str) -> None:
        """Ends the job as failed."""
        self.status.phase, self.status.reason, self.status.message = FAILED, reason, message

    def succeed(self, message: str) -> None:
        """Ends the job well."""
        self.status.phase, self.status.status = SUCCEEDED, COMPLETE
        self.status.reason, self.status.message = "", message


def condition(status: PodMigrationJobStatus, kind: str) -> PodMigrationJobCondition | None:
    """The condition of a type."""
    return next((each for each in status.conditions if each.type == kind), None)


def eviction_began(status: PodMigrationJobStatus) -> bool:
    """Whether the pod of a job was asked to go, or may have been."""
    found = condition(status, EVICTION)
    return found is not None and (found.status == TRUE or found.reason == EVICTING)


def is_bound(status: PodMigrationJobStatus) -> bool:
    """Whether a pod has taken the reservation of a job."""
    found = condition(status, RESERVATION_BOUND)
    return found is not None and found.status == TRUE
