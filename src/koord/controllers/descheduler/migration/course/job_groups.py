# SPDX-License-Identifier: Apache-2.0
"""What jobs have to do with each other: gangs move all or not at all; and with other things.

Rule: docs/reference/migration.md#gangs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import ABORTED, EVICT_DIRECTLY, FAILED, RUNNING, SUCCEEDED
from koord.controllers.descheduler.migration.arbitration.job_index import group_of, job_pod_key
from koord.controllers.descheduler.migration.course.job_pass import GroupState
from koord.controllers.descheduler.migration.course.job_status import (
    RESERVATION_SCHEDULED,
    TRUE,
    condition,
    eviction_began,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex


def group_state(job: PodMigrationJob, jobs: JobIndex, default_mode: str) -> GroupState:
    """How the jobs that move together with one are doing.

    Args:
        job: which.
        jobs: all there are.
        default_mode: of jobs that name none.
    """
    group = group_of(job)
    if not group:
        return GroupState()
    members = jobs.of_group(group)
    begun = any(eviction_began(each.status) for each in members)
    return GroupState(
        ready=all(_may_evict(each, default_mode) for each in members),
        begun=begun,
        broken=_broken(group, members),
    )


def pods_of_group(job: PodMigrationJob, pod: Pod, jobs: JobIndex, pods: PodIndex) -> Sequence[Pod]:
    """The pods that go when one does, those of its gang that are there still, it among them."""
    group = group_of(job)
    if not group:
        return (pod,)
    keys = dict.fromkeys(job_pod_key(each) for each in jobs.of_group(group))
    return [found for key in keys if (found := pods.get(key)) is not None] or (pod,)


def _broken(group: str, members: list[PodMigrationJob]) -> str:
    size = group.partition("/")[0]
    if size.isdecimal() and len(members) < int(size):
        return f"{int(size) - len(members)} of the {size} jobs of its gang are gone"
    for each in members:
        if each.status.phase in (FAILED, ABORTED):
            why = each.status.reason or each.status.phase
            return f"job {each.metadata.name} of its gang ended: {why}"
    return ""


def _may_evict(job: PodMigrationJob, default_mode: str) -> bool:
    if job.status.phase == SUCCEEDED:
        return True
    if job.status.phase != RUNNING or job.spec.paused:
        return False
    if (job.spec.mode or default_mode) == EVICT_DIRECTLY:
        return True
    found = condition(job.status, RESERVATION_SCHEDULED)
    return found is not None and found.status == TRUE


class JobLinks:
    """Which jobs have to do with a thing."""

    def __init__(self) -> None:
        self._by_thing: dict[str, set[str]] = {}
        self._by_job: dict[str, frozenset[str]] = {}

    def put(self, uid: str, things: Iterable[str]) -> None:
        """Says all that a job has to do with."""
        for thing in self._by_job.pop(uid, frozenset()):
            self._by_thing[thing].discard(uid)
            if not self._by_thing[thing]:
                del self._by_thing[thing]
        linked = frozenset(things)
        for thing in linked:
            self._by_thing.setdefault(thing, set()).add(uid)
        if linked:
            self._by_job[uid] = linked

    def of(self, thing: str) -> list[str]:
        """Uids of jobs."""
        return sorted(self._by_thing.get(thing, ()))
