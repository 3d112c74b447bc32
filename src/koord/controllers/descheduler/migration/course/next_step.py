# SPDX-License-Identifier: Apache-2.0
"""What a job needs next: a function of the job and of what it stands for, without any I/O.

Rules: docs/reference/migration.md#reconcile, docs/reference/migration.md#eviction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api.kinds import reservation as kinds
from koord.api.kinds.migration import EVICT_DIRECTLY, PENDING, RUNNING
from koord.api.protocol import keys
from koord.controllers.descheduler.migration.arbitration.job_index import is_open, job_pod_key
from koord.controllers.descheduler.migration.arbitration.pod_index import is_ready, pod_key
from koord.controllers.descheduler.migration.course import job_status
from koord.controllers.descheduler.migration.course.job_status import StatusDraft

if TYPE_CHECKING:
    from koord.api.kinds.meta import ObjectReference
    from koord.api.kinds.migration import PodMigrationJob, PodMigrationJobStatus
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation, ReservationCondition

AGAIN_SECONDS = 3.0
NOTHING, WRITE, NAME_POD, RESERVE, ORDER, EVICT, ROLL_BACK = (
    "nothing", "write", "name pod", "reserve", "order", "evict", "roll back",
)  # fmt: skip
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
        limited: whether the limiter of objects keeps the pod.
        default_mode: of jobs that name none.
        group: of a job that moves alone, nothing.
        may_reserve: whether no other job of the workload has a reservation that waits.
    """

    now_seconds: float
    pod: Pod | None = None
    reservation: Reservation | None = None
    bound_pod: Pod | None = None
    limited: bool = False
    default_mode: str = ""
    group: GroupState = field(default_factory=GroupState)
    may_reserve: bool = True


@dataclass(frozen=True)
class JobStep:
    """What is done in one pass.

    Attributes:
        action: ``write``: only the status. ``name pod``: the pod's uid into the spec. ``reserve``:
            make the reservation. ``order``: label it. ``evict``: the status, which says that it is
            about to happen, then the pod. ``roll back``: delete the reservation.
        status: as it is to be; None where nothing of it changes.
        events: type, reason and message, in order, once the status is written.
        again_seconds: when to look again although nothing changes; None for not before.
    """

    action: str = NOTHING
    status: PodMigrationJobStatus | None = None
    events: tuple[tuple[str, str, str], ...] = ()
    again_seconds: float | None = None


def next_step(job: PodMigrationJob, surroundings: JobSurroundings) -> JobStep:
    """The next step of a job that has passed arbitration, or has ended."""
    if not is_open(job):
        return _ended(job, surroundings)
    if job.spec.paused:
        return JobStep()
    return _Pass(job, surroundings).run()


def seconds_left(job: PodMigrationJob, now_seconds: float) -> float | None:
    """How long a job may still take; None for as long as it wants."""
    ttl, created = job.spec.ttl, job.metadata.creation_timestamp
    if ttl is None or ttl.nanoseconds <= 0 or created is None:
        return None
    return created.timestamp() + ttl.nanoseconds / 1e9 - now_seconds


def _ended(job: PodMigrationJob, surroundings: JobSurroundings) -> JobStep:
    """A job that did not end well leaves no reservation of its own that holds anything."""
    held = surroundings.reservation
    if job.status.phase == job_status.ENDED_WELL or held is None or not is_own(held, job):
        return JobStep()
    if held.status.phase in (kinds.SUCCEEDED, kinds.FAILED) or held.status.current_owners:
        return JobStep()
    return JobStep(ROLL_BACK)


def is_own(reservation: Reservation, job: PodMigrationJob) -> bool:
    """Whether a reservation was made for a job by a descheduler, and not by its author."""
    meta = reservation.metadata
    if any(owner.uid == job.metadata.uid for owner in meta.owner_references):
        return True
    made = meta.labels.get(keys.CREATED_BY) == "koord-descheduler"
    return made and meta.name == job.metadata.uid


def scheduled_condition(reservation: Reservation, reason: str) -> ReservationCondition | None:
    """The condition ``Scheduled`` where it has a reason."""
    for each in reservation.status.conditions:
        if (each.type, each.reason) == (kinds.SCHEDULED, reason):
            return each
    return None


def is_unplaced(pod: Pod) -> bool:
    """Whether the pod has been found no node."""
    found = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    return found is None or found.status == job_status.FALSE


