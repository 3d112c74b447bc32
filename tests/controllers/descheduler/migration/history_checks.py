# SPDX-License-Identifier: Apache-2.0
"""What must hold of migrations at every write of a descheduler, asked of the server itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.cluster.views import View
from koord.controllers.descheduler.migration.arbitration.job_index import group_of, is_open
from koord.controllers.descheduler.migration.arbitration.pod_index import (
    gang_of,
    is_active,
    is_ready,
)
from koord.controllers.descheduler.migration.course.job_status import (
    RESERVATION_SCHEDULED,
    TRUE,
    condition,
    eviction_began,
)
from koord.kube.transport.messages import Request, Response, Stream, Transport
from tests.controllers.descheduler.migration.world import World

PER_NODE, GLOBALLY = 2, 4
_KNOWN: ContextVar[frozenset[str]] = ContextVar(
    "jobs in the cache of who writes", default=frozenset()
)


class SenderTransport:
    """The way of a process: which jobs its cache had when a write was sent goes with the write."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._jobs: View[PodMigrationJob] | None = None

    def follow(self, jobs: View[PodMigrationJob]) -> None:
        """The cache of the process."""
        self._jobs = jobs

    async def send(self, request: Request) -> Response:
        if request.method == "GET" or self._jobs is None:
            return await self._inner.send(request)
        known = frozenset(job.metadata.uid for _, job in self._jobs.items())
        token = _KNOWN.set(known)
        try:
            return await self._inner.send(request)
        finally:
            _KNOWN.reset(token)

    async def open(self, request: Request) -> Stream:
        return await self._inner.open(request)


class CheckedTransport:
    """A way to the server on which what a descheduler does is looked at."""

    def __init__(self, inner: Transport, check: Checks) -> None:
        self._inner, self._check = inner, check

    async def send(self, request: Request) -> Response:
        name, check = _evicted(request), self._check
        with check.noting():
            if name:
                check.before_eviction(name)
        spared = check.spare(name) if name else None
        groups = check.groups(name) if name else set()
        answer = await self._inner.send(request)
        if request.method != "GET" and answer.status < 300:
            check.gone |= groups
            with check.noting():
                check.after_write()
                assert spared is None or spared, f"{name} goes, and its budget allows none"
        return answer

    async def open(self, request: Request) -> Stream:
        return await self._inner.open(request)


def _evicted(request: Request) -> str:
    """The pod that a request is to take away; empty for others."""
    parts = request.path.split("/")
    if request.method == "POST" and parts[-1] == "eviction":
        return parts[-2]
    return parts[-1] if request.method == "DELETE" and parts[-2] == "pods" else ""


