# SPDX-License-Identifier: Apache-2.0
"""What of MigrationController needs a cluster, wired: arbitrator, controller of jobs, indexes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.api.kinds.workloads import Deployment, PodDisruptionBudget, ReplicaSet, StatefulSet
from koord.controllers.descheduler.migration.arbitration.arbitrator import Arbitrator
from koord.controllers.descheduler.migration.arbitration.budgets import (
    UNAVAILABLE_BUDGET,
    Budgets,
    PodUnavailableBudget,
)
from koord.controllers.descheduler.migration.arbitration.job_writer import JobWriter
from koord.controllers.descheduler.migration.arbitration.live_pods import LivePods
from koord.controllers.descheduler.migration.arbitration.pod_index import pod_key
from koord.controllers.descheduler.migration.course.evictors import PodEvictors
from koord.controllers.descheduler.migration.course.job_controller import MigrationJobController
from koord.controllers.descheduler.migration.course.reservations import Reservations

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.pod_checks import MigrationChecks
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex
    from koord.controllers.descheduler.migration.arbitration.workloads import Workloads
    from koord.controllers.descheduler.migration.course.object_limiter import ObjectLimiter
    from koord.controllers.descheduler.migration.course.surges import Surges
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs


class ClusterLoops:
    """Indexes that follow a cluster, and the loops over them.

    Args:
        args: of the plugin.
        cluster: which.
        clock: the time.
        pods: filled from now on.
        jobs: filled from now on.
        workloads: of pods.
        checks: what keeps pods.
        limiter: of objects.
        surges: of Deployments.
    """

    def __init__(
        self,
        args: MigrationControllerArgs,
        cluster: ClusterAccess,
        clock: Clock,
        pods: PodIndex,
        jobs: JobIndex,
        workloads: Workloads,
        checks: MigrationChecks,
        limiter: ObjectLimiter,
        surges: Surges,
    ) -> None:
        self.cluster = cluster
        self._pods, self._jobs, self._workloads = pods, jobs, workloads
        informers = cluster.informers
        budgets = Budgets(
            informers.view(PodDisruptionBudget),
            informers.view_as(UNAVAILABLE_BUDGET, PodUnavailableBudget),
        )
        writer, live = JobWriter(cluster, jobs), LivePods(cluster.client)
        interval = args.arbitration_args.interval.nanoseconds / 1e9
        self.arbitrator = Arbitrator(
            interval, jobs, pods, checks, budgets, writer, live, clock, cluster.arbitrated
        )
        self.controller = MigrationJobController(
            args, cluster, clock, jobs, pods, writer, live,
            Reservations(cluster.client, clock, cluster.without_claims),
            PodEvictors(args, cluster, clock), limiter, surges,
        )  # fmt: skip
        self._budgets = budgets
        self._follow()

    async def run(self) -> None:
        """Works until cancelled."""
        keep = self.cluster.supervisor.keep
        for job in self._jobs:
            self.controller.job_changed(job)
        self.arbitrator.wake()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep("arbitrator", self.arbitrator.run), name="arbitrator")
            tasks.create_task(keep("podmigrationjobs", self.controller.run), name="jobs")

    def _follow(self) -> None:
        """Keeps the indexes true from the first list on; handlers queue work that waits."""
        view = self.cluster.informers.view
        view(Pod).on_change(self._put_pod, lambda old, new: self._put_pod(new), self._pod_gone)
        view(ReplicaSet).on_change(
            self._workloads.add_set,
            lambda old, new: self._workloads.add_set(new),
            lambda last, missed: self._workloads.remove_set(last),
        )
        for kind in (Deployment, StatefulSet, ReplicaSet):
            view(kind).on_change(updated=lambda old, new: self.arbitrator.wake())
        view(Deployment).on_change(
            self.controller.deployment_changed,
            lambda old, new: self.controller.deployment_changed(new),
            lambda last, missed: self.controller.deployment_gone(last),
        )
        view(PodGroup).on_change(
            self._put_group,
            lambda old, new: self._put_group(new),
            self._group_gone,
        )
        view(PodMigrationJob).on_change(
            self._put_job, lambda old, new: self._put_job(new), self._job_gone
        )
        self._budgets.attach(self.arbitrator.wake)
        self.controller.attach()

    def _put_pod(self, pod: Pod) -> None:
        self._pods.put(pod)
        self._pod_changed(pod_key(pod))

    def _pod_gone(self, pod: Pod, missed: bool) -> None:
        self._pods.remove(pod_key(pod))
        self._pod_changed(pod_key(pod))

    def _pod_changed(self, key: str) -> None:
        self._jobs.pod_changed(key)
        self.controller.pod_changed(key)
        self.arbitrator.wake()

    def _put_group(self, pod_group: PodGroup) -> None:
        self._pods.put_group(pod_group)
        self.arbitrator.wake()

    def _group_gone(self, pod_group: PodGroup, missed: bool) -> None:
        self._pods.remove_group(pod_group)
        self.arbitrator.wake()

    def _put_job(self, job: PodMigrationJob) -> None:
        self._jobs.put(job)
        self.controller.job_changed(job)
        self.arbitrator.wake()

    def _job_gone(self, job: PodMigrationJob, missed: bool) -> None:
        self._jobs.remove(job.metadata.uid)
        self.controller.job_gone(job)
        self.arbitrator.wake()