class _Pass:
    """One pass over the rules, in order; the first that has something to wait for ends it."""

    def __init__(self, job: PodMigrationJob, surroundings: JobSurroundings) -> None:
        self._job, self._surroundings = job, surroundings
        self._draft = StatusDraft(job.status, surroundings.now_seconds)
        self._events: list[tuple[str, str, str]] = []
        self._title = f'"{job_pod_key(job)}"'

    def run(self) -> JobStep:
        left = seconds_left(self._job, self._surroundings.now_seconds)
        if left is not None and left <= 0:
            return self._fail("Timeout", "Abort job caused by timeout")
        if self._job.status.phase in ("", PENDING):
            return self._begin()
        passes = keys.DESCHEDULER_EVICT in self._job.metadata.annotations
        if (
            self._surroundings.limited
            and not passes
            and not job_status.eviction_began(self._job.status)
        ):
            return self._end(again=AGAIN_SECONDS)
        mode = self._job.spec.mode or self._surroundings.default_mode
        if mode == EVICT_DIRECTLY:
            return self._evict() or self._succeed(f"Pod {self._title} has been evicted")
        return self._with_reservation()

    def _begin(self) -> JobStep:
        ref, pod = self._job.spec.pod_ref, self._surroundings.pod
        if ref is None or not ref.namespace or not ref.name:
            return self._fail("InvalidPodRef", "Abort job caused by invalid PodRef")
        if pod is None or (ref.uid and ref.uid != pod.metadata.uid):
            return self._missing_pod()
        if not ref.uid:
            return JobStep(NAME_POD)
        self._draft.status.phase = RUNNING
        return self._end()

    def _with_reservation(self) -> JobStep:
        options, held = self._job.spec.reservation_options, self._surroundings.reservation
        ref = options.reservation_ref if options is not None else None
        if ref is None:
            if self._surroundings.pod is None:
                return self._missing_pod()
            return self._end(RESERVE if self._surroundings.may_reserve else NOTHING)
        if held is None:
            return self._missing_reservation(ref)
        if keys.RESERVATION_ORDER not in held.metadata.labels:
            return self._end(ORDER)
        self._draft.report(job_status.RESERVATION_CREATED, job_status.TRUE)
        return self._place(held) or self._settle(held)

    def _place(self, held: Reservation) -> JobStep | None:
        """Until the reservation has a node, another than the pod's."""
        why = scheduled_condition(held, kinds.UNSCHEDULABLE)
        message = why.message if why is not None else ""
        if why is not None and not self._draft.is_true(job_status.RESERVATION_SCHEDULED):
            kind = job_status.RESERVATION_SCHEDULED
            if self._draft.report(kind, job_status.FALSE, "Unschedulable", message):
                self._say(WARNING, "Unschedulable", message)
        if held.status.phase in ("", kinds.PENDING):
            return self._end()
        if held.status.phase == kinds.FAILED and _expired(held):
            return self._fail("ReservationExpired", "Reservation expired")
        placed = scheduled_condition(held, kinds.SCHEDULED)
        if not held.status.node_name or placed is None or placed.status != job_status.TRUE:
            return self._fail("Unschedulable", message)
        if self._draft.status.node_name or self._draft.is_true(job_status.RESERVATION_SCHEDULED):
            return None
        name, node, pod = held.metadata.name, held.status.node_name, self._surroundings.pod
        if pod is not None and pod.spec.node_name == node:
            text = f'Scheduler assignes the Reservation "{name}" on the same node as the Pod'
            return self._fail("ForbiddenMigratePod", text)
        self._draft.status.node_name = node
        self._draft.report(job_status.RESERVATION_SCHEDULED, job_status.TRUE)
        self._say(
            NORMAL,
            job_status.RESERVATION_SCHEDULED,
            f'Assigned Reservation "{name}" to node "{node}"',
        )
        return None

    def _settle(self, held: Reservation) -> JobStep:
        """From a reservation with a node to the pod in it."""
        if any(o.object and not (o.controller or o.label_selector) for o in held.spec.owners):
            return self._await_pending_pod(held)
        return self._evict() or self._bind(held)

    def _await_pending_pod(self, held: Reservation) -> JobStep:
        """The pod itself takes the reservation: it had no node before."""
        pod = self._surroundings.pod
        if pod is None:
            return self._missing_pod()
        if is_unplaced(pod):
            owners = held.status.current_owners
            taken = held.status.phase == kinds.SUCCEEDED
            if taken and not (owners and owners[0].uid == pod.metadata.uid):
                return self._taken()
            found = (c.message for c in pod.status.conditions if c.type == "PodScheduled")
            kind = job_status.POD_SCHEDULED
            self._draft.report(kind, job_status.FALSE, "Unschedulable", next(found, ""))
            return self._end()
        self._draft.note(job_status.POD_SCHEDULED, job_status.TRUE)
        return self._succeed(f'Assign Pod {self._title} to node "{pod.spec.node_name}"')

    def _evict(self) -> JobStep | None:
        """Until the pod is gone."""
        draft, pod, ref = self._draft, self._surroundings.pod, self._job.spec.pod_ref
        if draft.is_true(job_status.EVICTION):
            return None
        known = draft.condition(job_status.EVICTION)
        other = pod is not None and ref is not None and ref.uid not in ("", pod.metadata.uid)
        if pod is None or other:
            if known is None:
                return self._missing_pod()
            draft.report(job_status.EVICTION, job_status.TRUE, job_status.EVICT_COMPLETE)
            self._say(NORMAL, job_status.EVICT_COMPLETE, f"Pod {self._title} has been evicted")
            return None
        going = pod.metadata.deletion_timestamp is not None
        if known is not None and (going or keys.SOFT_EVICTION in pod.metadata.annotations):
            return self._end()
        if known is not None and known.reason == job_status.EVICTING:
            # It was asked to go, or this process ended before it asked: it is asked anew.
            return self._end(EVICT, again=AGAIN_SECONDS)
        group = self._surroundings.group
        if not group.begun and group.broken:
            return self._fail("JobGroupFailed", group.broken)
        if not group.begun and not group.ready:
            return self._end()
        held, options = self._surroundings.reservation, self._job.spec.reservation_options
        if held is None and options is not None and options.reservation_ref is not None:
            return self._missing_reservation(options.reservation_ref)
        if held is not None and held.status.phase == kinds.SUCCEEDED:
            return self._taken()
        if known is None:
            draft.report(
                job_status.EVICTION,
                job_status.FALSE,
                job_status.EVICTING,
                eviction_message(self._job, pod),
            )
        return self._end(EVICT, again=AGAIN_SECONDS)

    def _bind(self, held: Reservation) -> JobStep:
        """Until the new pod has the reservation and is ready."""
        draft, owners = self._draft, held.status.current_owners
        if not owners:
            reason = "WaitForPodBindReservation"
            if draft.report(job_status.POD_BOUND_RESERVATION, job_status.FALSE, reason):
                self._say(NORMAL, reason, "Waiting for Pod bind Reservation")
            if held.status.phase == kinds.FAILED:
                return self._fail("ReservationExpired", "Reservation failed before a pod took it")
            return self._end()
        name = _named(owners[0].namespace, owners[0].name)
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
        draft.report(job_status.BOUND_POD_READY, job_status.TRUE)
        self._say(NORMAL, job_status.BOUND_POD_READY, f'Bind pod "{name}" is ready')
        draft.status.pod_ref = owners[0]
        text = f'Bind Pod "{name}" in Reservation "{held.metadata.name}"'
        draft.note(job_status.POD_BOUND_RESERVATION, job_status.TRUE, message=text)
        return self._succeed(text)

    def _missing_pod(self) -> JobStep:
        return self._fail("MissingPod", f"Abort job caused by missing Pod {self._title}")

    def _missing_reservation(self, ref: ObjectReference) -> JobStep:
        text = f'Abort job caused by missing Reservation "{_named(ref.namespace, ref.name)}"'
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


def eviction_reason(job: PodMigrationJob) -> str:
    """Why the pod goes, for people."""
    annotations = job.metadata.annotations
    reason = annotations.get(keys.EVICT_REASON) or annotations.get(keys.EVICT_TRIGGER)
    return reason or "NotSet"


def eviction_message(job: PodMigrationJob, pod: Pod) -> str:
    """What is said of an eviction."""
    node, reason = pod.spec.node_name, eviction_reason(job)
    return f'Pod "{job_pod_key(job)}" evicted from node "{node}" by the reason "{reason}"'


def _named(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _expired(held: Reservation) -> bool:
    return any(
        (each.type, each.reason) == (kinds.READY, kinds.EXPIRED) for each in held.status.conditions
    )
