# SPDX-License-Identifier: Apache-2.0
"""Carries jobs out: looks at one whenever it, its pod or its reservation has changed.

Rules: docs/reference/migration.md#reconcile, docs/reference/migration.md#deletion.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.migration import PodMigrationJob
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
    reservation_of_job,
)
from koord.controllers.descheduler.migration.course import job_pass as steps
from koord.controllers.descheduler.migration.course.job_claims import JobClaims
from koord.controllers.descheduler.migration.course.job_groups import JobLinks, pods_of_group
from koord.controllers.descheduler.migration.course.job_status import (
    EVICTING,
    EVICTION,
    FAILED_EVICT,
    FALSE,
    RESERVATION_CREATED,
    StatusDraft,
    is_bound,
)
from koord.controllers.descheduler.migration.course.next_step import next_step, seconds_left
from koord.controllers.descheduler.migration.course.reservation_pool import ReservationPool
from koord.controllers.descheduler.migration.course.reservations import reference_to
from koord.controllers.descheduler.migration.course.soft_evictions import SoftEvictionIndex
from koord.controllers.descheduler.migration.course.surge_pass import eviction_message
from koord.controllers.descheduler.migration.course.surroundings import (
    SurroundingsReader,
    is_pod_of,
)
from koord.kube.controller import Controller
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.workloads import Deployment
    from koord.base.clock import Clock
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.job_writer import JobWriter
    from koord.controllers.descheduler.migration.arbitration.live_pods import LivePods
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex
    from koord.controllers.descheduler.migration.course.evictors import PodEvictors
    from koord.controllers.descheduler.migration.course.job_pass import JobSurroundings
    from koord.controllers.descheduler.migration.course.object_limiter import ObjectLimiter
    from koord.controllers.descheduler.migration.course.reservations import Reservations
    from koord.controllers.descheduler.migration.course.surges import Surges
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs

_CONFLICT, _NOT_FOUND = 409, 404
# The cache is about to hear of what somebody else wrote.
_STALE_SECONDS = 0.2
_SWEEP_SECONDS = 60.0
_LEAST_SECONDS = 0.1
_MARGIN_SECONDS, _WITHOUT_TTL_SECONDS = 300.0, 1800.0
_GONE, _SURGED, _SOFT = "gone:", "surged:", "soft:"
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
        live: pods as the server has them.
        reservations: writes of those.
        evictors: make pods go.
        limiter: of objects.
        surges: of Deployments.
    """

    def __init__(
        self,
        args: MigrationControllerArgs,
        cluster: ClusterAccess,
        clock: Clock,
        jobs: JobIndex,
        pods: PodIndex,
        writer: JobWriter,
        live: LivePods,
        reservations: Reservations,
        evictors: PodEvictors,
        limiter: ObjectLimiter,
        surges: Surges,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._jobs = jobs
        self._pods = pods
        self._writer = writer
        self._reservations = reservations
        self._evictors = evictors
        self._limiter = limiter
        self._surges = surges
        self._held = cluster.informers.view(Reservation)
        self._soft = SoftEvictionIndex(cluster.client, jobs, evictors.revoke)
        self._claims = JobClaims(cluster.client, writer, clock)
        self._links = JobLinks()
        self._made: dict[str, str] = {}
        self._pool = ReservationPool(jobs)
        self._exchanging: set[str] = set()
        self._reader = SurroundingsReader(
            args, cluster, clock, jobs, pods, live, self._held, reservations, self._pool, limiter,
            surges,
        )  # fmt: skip
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
            lambda last, missed: self._reservation_gone(last),
        )

    async def run(self) -> None:
        """Works until cancelled."""
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
        if not is_open(job) or is_bound(job.status):
            self._queue(*self._pool.forget(job, self._reservation_name(job)))
        self._queue(uid)
        if not is_open(job):
            self._queue_others(job)
        if group_of(job):
            for each in self._jobs.of_group(group_of(job)):
                self._queue(each.metadata.uid)

    def job_gone(self, job: PodMigrationJob) -> None:
        """A job was deleted: its reservation goes too."""
        uid = job.metadata.uid
        self._links.put(uid, ())
        self._queue(*self._pool.forget(job, self._reservation_name(job)))
        if is_ours(job):
            self._queue(_SURGED + uid, _SOFT + uid)
            self._controller.queue.add(_GONE + self._reservation_name(job))
            self._made.pop(uid, None)
            self._queue_others(job)
            for each in self._jobs.of_group(group_of(job)) if group_of(job) else ():
                self._queue(each.metadata.uid)

    def _queue_others(self, job: PodMigrationJob) -> None:
        """Jobs of the pod that have ended, and left what they had asked of it to this one."""
        for other in self._jobs.of_pod(job_pod_key(job)):
            if not is_open(other):
                self._queue(other.metadata.uid)
        left = self._soft.without_job(job_pod_key(job))
        if left:
            self._queue(_SOFT + left)

    def pod_changed(self, key: str) -> None:
        """The pod of a key came, went or is another."""
        asked = self._soft.put(key, self._pods.get(key))
        if asked:
            self._queue(_SOFT + asked)
        for job in self._jobs.of_pod(key):
            self._queue(job.metadata.uid)
        for uid in self._links.of(f"pod {key}"):
            self._queue(uid)

    def _reservation_changed(self, reservation: Reservation) -> None:
        self._queue(*self._pool.put(reservation))
        self._queue_jobs_of(reservation)

    def _reservation_gone(self, reservation: Reservation) -> None:
        self._queue(*self._pool.remove(reservation))
        self._queue_jobs_of(reservation)

    def _queue_jobs_of(self, reservation: Reservation) -> None:
        name = reservation.metadata.name
        for owner in reservation.metadata.owner_references:
            if owner.kind == "PodMigrationJob":
                self._made.setdefault(owner.uid, name)
                self._queue(owner.uid)
        for uid in self._links.of(f"reservation {name}"):
            self._queue(uid)

    def deployment_changed(self, deployment: Deployment) -> None:
        """A Deployment is there, or has changed."""
        self._queue(*sorted(self._surges.put(deployment)))

    def deployment_gone(self, deployment: Deployment) -> None:
        """A Deployment was deleted."""
        self._queue(*sorted(self._surges.remove(deployment)))

    def _reservation_name(self, job: PodMigrationJob) -> str:
        """The reservation that a job names, or would be given."""
        return reservation_of_job(job) or self._made.get(job.metadata.uid, job.metadata.uid)

    def _queue(self, *uids: str) -> None:
        for uid in uids:
            self._controller.queue.add(uid)

    # One job.

    async def _reconcile(self, uid: str) -> float | None:
        job = self._jobs.get(uid)
        try:
            if uid.startswith((_GONE, _SURGED, _SOFT)):
                await self._clean(uid)
                return None
            if job is None or not is_ours(job):
                return None
            again = await self.one_pass(job)
            # A moment too early it would only be looked at again, and again.
            return None if again is None else max(again, _LEAST_SECONDS)
        except ApiError as error:
            if error.http_status not in (_CONFLICT, _NOT_FOUND):
                raise
            if job is not None:
                # An answer that came late may have put an older job over a newer one.
                await self._writer.ask(job)
            return _STALE_SECONDS

    async def _clean(self, what: str) -> None:
        """Takes back what is left of a job that is gone."""
        if what.startswith(_GONE):
            await self._release(what.removeprefix(_GONE))
        elif what.startswith(_SOFT):
            await self._soft.clean(what.removeprefix(_SOFT))
        elif self._jobs.get(what.removeprefix(_SURGED)) is None:
            await self._surges.undo(self._cluster.client, what.removeprefix(_SURGED), None)

    async def one_pass(self, job: PodMigrationJob) -> float | None:
        """Does the next step of a job; after how many seconds it wants to be looked at again."""
        now = self._clock.wall_seconds()
        left = seconds_left(job, now) if is_open(job) and not job.spec.paused else None
        if is_open(job) and not has_passed(job) and (left is None or left > 0):
            return left
        surroundings = await self._reader.read(job, self._reservation_name(job))
        step = next_step(job, surroundings)
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
        if step.begins(job) and not await self._claims.claim(job):
            return steps.AGAIN_SECONDS
        if step.status is not None:
            job = await self._writer.status(job, step.status, step.events)
        pod, held = surroundings.pod, surroundings.reservation
        if step.action == steps.NAME_POD and pod is not None:
            await self._writer.name_pod(job, pod.metadata.uid)
        elif step.action == steps.RESERVE and pod is not None:
            await self._reserve(job, pod)
        elif step.action == steps.ORDER and held is not None:
            await self._reservations.order(held)
        elif step.action == steps.ROLL_BACK:
            given = surroundings.pool.spare or held
            if given is not None:
                await self._reservations.delete(given)
        elif step.action == steps.REVOKE and pod is not None:
            await self._evictors.revoke(pod)
        elif step.action == steps.EVICT and pod is not None:
            return await self._evict(job, pod)
        elif step.action in (steps.EXCHANGE, steps.TAKE_SPARE):
            await self._exchange(job, surroundings)
        elif step.action in (steps.SCALE_UP, steps.SCALE_DOWN, steps.UNDO_SURGE):
            await self._surge(step.action, job, surroundings)
        return None

    async def _surge(
        self, action: str, job: PodMigrationJob, surroundings: JobSurroundings
    ) -> None:
        client, state, pod = self._cluster.client, surroundings.surge, surroundings.pod
        if action == steps.UNDO_SURGE:
            old = pod if pod is not None and is_pod_of(job, pod) else None
            await self._surges.undo(client, job.metadata.uid, old)
        elif action == steps.SCALE_UP and state is not None:
            await self._surges.scale_up(client, job, state)
        elif state is not None and pod is not None:
            await self._surges.scale_down(client, state, pod)
            self._limiter.evicted([pod], self._clock.monotonic_seconds())

    async def _exchange(self, job: PodMigrationJob, surroundings: JobSurroundings) -> None:
        """The job names another reservation from now on; its own, if free, is the other job's."""
        held, pool = surroundings.reservation, surroundings.pool
        if pool.spare is not None:
            await self._writer.name_reservation(job, reference_to(pool.spare))
        if pool.taken is None or held is None or pool.taken.metadata.name in self._exchanging:
            return
        name = pool.taken.metadata.name
        other = next(iter(self._jobs.of_reservation(name)), None)
        if other is None:
            return
        self._exchanging.add(name)
        try:
            self._queue(*self._pool.put(await self._reservations.give(held, other)))
            await self._writer.name_reservation(job, reference_to(pool.taken))
        finally:
            self._exchanging.discard(name)
        self._queue(other.metadata.uid)

    async def _reserve(self, job: PodMigrationJob, pod: Pod) -> None:
        draft = StatusDraft(job.status, self._clock.wall_seconds())
        name, owner = "", controller(pod)
        self._pool.expect(owner.uid if owner is not None else "", job.metadata.uid)
        try:
            ref = await self._reservations.make(job, pod)
            name = ref.name if ref is not None else ""
        except (ApiError, TransportError) as error:
            text = f"Failed to create Reservation caused by {one_line(str(error))}"
            reason = "FailedCreateReservation"
            told = draft.report(RESERVATION_CREATED, FALSE, reason, text)
            events = [(steps.WARNING, reason, text)] if told else []
            await self._writer.status(job, draft.status, events)
            raise
        finally:
            self._queue(*self._pool.made(job, name))
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
        together = pods_of_group(job, pod, self._jobs, self._pods)
        why = await self._evictors.evict(job, pod)
        if not why:
            self._limiter.evicted(together, self._clock.monotonic_seconds(), group_of(job))
            message = eviction_message(job, pod)
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
        """Deletes jobs that are old, and what is left of jobs that are gone."""
        now = self._clock.wall_seconds()
        for job in self._jobs:
            if is_ours(job) and _is_old(job, now):
                await self._collect(job)
        for name, held in list(self._held.items()):
            owners = [o.uid for o in held.metadata.owner_references if o.kind == "PodMigrationJob"]
            if owners and not any(self._jobs.get(uid) for uid in owners):
                self._controller.queue.add(_GONE + name)
        for uid in self._surges.jobs():
            if self._jobs.get(uid) is None:
                self._controller.queue.add(_SURGED + uid)
        self._queue(*(_SOFT + uid for uid in self._soft.jobs()))

    async def _collect(self, job: PodMigrationJob) -> None:
        try:
            await self._writer.delete(job)
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and error.http_status in (_CONFLICT, _NOT_FOUND):
                return
            told = log.fields(job=job.metadata.name, error=one_line(str(error)))
            _LOG.warning("an old job is not deleted", extra=told)


def _is_old(job: PodMigrationJob, now: float) -> bool:
    created, ttl = job.metadata.creation_timestamp, job.spec.ttl
    if created is None:
        return False
    most = _WITHOUT_TTL_SECONDS
    if ttl is not None and ttl.nanoseconds > 0:
        most = ttl.nanoseconds / 1e9 + _MARGIN_SECONDS
    return now - created.timestamp() >= most
