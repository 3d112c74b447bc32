# SPDX-License-Identifier: Apache-2.0
"""Which jobs there are, and how many pods move by node, namespace and workload; kept by events.

Rule: docs/reference/migration.md#limits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.migration import PENDING, RUNNING
from koord.api.protocol import keys
from koord.controllers.cluster.pods import controller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod

IDENTITY = "koord-descheduler"
"""Who says that it made a job; the same after a restart, so that jobs are gone on with."""
WHOLE = ""
"""The key of the whole cluster."""


class JobPlace(NamedTuple):
    """Where the pod of a job is counted.

    Attributes:
        pod: ``namespace/name``.
        node, workload: empty where there is no such pod, node or controller.
    """

    pod: str
    namespace: str
    node: str
    workload: str


@dataclass
class MovingCounts:
    """How often pods are named by jobs, by where they are."""

    nodes: dict[str, Counter[str]] = field(default_factory=dict)
    namespaces: dict[str, Counter[str]] = field(default_factory=dict)
    workloads: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, place: JobPlace, number: int) -> None:
        """Counts a job in, or with -1 out."""
        for index, key in (
            (self.nodes, place.node),
            (self.namespaces, place.namespace),
            (self.namespaces, WHOLE),
            (self.workloads, place.workload),
        ):
            if key or index is self.namespaces:
                counter = index.setdefault(key, Counter())
                counter[place.pod] += number
                if counter[place.pod] <= 0:
                    del counter[place.pod]
                if not counter:
                    del index[key]

    def others(self, index: Mapping[str, Counter[str]], key: str, pod: str) -> Counter[str]:
        """Pods but one, with the number of their jobs."""
        found = index.get(key)
        if found is None or pod not in found:
            return found or Counter()
        return Counter({other: number for other, number in found.items() if other != pod})


class JobIndex:
    """Jobs by uid.

    Args:
        pod: looks a pod up by ``namespace/name``.

    Attributes:
        open: of jobs that have not ended, and of those that are assumed.
        moving: of those that run or have passed arbitration.
    """

    def __init__(self, pod: Callable[[str], Pod | None]) -> None:
        self._pod = pod
        self._jobs: dict[str, PodMigrationJob] = {}
        self._places: dict[str, JobPlace] = {}
        self._counted: dict[str, tuple[bool, bool]] = {}
        self._by_pod: dict[str, set[str]] = {}
        self._by_group: dict[str, set[str]] = {}
        self._by_reservation: dict[str, set[str]] = {}
        self._waiting: dict[str, None] = {}
        # What this process let pass counts before any cache has heard of it.
        self._passed: set[str] = set()
        # Evictions of a plan that is made: by pod, where it is counted as if it had a job.
        self._assumed: dict[str, JobPlace] = {}
        self.open, self.moving = MovingCounts(), MovingCounts()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[PodMigrationJob]:
        return iter(list(self._jobs.values()))

    def get(self, uid: str) -> PodMigrationJob | None:
        """The job of a uid."""
        return self._jobs.get(uid)

    def put(self, job: PodMigrationJob) -> None:
        """A job is there, or has changed."""
        uid = job.metadata.uid
        self._count_out(uid)
        self._jobs[uid] = job
        if not is_open(job):
            self._passed.discard(uid)
        self._count_in(job)

    def remove(self, uid: str) -> None:
        """A job is gone."""
        self._count_out(uid)
        self._jobs.pop(uid, None)
        self._passed.discard(uid)

    def pod_changed(self, key: str) -> None:
        """The pod of a key came, went or has another node or owner."""
        for uid in list(self._by_pod.get(key, ())):
            if self._place(self._jobs[uid]) != self._places[uid]:
                self.put(self._jobs[uid])

    def assume(self, pod: Pod) -> None:
        """Counts a pod among those of open jobs until :meth:`release`; there is no job for it."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        place = _place_of(key, pod.metadata.namespace, pod)
        self._assumed[key] = place
        self.open.add(place, 1)

    def release(self, key: str) -> None:
        """Counts a pod no longer that was assumed."""
        place = self._assumed.pop(key, None)
        if place is not None:
            self.open.add(place, -1)

    def assumed(self) -> list[str]:
        """Pods that are assumed."""
        return list(self._assumed)

    def is_taken(self, key: str) -> bool:
        """Whether a pod is being moved, is about to be, or is in a plan that is made."""
        return key in self._assumed or self.has_open(key)

    def let_pass(self, uid: str) -> None:
        """Counts a job as one that moves its pod."""
        self._passed.add(uid)
        self.put(self._jobs[uid])

    def take_back(self, uid: str) -> None:
        """Undoes :meth:`let_pass`."""
        self._passed.discard(uid)
        if uid in self._jobs:
            self.put(self._jobs[uid])

    def is_moving(self, job: PodMigrationJob) -> bool:
        """Whether a job has not ended, and runs or may go on."""
        return is_open(job) and self.has_passed(job)

    def is_doubtful(self, job: PodMigrationJob) -> bool:
        """Whether a job was let pass and does not say so: the write may have taken effect."""
        return job.metadata.uid in self._passed and not has_passed(job)

    def waiting(self) -> list[PodMigrationJob]:
        """Jobs that wait for arbitration; paused ones do not."""
        return [self._jobs[uid] for uid in self._waiting]

    def of_pod(self, key: str) -> list[PodMigrationJob]:
        """Jobs that name a pod, ended ones too."""
        return [self._jobs[uid] for uid in sorted(self._by_pod.get(key, ()))]

    def of_group(self, group: str) -> list[PodMigrationJob]:
        """Jobs that move together."""
        return [self._jobs[uid] for uid in sorted(self._by_group.get(group, ()))]

    def of_reservation(self, name: str) -> list[PodMigrationJob]:
        """Jobs that name a reservation, ended ones too."""
        return [self._jobs[uid] for uid in sorted(self._by_reservation.get(name, ()))]

    def has_open(self, key: str) -> bool:
        """Whether a pod is being moved, or is about to be."""
        return any(is_open(job) for job in self.of_pod(key))

    def has_passed(self, job: PodMigrationJob) -> bool:
        """Whether a job may go on."""
        return job.metadata.uid in self._passed or has_passed(job)

    def _count_in(self, job: PodMigrationJob) -> None:
        uid, place = job.metadata.uid, self._place(job)
        self._places[uid] = place
        self._by_pod.setdefault(place.pod, set()).add(uid)
        for index, key in self._more_indexes(job):
            index.setdefault(key, set()).add(uid)
        opened = is_open(job)
        moving = opened and self.has_passed(job)
        self._counted[uid] = opened, moving
        if opened:
            self.open.add(place, 1)
        if moving:
            self.moving.add(place, 1)
        if opened and not has_passed(job) and not job.spec.paused and is_ours(job):
            self._waiting[uid] = None

    def _count_out(self, uid: str) -> None:
        place = self._places.pop(uid, None)
        if place is None:
            return
        opened, moving = self._counted.pop(uid)
        if opened:
            self.open.add(place, -1)
        if moving:
            self.moving.add(place, -1)
        self._waiting.pop(uid, None)
        for index, key in self._more_indexes(self._jobs[uid]):
            index[key].discard(uid)
            if not index[key]:
                del index[key]
        self._by_pod[place.pod].discard(uid)
        if not self._by_pod[place.pod]:
            del self._by_pod[place.pod]

    def _more_indexes(self, job: PodMigrationJob) -> Iterator[tuple[dict[str, set[str]], str]]:
        """Indexes by what only some jobs have."""
        for index, key in (
            (self._by_group, group_of(job)),
            (self._by_reservation, reservation_of_job(job)),
        ):
            if key:
                yield index, key

    def _place(self, job: PodMigrationJob) -> JobPlace:
        ref = job.spec.pod_ref
        key, namespace = job_pod_key(job), ref.namespace if ref is not None else ""
        return _place_of(key, namespace, self._pod(key))


