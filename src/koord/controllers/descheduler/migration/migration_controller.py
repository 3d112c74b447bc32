# SPDX-License-Identifier: Apache-2.0
"""MigrationController: filters pods, evicts by making a PodMigrationJob, and carries jobs out.

Rule: docs/reference/migration.md.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from koord.api.kinds.cluster import PriorityClass
from koord.api.kinds.meta import ObjectMeta, ObjectReference
from koord.api.kinds.migration import PENDING, PodMigrationJob, PodMigrationJobSpec
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.base import faults, log
from koord.base.errors import KoordError, one_line
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.migration.arbitration.job_index import IDENTITY, JobIndex
from koord.controllers.descheduler.migration.arbitration.movability import Movability
from koord.controllers.descheduler.migration.arbitration.moving_limits import MovingLimits
from koord.controllers.descheduler.migration.arbitration.pod_checks import MigrationChecks
from koord.controllers.descheduler.migration.arbitration.pod_index import (
    PodIndex,
    gang_of,
    pod_key,
)
from koord.controllers.descheduler.migration.arbitration.workloads import Workloads
from koord.controllers.descheduler.migration.cluster_loops import ClusterLoops
from koord.controllers.descheduler.migration.course.object_limiter import ObjectLimiter
from koord.controllers.descheduler.migration.course.surges import Surges
from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs
from koord.controllers.descheduler.plugins.kubernetes.default_evictor import (
    DefaultEvictor,
    DefaultEvictorArgs,
)
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.descheduler.framework.points import PodEviction
    from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

_NAMES = uuid.UUID("6d6f7665-2d70-6f64-2d6a-6f622d6b6f6f")
_LOG = log.get("descheduler.migration")


class MigrationController(DeschedulerPlugin):
    """Filter and evict plugin, and the controller of PodMigrationJobs.

    Without a cluster, over snapshots alone, it filters by what a snapshot tells and makes no job.

    Attributes:
        why: why the last pod did not go, in one line; empty where that is not known.
    """

    name = "MigrationController"
    args_type = MigrationControllerArgs
    args: MigrationControllerArgs

    def __init__(self, args: MigrationControllerArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)
        self.pods = PodIndex()
        self.jobs = JobIndex(self._pod)
        cluster = handle.cluster
        self._workloads = (
            Workloads.of_cluster(self.pods, cluster.informers)
            if cluster is not None
            else Workloads(self.pods)
        )
        self._priority_classes = (
            cluster.informers.view(PriorityClass) if cluster is not None else None
        )
        movability = Movability(args, self._priority_threshold)
        surges = Surges(self._workloads, handle.clock)
        limits = MovingLimits(args, self.jobs, self._workloads, surges)
        self.checks = MigrationChecks(args, movability, limits, self.jobs)
        self.limiter = ObjectLimiter(args, self._workloads)
        fits = args.node_fit and not args.skips("NodeFit")
        fit_args = DefaultEvictorArgs(node_fit=fits, node_selector=args.node_selector)
        self._node_fit = DefaultEvictor(fit_args, handle)
        handle.on_round(self._begin_round)
        self.why = ""
        self.loops: ClusterLoops | None = None
        if cluster is not None:
            self.loops = ClusterLoops(
                args, cluster, handle.clock, self.pods, self.jobs, self._workloads,
                self.checks, self.limiter, surges,
            )  # fmt: skip

    async def run(self) -> None:
        """Works until cancelled. Called once, when this process leads and all views are there.

        In a dry run of the whole program nothing is carried out.
        """
        if self.loops is None or self.loops.cluster.dry_run:
            await asyncio.Event().wait()
        else:
            await self.loops.run()

    def filter(self, pod: Pod) -> bool:
        """Whether the pod may be a candidate."""
        return self.refusal(pod) is None

    def refusal(self, pod: Pod) -> MoveRefusal | None:
        """Why the pod may not be a candidate; None where it may."""
        return self.checks.refusal(pod)

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Whether the pod may go now: with ``nodeFit``, whether another node would take it."""
        return self._node_fit.pre_eviction_filter(pod)

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        """Makes a job, and one for each pod of its gangs; whether they are there."""
        cluster = self.handle.cluster
        if self.args.dry_run or (cluster is not None and cluster.dry_run):
            told = log.fields(pod=pod.title, strategy=request.plugin, reason=request.reason)
            _LOG.info("would migrate a pod", extra=told)
            return True
        self.why = "" if cluster is None else self.kept(pod)
        if cluster is None or self.why:
            return False
        _, *mates = self.together(pod)
        refused = next((why for each in mates if (why := self.checks.permanent(each))), None)
        if refused is not None:
            self.why = refused.message
            return False
        if not await self._make(pod, request):
            return False
        for each in mates:
            target = request.targets.get(each.metadata.uid, "")
            reason = f"moves with {pod_key(pod)}, of its gang"
            await self._make(each, replace(request, reason=reason, target=target))
        return True

    def together(self, pod: Pod) -> list[Pod]:
        """The pods that move when one does, it first: those of its gangs that no job moves yet."""
        if not gang_of(pod):
            return [pod]
        members = sorted(self.pods.members(pod).items())
        own = pod_key(pod)
        return [pod, *(m for key, m in members if key != own and not self.jobs.is_taken(key))]

    def kept(self, pod: Pod) -> str:
        """Why the pod may not go now, in one line; empty where it may."""
        refusal = self.refusal(pod)
        if refusal is not None:
            return refusal.message
        now = self.handle.clock.monotonic_seconds()
        held = self.limiter.held_back(self.together(pod), now)
        return "" if held is None else held.message

    def assume(self, pod: Pod) -> None:
        """Counts a pod against limits as one that moves, until released or all are forgotten."""
        self.jobs.assume(pod)

    def release(self, pod: Pod) -> None:
        """Counts a pod no longer as one that moves."""
        self.jobs.release(pod_key(pod))

    def forget(self) -> None:
        """Nothing is assumed any more."""
        for key in self.jobs.assumed():
            self.jobs.release(key)

    async def _make(self, pod: Pod, request: PodEviction) -> bool:
        cluster = self.handle.cluster
        if cluster is None or self.jobs.has_open(pod_key(pod)):
            return False
        try:
            faults.point("descheduler.migration.create")
            made = await cluster.client.create(self.job_of(pod, request))
        except (ApiError, TransportError) as error:
            told = log.fields(pod=pod.title, error=one_line(str(error)))
            _LOG.warning("a pod gets no job", extra=told)
            return False
        self.jobs.put(made)
        return True

    def job_of(self, pod: Pod, request: PodEviction) -> PodMigrationJob:
        """The job of an eviction.

        Its name follows from the pod and its last job, so that two that want the same make one.
        """
        meta = pod.metadata
        before = [
            (job.metadata.creation_timestamp, job.metadata.name)
            for job in self.jobs.of_pod(pod_key(pod))
            if job.spec.pod_ref is not None and job.spec.pod_ref.uid == meta.uid
        ]
        last = max((each for each in before if each[0] is not None), default=(None, ""))[1]
        options = request.delete_options
        given = options if options.grace_period_seconds is not None else None
        job = PodMigrationJob(
            metadata=ObjectMeta(
                name=str(uuid.uuid5(_NAMES, f"{meta.uid}/{last}")),
                annotations={
                    keys.EVICT_REASON: request.reason,
                    keys.EVICT_TRIGGER: request.plugin,
                    keys.JOB_CREATED_BY: IDENTITY,
                    **({keys.PLANNED_NODE: request.target} if request.target else {}),
                },
            ),
            spec=PodMigrationJobSpec(
                ttl=self.args.default_job_ttl,
                mode=self.args.default_job_mode,
                pod_ref=ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid),
                delete_options=given or self.args.default_delete_options,
            ),
        )
        job.status.phase = PENDING
        return job

    def _begin_round(self, snapshot: ClusterSnapshot) -> None:
        if self.handle.cluster is None:
            self.pods = PodIndex(snapshot.pods, snapshot.pod_groups)
            self._workloads.follow(self.pods)

    def _pod(self, key: str) -> Pod | None:
        return self.pods.get(key)

    def _priority_threshold(self) -> int | None:
        """The threshold by value, or of the PriorityClass of that name.

        Raises:
            KoordError: there is no such class.
        """
        threshold = self.args.priority_threshold
        if threshold is None or not threshold.name:
            return threshold.value if threshold is not None else None
        found = (
            self._priority_classes.get(threshold.name)
            if self._priority_classes is not None
            else self.handle.snapshot.priority_classes.get(threshold.name)
        )
        if found is None:
            expected = "the name of a PriorityClass of the cluster"
            raise KoordError(self.name, "priorityThreshold.name", threshold.name, expected)
        return found.value
