# SPDX-License-Identifier: Apache-2.0
"""Lets jobs pass, fails those that never can, and leaves the others waiting with the reason.

Rule: docs/reference/migration.md#arbitration.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from koord.api.protocol.gang import min_available
from koord.base import log
from koord.base.errors import KoordError, one_line
from koord.controllers.descheduler.migration.arbitration.arbitration_order import ordered
from koord.controllers.descheduler.migration.arbitration.budgets import BudgetRound
from koord.controllers.descheduler.migration.arbitration.job_index import (
    group_of,
    has_passed,
    is_open,
    job_pod_key,
)
from koord.controllers.descheduler.migration.arbitration.job_writer import passed
from koord.controllers.descheduler.migration.arbitration.pod_index import (
    gang_of,
    is_active,
    pod_key,
)
from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal
from koord.controllers.descheduler.migration.course.job_status import StatusDraft
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.controllers.descheduler.migration.arbitration.budgets import Budgets
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.job_writer import JobWriter
    from koord.controllers.descheduler.migration.arbitration.live_pods import LivePods
    from koord.controllers.descheduler.migration.arbitration.pod_checks import MigrationChecks
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex

FORBIDDEN = "ForbiddenMigratePod"
INCOMPLETE = "GangIncomplete"
_REPORT_SECONDS = 10.0
_GROUPS = uuid.UUID("6d6f7665-2d74-6f67-6574-6865722d6b6f")
_LOG = log.get("descheduler.arbitration")


class Arbitrator:
    """Looks at the jobs that wait, whenever something has changed.

    Args:
        interval_seconds: between rounds, at least.
        jobs: that there are.
        pods: of the cluster.
        checks: what keeps pods.
        budgets: of the cluster.
        writer: of jobs.
        live: pods as the server has them.
        clock: the time.
        arbitrated: gets the seconds that each round took.
    """

    def __init__(
        self,
        interval_seconds: float,
        jobs: JobIndex,
        pods: PodIndex,
        checks: MigrationChecks,
        budgets: Budgets,
        writer: JobWriter,
        live: LivePods,
        clock: Clock,
        arbitrated: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._interval_seconds = interval_seconds
        self._jobs = jobs
        self._pods = pods
        self._checks = checks
        self._budgets = budgets
        self._writer = writer
        self._live = live
        self._clock = clock
        self._arbitrated = arbitrated
        self._changed = asyncio.Event()
        self._reports: dict[str, tuple[str, float]] = {}

    def wake(self) -> None:
        """Something that a verdict depends on has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._jobs.waiting():
                began = self._clock.monotonic_seconds()
                await self.round()
                self._arbitrated(self._clock.monotonic_seconds() - began)
            await asyncio.sleep(self._interval_seconds)

    async def round(self) -> None:
        """Looks at all jobs that wait, once."""
        await self._settle_doubts()
        jobs = [job for job in self._jobs.waiting() if not self._jobs.is_doubtful(job)]
        self._reports = {job.metadata.uid: told for job in jobs if (told := self._last_report(job))}
        pod_of = {job.metadata.uid: pod for job in jobs if (pod := self._pod(job)) is not None}
        budgets = BudgetRound(self._budgets, self._moving_pods)
        for unit in self._units(ordered(jobs, pod_of, self._migrating), pod_of):
            await self._decide(unit, pod_of, budgets)

    async def _decide(
        self, unit: list[PodMigrationJob], pod_of: dict[str, Pod], budgets: BudgetRound
    ) -> None:
        """Lets all jobs of a unit pass, or none."""
        pods = [(job, pod_of[job.metadata.uid]) for job in unit if job.metadata.uid in pod_of]
        for job, pod in pods:
            refusal = self._checks.permanent(pod)
            if refusal is not None:
                for each in unit:
                    await self._tried(each, self._fail(each, job, refusal))
                return
        kept, taken = self._judge(unit, pods, budgets)
        if kept is None and not await self._is_behind(unit, pod_of):
            group = self._group(unit, pods)
            for job in unit:
                # One that fails counts all the same until it is known what came of it.
                await self._tried(job, self._pass(job, group, pod_of))
            return
        for job, pod in taken:
            self._jobs.take_back(job.metadata.uid)
            budgets.take(pod, -1)
        if kept is not None:
            for job in unit:
                await self._tried(job, self._report(job, kept))

    def _judge(
        self,
        unit: list[PodMigrationJob],
        pods: list[tuple[PodMigrationJob, Pod]],
        budgets: BudgetRound,
    ) -> tuple[MoveRefusal | None, list[tuple[PodMigrationJob, Pod]]]:
        """What keeps a unit waiting, and the jobs of it that count as passed already."""
        kept = self._incomplete(unit, pods)
        taken: list[tuple[PodMigrationJob, Pod]] = []
        for job, pod in pods:
            if kept is not None:
                break
            kept = (
                self._moved_already(job, pod)
                or self._checks.passing(pod, arbitrating=True)
                or (None if self._checks.is_surged(pod) else budgets.refusal(pod))
            )
            if kept is None:
                self._jobs.let_pass(job.metadata.uid)
                budgets.take(pod, 1)
                taken.append((job, pod))
        return kept, taken

    async def _is_behind(self, unit: list[PodMigrationJob], pod_of: dict[str, Pod]) -> bool:
        """Whether the cache is about to hear of a pod, or of its node; asked before it passes."""
        for job in unit:
            try:
                behind = await self._live.is_newer(job, pod_of.get(job.metadata.uid))
            except (ApiError, TransportError) as error:
                told = log.fields(job=job.metadata.name, error=one_line(str(error)))
                _LOG.info("the pod of a job is not known yet", extra=told)
                behind = True
            if behind:
                self.wake()
                return True
        return False

    async def _pass(self, job: PodMigrationJob, group: str, pod_of: dict[str, Pod]) -> None:
        """Lets a job pass; one of a pod that is not there ends, lest the next of that name goes."""
        key = job_pod_key(job)
        if job.metadata.uid in pod_of or not all(key.partition("/")):
            await self._writer.annotate(job, passed(group))
        else:
            await self._end(job, "MissingPod", f'Abort job caused by missing Pod "{key}"')

    def _moved_already(self, job: PodMigrationJob, pod: Pod) -> MoveRefusal | None:
        """Whether another job moves the pod."""
        for other in self._jobs.of_pod(pod_key(pod)):
            if other.metadata.uid != job.metadata.uid and self._jobs.is_moving(other):
                return MoveRefusal("ExistingJob", f"job {other.metadata.name} moves the pod")
        return None

    async def _settle_doubts(self) -> None:
        """Asks for the jobs whose last verdict nobody answered to."""
        for job in self._jobs.waiting():
            if self._jobs.is_doubtful(job):
                await self._tried(job, self._writer.ask(job))

    def _incomplete(
        self, unit: list[PodMigrationJob], pods: list[tuple[PodMigrationJob, Pod]]
    ) -> MoveRefusal | None:
        """What is missing of a gang, which moves as a whole or not at all."""
        gangs = self._pods.gangs_of(pods[0][1]) if pods else ()
        members = self._pods.members(pods[0][1]) if gangs else {}
        title = f"gang {gangs[0]} moves" if len(gangs) == 1 else f"gangs {', '.join(gangs)} move"
        for gang in gangs:
            own = [each for each in members.values() if gang_of(each) == gang]
            least = max(map(_least_pods, own), default=0)
            if len(own) < least:
                # The cache may not have heard yet of one that replaces another.
                missing = f"it needs {least} pods, and {len(own)} are there"
                return MoveRefusal(INCOMPLETE, f"{title} as a whole; of {gang}: {missing}")
        stay = [key for key in sorted(members) if not self._jobs.has_open(key)]
        if not stay:
            return None
        text = f"{title} as a whole; no job moves {', '.join(stay[:3])}"
        return MoveRefusal(INCOMPLETE, text + (f" and {len(stay) - 3} more" if stay[3:] else ""))

    def _group(self, unit: list[PodMigrationJob], pods: list[tuple[PodMigrationJob, Pod]]) -> str:
        """The group of jobs that move a gang; those that passed before a restart are of it."""
        if not pods or not gang_of(pods[0][1]):
            return ""
        uids = {job.metadata.uid for job in unit}
        for key in self._pods.members(pods[0][1]):
            opened = [job for job in self._jobs.of_pod(key) if is_open(job)]
            known = [group_of(job) for job in opened if has_passed(job) and group_of(job)]
            if known:
                return known[0]
            uids.update(job.metadata.uid for job in opened)
        return f"{len(uids)}/{uuid.uuid5(_GROUPS, ','.join(sorted(uids)))}"

    async def _fail(self, job: PodMigrationJob, by: PodMigrationJob, refusal: MoveRefusal) -> None:
        text = f'Pod "{job_pod_key(job)}" is forbidden to migrate because it does not meet '
        text += f"the requirements: {refusal.reason}: {refusal.message}"
        if by is not job:
            text += f" (of pod {job_pod_key(by)}, of the same gang)"
        await self._end(job, FORBIDDEN, text)

    async def _end(self, job: PodMigrationJob, reason: str, text: str) -> None:
        draft = StatusDraft(job.status, self._clock.wall_seconds())
        draft.fail(reason, text)
        await self._writer.status(job, draft.status, [("Warning", reason, text)])

    async def _report(self, job: PodMigrationJob, refusal: MoveRefusal) -> None:
        """Says why a job waits, when that is another reason than before."""
        now, uid = self._clock.monotonic_seconds(), job.metadata.uid
        if job.status.reason == refusal.reason:
            return
        if uid in self._reports and now - self._reports[uid][1] < _REPORT_SECONDS:
            return
        self._reports[uid] = refusal.reason, now
        draft = StatusDraft(job.status, self._clock.wall_seconds())
        draft.status.reason, draft.status.message = refusal
        await self._writer.status(job, draft.status, [("Normal", *refusal)])

    async def _tried(self, job: PodMigrationJob, write: Awaitable[object]) -> bool:
        """Whether a write was taken; one that was not is tried in a later round."""
        try:
            await write
        except (ApiError, TransportError) as error:
            told = log.fields(job=job.metadata.name, error=one_line(str(error)))
            _LOG.info("a verdict is not written yet", extra=told)
            self.wake()
            return False
        return True

    def _pod(self, job: PodMigrationJob) -> Pod | None:
        return self._pods.get(job_pod_key(job))

    def _last_report(self, job: PodMigrationJob) -> tuple[str, float] | None:
        return self._reports.get(job.metadata.uid)

    def _migrating(self, owner: str) -> int:
        """How many jobs move pods of a batch job."""
        return sum(
            has_passed(job)
            for key in self._pods.controlled_by(owner)
            for job in self._jobs.of_pod(key)
        )

    def _moving_pods(self, namespace: str) -> Iterator[Pod]:
        """Pods that were let pass, and are there still."""
        for key in self._jobs.moving.namespaces.get(namespace, ()):
            pod = self._pods.get(key)
            if pod is not None and is_active(pod):
                yield pod

    def _units(
        self, jobs: list[PodMigrationJob], pod_of: dict[str, Pod]
    ) -> list[list[PodMigrationJob]]:
        """Jobs that pass together: those of one gang, or group of gangs; others alone."""
        units: dict[str | tuple[str, ...], list[PodMigrationJob]] = {}
        for job in jobs:
            pod = pod_of.get(job.metadata.uid)
            gangs = self._pods.gangs_of(pod) if pod is not None else ()
            units.setdefault(gangs or job.metadata.uid, []).append(job)
        return list(units.values())


def _least_pods(pod: Pod) -> int:
    """How many pods the pod's gang needs by what the pod says; 0 if it says nothing of it."""
    try:
        return min_available(pod)
    except KoordError:
        return 0
