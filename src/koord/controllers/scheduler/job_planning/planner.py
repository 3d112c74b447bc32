# SPDX-License-Identifier: Apache-2.0
"""Plans a job's pods in one pass: all that must have a node get one before any is bound.

The first pod of a gang that comes up brings all others that wait. They are decided one after the
other, each seeing those before it as placed, through the same filters, reservations, devices and
quotas as any pod. Then the job goes, or what was held is given back (Strict), or kept until the
rest is found (NonStrict).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.job_planning.attempt import (
    JobAttempt,
    PodAttempt,
    PreemptionOutcome,
    failed_pod,
)
from koord.controllers.scheduler.job_planning.plan import JobForecast, JobPlan
from koord.controllers.scheduler.queue.queued_pod import QueuedPod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from koord.controllers.scheduler.decision.decider import Decider
    from koord.controllers.scheduler.job_planning.plan import GangCounts, PlannedJob


class JobQueue(Protocol):
    """What is asked of the scheduling queue."""

    def get(self, uid: str) -> QueuedPod | None:
        """A pod that waits or is in flight."""
        ...

    def pop_many(self, uids: Iterable[str]) -> list[QueuedPod]:
        """Takes waiting pods out for an attempt."""
        ...

    def put_back(self, pod: QueuedPod) -> None:
        """Puts back a pod whose attempt ended in an error."""
        ...


class JobSource(Protocol):
    """Who knows which pods are one job; the Coscheduling plugin does.

    Attributes:
        name: the plugin's.
        planning: set while a pass is under way.
    """

    name: ClassVar[str]
    planning: bool

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a pod belongs to a job."""
        ...

    def job_of(self, pod: PodInfo) -> PlannedJob | Rejection:
        """The pod's job, or why it cannot be tried."""
        ...

    def gang_counts(self, pod: PodInfo) -> Sequence[GangCounts]:
        """How many pods there are of the gangs of a pod's job, and where."""
        ...

    def with_minimum(self, gang_id: str, minimum: int) -> AbstractContextManager[None]:
        """As if a gang asked for another number of pods."""
        ...


class JobPlanner:
    """Plans jobs of one profile.

    Args:
        jobs: who knows them.
        queue: where the pods wait.
        quota: has ``admit(pods)``, which says what of quotas stands in the way; None for none.
        report_others: whether pods are told that another of their job failed.
    """

    def __init__(
        self, jobs: JobSource, queue: JobQueue, quota: Any = None, *, report_others: bool = True
    ) -> None:
        self._report_others = report_others
        self._jobs = jobs
        self._queue = queue
        self._quota = quota

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a pod belongs to a job."""
        return self._jobs.concerns(pod)

    def plan(self, queued: QueuedPod, decider: Decider) -> JobPlan:
        """Tries all waiting pods of a popped pod's job; those placed are assumed."""
        job = self._jobs.job_of(queued.info)
        if isinstance(job, Rejection):
            nodes = len(decider.table)
            refused = PodAttempt(diagnosis=Diagnosis(nodes, job, {}))
            return JobPlan([], [failed_pod(queued, refused, nodes, PreemptionOutcome())])
        taken = self._gathered(job, queued)
        attempt = JobAttempt(
            job, self._jobs.name, decider, taken, self._quota, report_others=self._report_others
        )
        with self.quiet():
            try:
                return attempt.run()
            except Exception:
                # A plugin has a fault: nothing may stay held, and nobody lost.
                attempt.give_up()
                for each in taken:
                    if each is not queued:
                        self._queue.put_back(each)
                raise

    def forecast(self, pod: PodInfo, decider: Decider) -> JobForecast:
        """What would become of a pod's job now; twins of its pods are tried, and nothing stays."""
        job = self._jobs.job_of(pod)
        if isinstance(job, Rejection):
            return JobForecast(job.text)
        profile = pod.pod.spec.scheduler_name
        uids = [pod.uid] if job.is_single else job.waiting_uids()
        twins = [_twin(each) for uid in uids if (each := self._ripe(uid, profile)) is not None]
        if not twins:
            missing = job.missing()
            return JobForecast(
                missing=missing, reason=job.incomplete_message(missing) if missing else ""
            )
        ordered = job.in_order(twins)
        with self.quiet(), decider.accounts.what_if():
            return JobAttempt(job, self._jobs.name, decider, ordered, self._quota).forecast()

    def gang_counts(self, pod: PodInfo) -> Sequence[GangCounts]:
        """How many pods there are of the gangs of a pod's job, and where."""
        return self._jobs.gang_counts(pod)

    def with_minimum(self, gang_id: str, minimum: int) -> AbstractContextManager[None]:
        """As if a gang asked for another number of pods."""
        return self._jobs.with_minimum(gang_id, minimum)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What is taken back inside is no news to others of the job."""
        before, self._jobs.planning = self._jobs.planning, True
        try:
            yield
        finally:
            self._jobs.planning = before

    def _gathered(self, job: PlannedJob, queued: QueuedPod) -> list[QueuedPod]:
        """The popped pod with the others of its job that may be tried, in the job's order."""
        if job.is_single:
            return [queued]
        others = (uid for uid in job.waiting_uids() if uid != queued.info.uid)
        fit = [uid for uid in others if self._ripe(uid, queued.profile) is not None]
        return job.in_order([queued, *self._queue.pop_many(fit)])

    def _ripe(self, uid: str, profile: str) -> QueuedPod | None:
        """A pod that waits, for this profile, gated by nobody but the gang itself."""
        other = self._queue.get(uid)
        if other is None or other.profile != profile:
            return None
        pod = other.info.pod
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            return None
        return other if other.gated_by in ("", self._jobs.name) else None


def _twin(queued: QueuedPod) -> QueuedPod:
    """The same pod, so that what is chosen for it never touches what it has."""
    info = PodInfo(queued.info.pod, queued.info.shape)
    return QueuedPod(info, queued.profile, queued.arrival, queued.timestamp)
