# SPDX-License-Identifier: Apache-2.0
"""One pass over a job: what it is given, what it decides, and how it ends.

Rule: docs/reference/migration.md#reconcile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.kinds import reservation as kinds
from koord.api.kinds.migration import RUNNING
from koord.controllers.descheduler.migration.arbitration.job_index import job_pod_key
from koord.controllers.descheduler.migration.arbitration.pod_index import is_ready, pod_key
from koord.controllers.descheduler.migration.course import job_status
from koord.controllers.descheduler.migration.course.job_status import StatusDraft
from koord.controllers.descheduler.migration.course.reservation_pool import PoolState

if TYPE_CHECKING:
    from koord.api.kinds.meta import ObjectReference
    from koord.api.kinds.migration import PodMigrationJob, PodMigrationJobStatus
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation
    from koord.controllers.descheduler.migration.course.object_limiter import HeldBack
    from koord.controllers.descheduler.migration.course.surge_state import SurgeState

AGAIN_SECONDS = 3.0
NOTHING, WRITE, NAME_POD, RESERVE, ORDER, EVICT, ROLL_BACK = (
    "nothing", "write", "name pod", "reserve", "order", "evict", "roll back",
)  # fmt: skip
EXCHANGE, TAKE_SPARE = "exchange", "take spare"
SCALE_UP, SCALE_DOWN, UNDO_SURGE = "scale up", "scale down", "undo surge"
REVOKE = "revoke"
NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True)
class GroupState:
    """The jobs that move together with one.

    Attributes:
        ready: whether each of them may evict now.
        begun: whether the pod of any was asked to go.
        broken: why they cannot go together any more; empty while they can.
    """

    ready: bool = True
    begun: bool = False
    broken: str = ""


@dataclass(frozen=True)
class JobSurroundings:
    """What a job stands for, as far as it is there.

    Attributes:
        now_seconds: wall time.
        pod: that is named; another one of that name too.
        reservation: that is named, or would be made.
        bound_pod: the first owner of the reservation.
        limited: what of the limiter of objects keeps the pod.
        default_mode: of jobs that name none.
        group: of a job that moves alone, nothing.
        pool: what other reservations of the workload mean for it.
        moved_otherwise: whether another job moves the pod; of one that has begun, False.
        surge: of a job whose pod's Deployment asks to be surged.
    """

    now_seconds: float
    pod: Pod | None = None
    reservation: Reservation | None = None
    bound_pod: Pod | None = None
    limited: HeldBack | None = None
    default_mode: str = ""
    group: GroupState = field(default_factory=GroupState)
    pool: PoolState = field(default_factory=PoolState)
    surge: SurgeState | None = None
    moved_otherwise: bool = False


@dataclass(frozen=True)
class JobStep:
    """What is done in one pass.

    Attributes:
        action: ``write``: only the status. ``name pod``: the pod's uid into the spec. ``reserve``:
            make the reservation. ``order``: label it. ``evict``: the status, which says that it is
            about to happen, then the pod. ``roll back``: delete the reservation. ``exchange``: give
            the own reservation for the one that the new pod took. ``take spare``: name the one that
            was given. ``scale up``, ``scale down``, ``undo surge``: of the Deployment. ``revoke``:
            take the soft eviction back.
        status: as it is to be; None where nothing of it changes.
        events: type, reason and message, in order, once the status is written.
        again_seconds: when to look again although nothing changes; None for not before.
    """

    action: str = NOTHING
    status: PodMigrationJobStatus | None = None
    events: tuple[tuple[str, str, str], ...] = ()
    again_seconds: float | None = None

    def begins(self, job: PodMigrationJob) -> bool:
        """Whether the job runs from this step on."""
        return self.status is not None and self.status.phase == RUNNING != job.status.phase


class JobPass:
    """The draft of a pass, and its ends.

    Args:
        job: that has passed arbitration and has not ended.
        surroundings: of it.
    """

    def __init__(self, job: PodMigrationJob, surroundings: JobSurroundings) -> None:
        self._job, self._surroundings = job, surroundings
        self._draft = StatusDraft(job.status, surroundings.now_seconds)
        self._events: list[tuple[str, str, str]] = []
        self._title = f'"{job_pod_key(job)}"'

    def _await_bound(self, held: Reservation) -> JobStep | None:
        """Until the new pod has the reservation and is ready."""
        draft, owners = self._draft, held.status.current_owners
        if not owners:
            reason = "WaitForPodBindReservation"
            if draft.report(job_status.POD_BOUND_RESERVATION, job_status.FALSE, reason):
                self._say(NORMAL, reason, "Waiting for Pod bind Reservation")
            if held.status.phase == kinds.FAILED:
                return self._fail("ReservationExpired", "Reservation failed before a pod took it")
            return self._end()
        name = named(owners[0].namespace, owners[0].name)
        if (
            draft.note(job_status.RESERVATION_BOUND, job_status.TRUE)
            or draft.status.pod_ref is None
        ):
            draft.status.pod_ref = owners[0]
            self._say(
                NORMAL, job_status.POD_BOUND_RESERVATION, f'Reservation bound by pod "{name}"'
            )
        bound = self._surroundings.bound_pod
        if (
            bound is not None
            and not is_ready(bound)
            and not draft.is_true(job_status.BOUND_POD_READY)
        ):
            reason = "WaitForBoundPodReady"
            if draft.report(job_status.BOUND_POD_READY, job_status.FALSE, reason):
                self._say(NORMAL, reason, f"Waiting for Bound Pod {pod_key(bound)} Ready")
            return self._end()
        if draft.report(job_status.BOUND_POD_READY, job_status.TRUE):
            self._say(NORMAL, job_status.BOUND_POD_READY, f'Bind pod "{name}" is ready')
        return None

    def _settled(self, held: Reservation) -> JobStep:
        """The new pod is in the reservation, and ready."""
        draft, owner = self._draft, held.status.current_owners[0]
        draft.status.pod_ref = owner
        name = named(owner.namespace, owner.name)
        text = f'Bind Pod "{name}" in Reservation "{held.metadata.name}"'
        draft.note(job_status.POD_BOUND_RESERVATION, job_status.TRUE, message=text)
        return self._succeed(text)

    def _is_other(self, pod: Pod) -> bool:
        """Whether it is another pod of that name than the job means."""
        ref = self._job.spec.pod_ref
        return ref is not None and ref.uid not in ("", pod.metadata.uid)

    def _evicted(self) -> None:
        self._draft.report(job_status.EVICTION, job_status.TRUE, job_status.EVICT_COMPLETE)
        self._say(NORMAL, job_status.EVICT_COMPLETE, f"Pod {self._title} has been evicted")

    def _missing_pod(self) -> JobStep:
        return self._fail("MissingPod", f"Abort job caused by missing Pod {self._title}")

    def _missing_reservation(self, ref: ObjectReference) -> JobStep:
        text = f'Abort job caused by missing Reservation "{named(ref.namespace, ref.name)}"'
        return self._fail("MissingReservation", text)

    def _taken(self) -> JobStep:
        text = "Reservation is already bound by another Pod"
        return self._fail("ForbiddenMigratePod", text)

    def _fail(self, reason: str, message: str) -> JobStep:
        self._draft.fail(reason, message)
        self._say(WARNING, reason, message)
        return self._end()

    def _succeed(self, message: str) -> JobStep:
        self._draft.succeed(message)
        self._say(NORMAL, job_status.COMPLETE, message)
        return self._end()

    def _say(self, kind: str, reason: str, message: str) -> None:
        self._events.append((kind, reason, message))

    def _end(self, action: str = NOTHING, again: float | None = None) -> JobStep:
        changed = self._draft.changed
        status = self._draft.status if changed else None
        if action == NOTHING and changed:
            action = WRITE
        return JobStep(action, status, tuple(self._events), again)


def named(namespace: str, name: str) -> str:
    """``namespace/name``."""
    return f"{namespace}/{name}"
