# SPDX-License-Identifier: Apache-2.0
"""Carries jobs out: looks at one whenever it, its pod or its reservation has changed.

Rules: docs/reference/migration.md#reconcile, docs/reference/migration.md#deletion.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.migration import EVICT_DIRECTLY, RUNNING, PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import FAILED, SUCCEEDED, Reservation
from koord.api.protocol import keys
from koord.base import log
from koord.base.errors import one_line
from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.job_index import (
    group_of,
    has_passed,
    is_open,
    is_ours,
    job_pod_key,
)
from koord.controllers.descheduler.migration.course import next_step as steps
from koord.controllers.descheduler.migration.course.job_groups import JobLinks, group_state
from koord.controllers.descheduler.migration.course.job_status import (
    EVICTING,
    EVICTION,
    FAILED_EVICT,
    FALSE,
    RESERVATION_BOUND,
    RESERVATION_CREATED,
    TRUE,
    StatusDraft,
    condition,
)
from koord.controllers.descheduler.migration.course.reservation_queue import ReservationQueue
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.job_writer import JobWriter
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex
    from koord.controllers.descheduler.migration.course.evictors import PodEvictors
    from koord.controllers.descheduler.migration.course.object_limiter import ObjectLimiter
    from koord.controllers.descheduler.migration.course.reservations import Reservations
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs

_CONFLICT, _NOT_FOUND = 409, 404
# The cache is about to hear of what somebody else wrote.
_STALE_SECONDS = 0.2
_SWEEP_SECONDS = 60.0
_LEAST_SECONDS = 0.1
_MARGIN_SECONDS, _WITHOUT_TTL_SECONDS = 300.0, 1800.0
_GONE = "gone:"
_LOG = log.get("descheduler.migration")


class MigrationJobController:
    """Workers over jobs.

    Args:
        args: of the plugin.
        cluster: where the jobs are.
        clock: the time.
        jobs: kept by the caller.
        pods: kept by the caller.
        writer: of jobs.
        reservations: writes of those.
        evictors: make pods go.
        limiter: of objects.
    """

    def __init__(
        self,
        args: MigrationControllerArgs,
        cluster: ClusterAccess,
        clock: Clock,
        jobs: JobIndex,
        pods: PodIndex,
        writer: JobWriter,
        reservations: Reservations,
        evictors: PodEvictors,
        limiter: ObjectLimiter,
    ) -> None:
        self._args = args
        self._cluster = cluster
        self._clock = clock
        self._jobs = jobs
        self._pods = pods
        self._writer = writer
        self._reservations = reservations
        self._evictors = evictors
        self._limiter = limiter
        self._held = cluster.informers.view(Reservation)
        self._links = JobLinks()
        self._made: dict[str, str] = {}
        self._queue_of_workloads = ReservationQueue()
        self._controller: Controller[str] = Controller(
            "podmigrationjob",
            self._reconcile,
            workers=args.max_concurrent_reconciles,
            supervisor=cluster.supervisor,
        )

    def attach(self) -> None:
        """Follows reservations from now on."""
        self._held.on_change(
            self._reservation_changed,
            lambda old, new: self._reservation_changed(new),
            lambda last, missed: self._reservation_changed(last),
        )

    async def run(self) -> None:
        """Works until cancelled."""
        self._hold_places()
        async with asyncio.TaskGroup() as tasks:
            sweep = self._cluster.supervisor.keep("podmigrationjob sweep", self._sweep)
            tasks.create_task(sweep, name="podmigrationjob sweep")
            await self._controller.run()

    # What changes.

    def job_changed(self, job: PodMigrationJob) -> None:
        """A job is there, or has changed."""
        if not is_ours(job):
            return
        uid = job.metadata.uid
        linked = [f"reservation {self._reservation_name(job)}"]
        if job.status.pod_ref is not None:
            linked.append(f"pod {job.status.pod_ref.namespace}/{job.status.pod_ref.name}")
        self._links.put(uid, linked)
        if not is_open(job) or _is_bound(job):
            self._release_place(uid)
        self._queue(uid)
        if group_of(job):
            for each in self._jobs.of_group(group_of(job)):
                self._queue(each.metadata.uid)

    def job_gone(self, job: PodMigrationJob) -> None:
        """A job was deleted: its reservation goes too."""
        uid = job.metadata.uid
        self._links.put(uid, ())
        self._release_place(uid)
        if is_ours(job):
            self._controller.queue.add(_GONE + self._reservation_name(job))
            self._made.pop(uid, None)
            for each in self._jobs.of_group(group_of(job)) if group_of(job) else ():
                self._queue(each.metadata.uid)

    def pod_changed(self, key: str) -> None:
        """The pod of a key came, went or is another."""
        for job in self._jobs.of_pod(key):
            self._queue(job.metadata.uid)
        for uid in self._links.of(f"pod {key}"):
            self._queue(uid)

    def _reservation_changed(self, reservation: Reservation) -> None:
        name = reservation.metadata.name
        for owner in reservation.metadata.owner_references:
            if owner.kind == "PodMigrationJob":
                if reservation.status.phase in (SUCCEEDED, FAILED):
                    self._release_place(owner.uid)
                self._made[owner.uid] = name
                self._queue(owner.uid)
        for uid in self._links.of(f"reservation {name}"):
            self._queue(uid)

    def _reservation_name(self, job: PodMigrationJob) -> str:
        """The reservation that a job names, or would be given."""
        options, uid = job.spec.reservation_options, job.metadata.uid
        if options is not None and options.reservation_ref is not None:
            return options.reservation_ref.name
        return self._made.get(uid, uid)

    def _release_place(self, uid: str) -> None:
        for waiting in self._queue_of_workloads.release(uid):
            self._queue(waiting)

    def _queue(self, uid: str) -> None:
        self._controller.queue.add(uid)

    # One job.

    async def _reconcile(self, uid: str) -> float | None:
        if uid.startswith(_GONE):
            await self._release(uid.removeprefix(_GONE))
            return None
        job = self._jobs.get(uid)
        if job is None or not is_ours(job):
            return None
        try:
            again = await self.one_pass(job)
            # A moment too early it would only be looked at again, and again.
            return None if again is None else max(again, _LEAST_SECONDS)
        except ApiError as error:
            if error.http_status not in (_CONFLICT, _NOT_FOUND):
                raise
            return _STALE_SECONDS

    async def one_pass(self, job: PodMigrationJob) -> float | None:
        """Does the next step of a job; after how many seconds it wants to be looked at again."""
        now = self._clock.wall_seconds()
        left = steps.seconds_left(job, now) if is_open(job) and not job.spec.paused else None
        if is_open(job) and not has_passed(job) and (left is None or left > 0):
            return left
        surroundings = await self._look(job, now)
        step = steps.next_step(job, surroundings)
        done = await self._do(job, step, surroundings)
        again = done if done is not None else step.again_seconds
        if left is None or left <= 0:
            return again
        return left if again is None else min(left, again)

    async def _do(
        self, job: PodMigrationJob, step: steps.JobStep, surroundings: steps.JobSurroundings
    ) -> float | None:
        if step.action == steps.EVICT:
            wait = self._evictors.wait_seconds()
            if wait:
                return wait
        if step.status is not None:
            job = await self._writer.status(job, step.status, step.events)
        pod, held = surroundings.pod, surroundings.reservation
        if step.action == steps.NAME_POD and pod is not None:
            await self._writer.name_pod(job, pod.metadata.uid)
        elif step.action == steps.RESERVE and pod is not None:
            await self._reserve(job, pod)
        elif step.action == steps.ORDER and held is not None:
            await self._reservations.order(held)
        elif step.action == steps.ROLL_BACK and held is not None:
            await self._reservations.delete(held)
        elif step.action == steps.EVICT and pod is not None:
            return await self._evict(job, pod)
        return None

    async def _reserve(self, job: PodMigrationJob, pod: Pod) -> None:
        draft = StatusDraft(job.status, self._clock.wall_seconds())
        try:
            ref = await self._reservations.make(job, pod)
        except (ApiError, TransportError) as error:
            text = f"Failed to create Reservation caused by {one_line(str(error))}"
            reason = "FailedCreateReservation"
            told = draft.report(RESERVATION_CREATED, FALSE, reason, text)
            events = [(steps.WARNING, reason, text)] if told else []
            await self._writer.status(job, draft.status, events)
            raise
        if ref is None:
            text = f'Abort job caused by missing Pod "{job_pod_key(job)}"'
            draft.fail("MissingPod", text)
            events = [(steps.WARNING, "MissingPod", text)]
            await self._writer.status(job, draft.status, events)
            return
        await self._writer.name_reservation(job, ref)
        text = f'Successfully create Reservation "{ref.name}"'
        self._writer.event(job, steps.NORMAL, RESERVATION_CREATED, text)

    async def _evict(self, job: PodMigrationJob, pod: Pod) -> float | None:
        why = await self._evictors.evict(job, pod)
        if not why:
            self._limiter.evicted(pod, self._clock.monotonic_seconds())
            message = steps.eviction_message(job, pod)
            draft = StatusDraft(job.status, self._clock.wall_seconds())
            draft.report(EVICTION, FALSE, EVICTING, message)
            await self._writer.status(job, draft.status, [(steps.NORMAL, EVICTING, message)])
            return None
        text = f'Failed evict Pod "{job_pod_key(job)}" caused by {why}'
        draft = StatusDraft(job.status, self._clock.wall_seconds())
        told = draft.report(EVICTION, FALSE, FAILED_EVICT, text)
        events = [(steps.WARNING, EVICTING, text)] if told else []
        await self._writer.status(job, draft.status, events)
        return steps.AGAIN_SECONDS

    async def _look(self, job: PodMigrationJob, now: float) -> steps.JobSurroundings:
        pod = await self._pod_of(job)
        name = self._reservation_name(job)
        held = self._held.get(name)
        options = job.spec.reservation_options
        named = options is not None and options.reservation_ref is not None
        if held is None and named and is_open(job):
            # An informer may be behind what this process made; nothing is given up on its word.
            held = await self._reservations.get(name)
        bound = None
        if held is not None and held.status.current_owners:
            owner = held.status.current_owners[0]
            bound = self._pods.get(f"{owner.namespace}/{owner.name}")
            bound = bound if bound is not None and bound.metadata.uid == owner.uid else None
        limited = pod is not None and self._limiter.is_exceeded(
            pod, self._clock.monotonic_seconds()
        )
        mode = self._args.default_job_mode
        group = group_state(job, self._jobs, mode)
        may_reserve = named or pod is None or self._may_reserve(job, pod)
        return steps.JobSurroundings(now, pod, held, bound, limited, mode, group, may_reserve)

    def _may_reserve(self, job: PodMigrationJob, pod: Pod) -> bool:
        """Whether it is the job's turn among those of its workload."""
        if job.status.phase != RUNNING or (job.spec.mode or self._args.default_job_mode) == (
            EVICT_DIRECTLY
        ):
            return False
        owner, group = controller(pod), group_of(job)
        members = [each.metadata.uid for each in self._jobs.of_group(group)] if group else []
        return self._queue_of_workloads.take(owner.uid if owner else "", job.metadata.uid, members)

    def _hold_places(self) -> None:
        """Takes the turns of jobs that an earlier process reserved for."""
        for job in self._jobs:
            held = self._held.get(self._reservation_name(job))
            if held is None or not is_open(job) or _is_bound(job):
                continue
            for owner in held.spec.owners:
                if owner.controller is not None:
                    self._queue_of_workloads.hold(owner.controller.uid, job.metadata.uid)

    async def _pod_of(self, job: PodMigrationJob) -> Pod | None:
        key, ref = job_pod_key(job), job.spec.pod_ref
        found = self._pods.get(key)
        if found is not None or ref is None or not (ref.name and ref.namespace):
            return found
        if not is_open(job) or condition(job.status, EVICTION) is not None:
            return None
        try:
            # Likewise: a job may name a pod that is newer than the cache.
            return await self._cluster.client.get(Pod, ref.name, ref.namespace)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            return None

    async def _release(self, name: str) -> None:
        """Deletes the reservation of a job that is gone."""
        held = self._held.get(name) or await self._reservations.get(name)
        if held is None or held.status.current_owners:
            return
        if any(self._jobs.get(owner.uid) for owner in held.metadata.owner_references):
            return
        made = held.metadata.labels.get(keys.CREATED_BY) == "koord-descheduler"
        if made and held.status.phase not in (SUCCEEDED, FAILED):
            await self._reservations.delete(held)

    # What time brings.

    async def _sweep(self) -> None:
        while True:
            await self.sweep_once()
            await asyncio.sleep(_SWEEP_SECONDS)

    async def sweep_once(self) -> None:
        """Deletes jobs that are old, and reservations whose jobs are gone."""
        now = self._clock.wall_seconds()
        for job in self._jobs:
            if is_ours(job) and _is_old(job, now):
                await self._collect(job)
        for name, held in list(self._held.items()):
            owners = [o.uid for o in held.metadata.owner_references if o.kind == "PodMigrationJob"]
            if owners and not any(self._jobs.get(uid) for uid in owners):
                self._controller.queue.add(_GONE + name)

    async def _collect(self, job: PodMigrationJob) -> None:
        try:
            await self._writer.delete(job)
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and error.http_status in (_CONFLICT, _NOT_FOUND):
                return
            told = log.fields(job=job.metadata.name, error=one_line(str(error)))
            _LOG.warning("an old job is not deleted", extra=told)


def _is_bound(job: PodMigrationJob) -> bool:
    found = condition(job.status, RESERVATION_BOUND)
    return found is not None and found.status == TRUE


def _is_old(job: PodMigrationJob, now: float) -> bool:
    created, ttl = job.metadata.creation_timestamp, job.spec.ttl
    if created is None:
        return False
    most = _WITHOUT_TTL_SECONDS
    if ttl is not None and ttl.nanoseconds > 0:
        most = ttl.nanoseconds / 1e9 + _MARGIN_SECONDS
    return now - created.timestamp() >= most