class Checks:
    """What must hold.

    Attributes:
        leaders: how many deschedulers act; limits are each one's own.
        nodes: of pods, when their jobs began.
        placed: by job the pod that it had a place for when its eviction began.
        scaled: whether the Deployment that is surged was scaled by its owner.
        gone: groups of jobs of which the server has let a pod go.
    """

    def __init__(self, world: World) -> None:
        self._world, self.stored = world, world.stored
        self.leaders = 1
        self.nodes: dict[str, str] = {}
        self.placed: dict[str, str] = {}
        self.scaled = False
        self.gone: set[str] = set()
        self.evictions = 0
        self.broken: list[str] = []
        # What users have deleted, as it was then.
        self._deleted: list[PodMigrationJob] = []
        # Groups of jobs, one of which says that its pod is asked to go.
        self._begun: set[str] = set()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What does not hold is kept: a supervisor would take it for a failure like others."""
        try:
            yield
        except AssertionError as error:
            self.broken.append(str(error))

    def before_eviction(self, name: str) -> None:
        """A pod that is to have a place first has one; a gang's jobs say first that they begin."""
        self.evictions += 1
        jobs, pod = self.stored.all(PodMigrationJob), self.stored.get(Pod, name, "default")
        if pod is None:
            return
        own = [j for j in jobs if j.spec.pod_ref and j.spec.pod_ref.uid == pod.metadata.uid]
        opened = [job for job in own if is_open(job)]
        first = all(job.spec.mode == "ReservationFirst" for job in opened)
        if opened and first and not self._goes_for_deleted(pod, jobs):
            self._check_held(opened, pod)
        if not gang_of(pod):
            return
        # What has begun goes on: an eviction is tried again although a job is deleted.
        for group in {group_of(job) for job in opened} - {""} - self._begun:
            self._check_gang(self._members(jobs, group), group)

    def groups(self, name: str) -> set[str]:
        """The groups of the open jobs of a pod."""
        pod = self.stored.get(Pod, name, "default")
        uid = pod.metadata.uid if pod is not None else ""
        jobs = [job for job in self.stored.all(PodMigrationJob) if is_open(job)]
        return {group_of(j) for j in jobs if j.spec.pod_ref and j.spec.pod_ref.uid == uid} - {""}

    def _goes_for_deleted(self, pod: Pod, jobs: list[PodMigrationJob]) -> bool:
        """Whether it may be on its way for a job that its user has deleted since."""
        there = {job.metadata.uid for job in jobs}
        return any(uid == pod.metadata.uid and job not in there for job, uid in self.placed.items())

    def _check_held(self, jobs: list[PodMigrationJob], pod: Pod) -> None:
        """One of its jobs has a place for it, on another node."""
        places = self._places(jobs, pod)
        assert places, f"{pod.metadata.name} goes from {pod.spec.node_name}, and has no place"

    def _places(self, jobs: list[PodMigrationJob], pod: Pod) -> set[str]:
        """The other nodes on which its jobs hold something."""
        options = [job.spec.reservation_options for job in jobs]
        names = {each.reservation_ref.name for each in options if each and each.reservation_ref}
        held = [each for each in self.stored.all(Reservation) if each.metadata.name in names]
        return {each.status.node_name for each in held} - {"", pod.spec.node_name}

    def spare(self, name: str) -> bool | None:
        """Whether the budget of a pod that is ready lets it go now; None where none is asked."""
        pod = self.stored.get(Pod, name, "default")
        if pod is None or not (is_active(pod) and is_ready(pod)):
            return None
        budget = self.stored.get(PodDisruptionBudget, pod.metadata.labels["app"], "default")
        return None if budget is None else budget.status.disruptions_allowed > 0

    def _check_groups(self) -> None:
        """A gang begins to go once all have a place; one that was refused begins anew.

        One of which a pod has gone goes on, whatever its jobs know of that and although a user
        deletes one.
        """
        jobs = [job for job in self.stored.all(PodMigrationJob) if group_of(job)]
        before = self._begun
        began = {group_of(job) for job in jobs if eviction_began(job.status)}
        self._begun = began | self.gone
        for group in sorted(self._begun - before):
            self._check_gang(self._members(jobs, group), group)

    def job_deleted(self, name: str) -> None:
        """A user is about to delete a job."""
        job = self.stored.get(PodMigrationJob, name)
        if job is not None:
            self._deleted.append(job)

    def _members(self, jobs: list[PodMigrationJob], group: str) -> list[PodMigrationJob]:
        """Jobs that move together: those that are there, and those that a user has deleted since
        the process that writes was last told of jobs: it can't know, and its write names another.
        """
        unseen = _KNOWN.get() - {job.metadata.uid for job in jobs}
        known = [job for job in self._deleted if job.metadata.uid in unseen]
        return [job for job in (*jobs, *known) if group_of(job) == group]

    def _check_gang(self, members: list[PodMigrationJob], group: str) -> None:
        assert len(members) == int(group.partition("/")[0]), "a gang is evicted in part"
        for job in members:
            found = condition(job.status, RESERVATION_SCHEDULED)
            direct = job.spec.mode == "EvictDirectly" and job.status.phase == "Running"
            placed = direct or (found is not None and found.status == TRUE)
            assert placed or job.status.phase == "Succeeded", f"{job.metadata.name} has no place"

    def after_write(self) -> None:
        self._check_groups()
        jobs = [j for j in self.stored.all(PodMigrationJob) if j.status.phase == "Running"]
        uids = Counter(job.spec.pod_ref.uid for job in jobs if job.spec.pod_ref)
        assert all(number == 1 for number in uids.values()), f"two jobs move one pod: {uids}"
        pods = self.stored.all(Pod)
        for pod in pods:
            if pod.spec.node_name:
                self.nodes[pod.metadata.uid] = pod.spec.node_name
        self._note_placed(jobs, pods)
        solo = [pod for pod in pods if pod.metadata.labels["app"] == "solo" and is_active(pod)]
        assert self.scaled or any(map(is_ready, solo)), "a pod that is surged has left a gap"
        if self.leaders > 1:
            return
        assert len(jobs) <= GLOBALLY, f"{len(jobs)} run, {GLOBALLY} may"
        here = {pod.metadata.uid for pod in pods}
        nodes = Counter(self.nodes.get(uid) for uid in uids if uid in here)
        assert all(n <= PER_NODE for n in nodes.values()), f"too many of a node: {nodes}"

    def _note_placed(self, jobs: list[PodMigrationJob], pods: list[Pod]) -> None:
        """Which jobs have a place at the write that says that they are about to evict."""
        there = {pod.metadata.uid: pod for pod in pods}
        for job in jobs:
            pod = there.get(job.spec.pod_ref.uid) if job.spec.pod_ref else None
            if pod is not None and eviction_began(job.status) and self._places([job], pod):
                self.placed[job.metadata.uid] = pod.metadata.uid
