# SPDX-License-Identifier: Apache-2.0
"""What a job needs next: a function of the job and of what it stands for, without any I/O.

Rules: docs/reference/migration.md#reconcile, docs/reference/migration.md#eviction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds import reservation as kinds
from koord.api.kinds.migration import EVICT_DIRECTLY, PENDING, RUNNING
from koord.api.protocol import keys
from koord.api.protocol.eviction import soft_eviction
from koord.base.errors import KoordError
from koord.controllers.descheduler.migration.arbitration.job_index import is_open
from koord.controllers.descheduler.migration.course import job_status
from koord.controllers.descheduler.migration.course.job_pass import (
    AGAIN_SECONDS,
    EVICT,
    EXCHANGE,
    NAME_POD,
    NORMAL,
    NOTHING,
    ORDER,
    RESERVE,
    REVOKE,
    ROLL_BACK,
    TAKE_SPARE,
    UNDO_SURGE,
    WARNING,
    JobStep,
)
from koord.controllers.descheduler.migration.course.reservation_pool import is_free
from koord.controllers.descheduler.migration.course.surge_pass import (
    SurgePass,
    eviction_message,
    eviction_reason,
)
from koord.controllers.descheduler.migration.course.surge_state import is_marked

if TYPE_CHECKING:
    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation, ReservationCondition
    from koord.controllers.descheduler.migration.course.job_pass import JobSurroundings

OBJECT_LIMITER = "ObjectLimiter"


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
    """A job that ended leaves no surge, and no reservation of its own that holds anything."""
    pod, ref, surge = surroundings.pod, job.spec.pod_ref, surroundings.surge
    own = pod if pod is not None and ref is not None and pod.metadata.uid == ref.uid else None
    well = job.status.phase == job_status.ENDED_WELL
    if (surge is not None and surge.is_begun) or (not well and is_marked(own)):
        return JobStep(UNDO_SURGE)
    softly = not well and own is not None and _is_softly_evicted(job, own)
    if softly and not surroundings.moved_otherwise:
        return JobStep(REVOKE)
    if surroundings.pool.spare is not None:
        return JobStep(ROLL_BACK)
    held = surroundings.reservation
    if well or held is None or not is_own(held, job):
        return JobStep()
    return JobStep(ROLL_BACK) if is_free(held) else JobStep()


def _is_softly_evicted(job: PodMigrationJob, pod: Pod) -> bool:
    """Whether what this job wrote on a pod still asks it to go, even if no answer came then."""
    if job_status.condition(job.status, job_status.EVICTION) is None:
        return False
    try:
        record = soft_eviction(pod)
    except KoordError:
        return False
    trigger = job.metadata.annotations.get(keys.EVICT_TRIGGER, "")
    mine = trigger, eviction_reason(job)
    return record is not None and (record.initiator, record.reason) == mine


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


class _Pass(SurgePass):
    """One pass over the rules, in order; the first that has something to wait for ends it."""

    def run(self) -> JobStep:
        left = seconds_left(self._job, self._surroundings.now_seconds)
        if left is not None and left <= 0:
            return self._fail("Timeout", "Abort job caused by timeout")
        if self._job.status.phase in ("", PENDING):
            return self._begin()
        limited = self._limited()
        if limited is not None:
            return limited
        mode = self._job.spec.mode or self._surroundings.default_mode
        if mode == EVICT_DIRECTLY:
            if self._surroundings.surge is not None:
                return self._refuse_direct()
            return self._evict() or self._succeed(f"Pod {self._title} has been evicted")
        return self._with_reservation()

    def _limited(self) -> JobStep | None:
        """While the limiter of objects keeps the pod; said once, as long as nothing else is."""
        limited, status = self._surroundings.limited, self._draft.status
        passes = keys.DESCHEDULER_EVICT in self._job.metadata.annotations
        if limited is None or passes or job_status.eviction_began(self._job.status):
            if status.reason == OBJECT_LIMITER:
                # The last condition counts again.
                last = self._draft.condition(status.status)
                status.reason, status.message = (last.reason, last.message) if last else ("", "")
            return None
        if status.reason != OBJECT_LIMITER:
            status.reason, status.message = OBJECT_LIMITER, limited.message
            self._say(NORMAL, OBJECT_LIMITER, limited.message)
        return self._end(again=max(limited.seconds, AGAIN_SECONDS))

    def _begin(self) -> JobStep:
        ref, pod = self._job.spec.pod_ref, self._surroundings.pod
        if ref is None or not ref.namespace or not ref.name:
            return self._fail("InvalidPodRef", "Abort job caused by invalid PodRef")
        if pod is None or (ref.uid and ref.uid != pod.metadata.uid):
            return self._missing_pod()
        if not ref.uid:
            return JobStep(NAME_POD)
        if self._surroundings.moved_otherwise:
            return self._end(again=AGAIN_SECONDS)
        self._draft.status.phase = RUNNING
        return self._end()

    def _with_reservation(self) -> JobStep:
        options, held = self._job.spec.reservation_options, self._surroundings.reservation
        ref = options.reservation_ref if options is not None else None
        if ref is None:
            if self._surroundings.pod is None:
                return self._missing_pod()
            refused = self._surge_refused()
            if refused is not None:
                return refused
            return self._end(RESERVE if self._surroundings.pool.may_reserve else NOTHING)
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
        if self._is_surge():
            return self._surge(held)
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
        draft, pod = self._draft, self._surroundings.pod
        if draft.is_true(job_status.EVICTION):
            return None
        known = draft.condition(job_status.EVICTION)
        if pod is None or self._is_other(pod):
            if known is None:
                return self._missing_pod()
            self._evicted()
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
            return self._settle_taken()
        if self._surroundings.pool.yields:
            return self._end()
        if known is None:
            draft.report(
                job_status.EVICTION,
                job_status.FALSE,
                job_status.EVICTING,
                eviction_message(self._job, pod),
            )
        return self._end(EVICT, again=AGAIN_SECONDS)

    def _settle_taken(self) -> JobStep:
        """Another job's new pod has the reservation: that job's own is as good for this one."""
        pool = self._surroundings.pool
        if pool.spare is not None:
            self._draft.status.node_name = pool.spare.status.node_name
            return self._end(TAKE_SPARE)
        return self._end() if pool.awaited else self._taken()

    def _bind(self, held: Reservation) -> JobStep:
        """Until the new pod has the reservation, or another job's, and is ready."""
        taken = self._surroundings.pool.taken
        if taken is not None and is_free(held):
            self._draft.status.node_name = taken.status.node_name
            return self._end(EXCHANGE)
        return self._await_bound(held) or self._settled(held)


def _expired(held: Reservation) -> bool:
    return any(
        (each.type, each.reason) == (kinds.READY, kinds.EXPIRED) for each in held.status.conditions
    )
