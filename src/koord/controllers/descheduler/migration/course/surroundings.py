# SPDX-License-Identifier: Apache-2.0
"""What a job stands for, looked up where caches have it and asked for where they may be behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import EVICT_DIRECTLY, RUNNING
from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.job_index import (
    group_of,
    is_open,
    job_pod_key,
    reservation_of_job,
)
from koord.controllers.descheduler.migration.course.job_claims import rank
from koord.controllers.descheduler.migration.course.job_groups import group_state, pods_of_group
from koord.controllers.descheduler.migration.course.job_pass import JobSurroundings
from koord.controllers.descheduler.migration.course.job_status import (
    EVICTION,
    condition,
    eviction_began,
)
from koord.controllers.descheduler.migration.course.reservation_pool import PoolState

if TYPE_CHECKING:
    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation
    from koord.base.clock import Clock
    from koord.controllers.cluster.views import View
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.live_pods import LivePods
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex
    from koord.controllers.descheduler.migration.course.object_limiter import (
        HeldBack,
        ObjectLimiter,
    )
    from koord.controllers.descheduler.migration.course.reservation_pool import ReservationPool
    from koord.controllers.descheduler.migration.course.reservations import Reservations
    from koord.controllers.descheduler.migration.course.surge_state import SurgeState
    from koord.controllers.descheduler.migration.course.surges import Surges
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs


class SurroundingsReader:
    """Reads what :func:`koord.controllers.descheduler.migration.course.next_step.next_step` asks.

    Args:
        args: of the plugin.
        cluster: where the jobs are.
        clock: the time.
        jobs: that there are.
        pods: that there are.
        live: pods as the server has them.
        held: reservations, as the cache has them.
        reservations: as the server has them.
        pool: of reservations by workload.
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
        live: LivePods,
        held: View[Reservation],
        reservations: Reservations,
        pool: ReservationPool,
        limiter: ObjectLimiter,
        surges: Surges,
    ) -> None:
        self._args = args
        self._cluster = cluster
        self._clock = clock
        self._jobs = jobs
        self._pods = pods
        self._live = live
        self._held = held
        self._reservations = reservations
        self._pool = pool
        self._limiter = limiter
        self._surges = surges

    async def read(self, job: PodMigrationJob, reservation: str) -> JobSurroundings:
        """The surroundings of a job.

        Args:
            reservation: the name of the one that it names, or would be given.

        Raises:
            ApiError: the server refuses what is asked of it.
            TransportError: no answer came.
        """
        pod = await self._pod_of(job)
        held, named = self._held.get(reservation), reservation_of_job(job)
        if held is None and named and is_open(job):
            # An informer may be behind what this process made; nothing is given up on its word.
            held = await self._reservations.get(named)
        mode, surge = self._args.default_job_mode, await self._surge_state(job, pod)
        # What other jobs mean is looked up last: nothing is waited for until the step is written.
        return JobSurroundings(
            self._clock.wall_seconds(), pod, held, self._bound_pod(held), self._limited(job, pod),
            mode, group_state(job, self._jobs, mode), self._pool_state(job, pod, held), surge,
            self._is_moved_otherwise(job),
        )  # fmt: skip

    async def _surge_state(self, job: PodMigrationJob, pod: Pod | None) -> SurgeState | None:
        own = pod if pod is not None and is_pod_of(job, pod) else None
        return await self._surges.state(self._cluster.client, job, own if is_open(job) else None)

    def _is_moved_otherwise(self, job: PodMigrationJob) -> bool:
        others = [j for j in self._jobs.of_pod(job_pod_key(job)) if _uid(j) != _uid(job)]
        if not is_open(job):
            return any(is_open(other) for other in others)
        if job.status.phase == RUNNING or group_of(job):
            return False
        # While two deschedulers lead, each may have let another job pass.
        moving = [other for other in others if self._jobs.is_moving(other)]
        return any(each.status.phase == RUNNING or rank(each) < rank(job) for each in moving)

    def _bound_pod(self, held: Reservation | None) -> Pod | None:
        if held is None or not held.status.current_owners:
            return None
        owner = held.status.current_owners[0]
        bound = self._pods.get(f"{owner.namespace}/{owner.name}")
        return bound if bound is not None and bound.metadata.uid == owner.uid else None

    def _limited(self, job: PodMigrationJob, pod: Pod | None) -> HeldBack | None:
        group = group_of(job)
        if pod is None or any(eviction_began(each.status) for each in self._jobs.of_group(group)):
            return None
        together = pods_of_group(job, pod, self._jobs, self._pods)
        return self._limiter.held_back(together, self._clock.monotonic_seconds(), group)

    def _pool_state(
        self, job: PodMigrationJob, pod: Pod | None, held: Reservation | None
    ) -> PoolState:
        group, own = group_of(job), pod if pod is not None and is_pod_of(job, pod) else None
        members = [each.metadata.uid for each in self._jobs.of_group(group)] if group else []
        node = own.spec.node_name if own is not None else ""
        if not is_open(job):
            return PoolState(spare=self._pool.spare(job, ""))
        if reservation_of_job(job):
            if held is None:
                return PoolState()
            return self._pool.state(job, held, node, members)
        direct = (job.spec.mode or self._args.default_job_mode) == EVICT_DIRECTLY
        if own is None or direct or job.status.phase != RUNNING:
            return PoolState()
        owner = controller(own)
        uid = owner.uid if owner is not None else ""
        return PoolState(self._pool.may_reserve(uid, node, job.metadata.uid, members))

    async def _pod_of(self, job: PodMigrationJob) -> Pod | None:
        found = self._pods.get(job_pod_key(job))
        if found is not None:
            return found
        if not is_open(job) or condition(job.status, EVICTION) is not None:
            return None
        # Likewise: a job may name a pod that is newer than the cache.
        return await self._live.named_by(job)


def _uid(job: PodMigrationJob) -> str:
    return job.metadata.uid


def is_pod_of(job: PodMigrationJob, pod: Pod) -> bool:
    """Whether a pod is the very one that a job names."""
    ref = job.spec.pod_ref
    return ref is not None and ref.uid in ("", pod.metadata.uid)