def _place_of(key: str, namespace: str, pod: Pod | None) -> JobPlace:
    if pod is None:
        return JobPlace(key, namespace, "", "")
    owner = controller(pod)
    return JobPlace(key, namespace, pod.spec.node_name, owner.uid if owner else "")


def job_pod_key(job: PodMigrationJob) -> str:
    """``namespace/name`` of the pod that a job names."""
    ref = job.spec.pod_ref
    return f"{ref.namespace}/{ref.name}" if ref is not None else "/"


def reservation_of_job(job: PodMigrationJob) -> str:
    """The name of the reservation that a job names; empty for none."""
    options = job.spec.reservation_options
    ref = options.reservation_ref if options is not None else None
    return ref.name if ref is not None else ""


def is_open(job: PodMigrationJob) -> bool:
    """Whether a job has not ended."""
    return job.status.phase in ("", PENDING, RUNNING)


def has_passed(job: PodMigrationJob) -> bool:
    """Whether a job runs, or says that it has passed arbitration."""
    passed = job.metadata.annotations.get(keys.PASSED_ARBITRATION) == "true"
    return passed or job.status.phase == RUNNING


def is_ours(job: PodMigrationJob) -> bool:
    """Whether a job is this descheduler's, an earlier process of it included, or nobody's."""
    return job.metadata.annotations.get(keys.JOB_CREATED_BY, IDENTITY) == IDENTITY


def group_of(job: PodMigrationJob) -> str:
    """What the jobs that move together with one have in common: ``SIZE/ID``; empty for none."""
    return job.metadata.annotations.get(keys.JOB_GROUP, "")
