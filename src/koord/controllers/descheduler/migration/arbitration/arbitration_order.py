# SPDX-License-Identifier: Apache-2.0
"""In which order jobs are arbitrated.

Rule: docs/reference/migration.md#arbitration.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.pod_index import gang_of
from koord.controllers.descheduler.predicates.pod_order import by_sorter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod

BATCH_JOB = "Job"
_OLDEST = datetime(1, 1, 1, tzinfo=UTC)


def ordered(
    jobs: Iterable[PodMigrationJob],
    pod_of: Mapping[str, Pod],
    migrating: Callable[[str], int],
) -> list[PodMigrationJob]:
    """Jobs, those that are arbitrated first at the beginning.

    Args:
        jobs: in any order.
        pod_of: by uid of a job the pod that it names.
        migrating: of the uid of a batch job, how many of its pods are moving.
    """
    # The original's order of the input is that of a map; ours is creation, then name.
    found = sorted(jobs, key=lambda job: (_created(job), job.metadata.name))
    found.sort(key=lambda job: -_created(job))
    ranks = _pod_ranks(found, pod_of)
    found.sort(key=lambda job: ranks[job.metadata.uid])
    found = _gathered(found, pod_of)
    return sorted(found, key=lambda job: -_moving_number(pod_of.get(job.metadata.uid), migrating))


def _pod_ranks(jobs: list[PodMigrationJob], pod_of: Mapping[str, Pod]) -> dict[str, int]:
    pods = [pod_of[job.metadata.uid] for job in jobs if job.metadata.uid in pod_of]
    rank = {id(pod): number for number, pod in enumerate(by_sorter(pods))}
    return {
        job.metadata.uid: rank[id(pod_of[job.metadata.uid])] if job.metadata.uid in pod_of else -1
        for job in jobs
    }


def _gathered(jobs: list[PodMigrationJob], pod_of: Mapping[str, Pod]) -> list[PodMigrationJob]:
    """Jobs of one batch job, or of one gang, stand where the first of them does."""
    first: dict[str, int] = {}
    places = []
    for number, job in enumerate(jobs):
        batch = _batch_of(pod_of.get(job.metadata.uid))
        places.append(first.setdefault(batch, number) if batch else number)
    order = sorted(range(len(jobs)), key=places.__getitem__)
    return [jobs[number] for number in order]


def _batch_of(pod: Pod | None) -> str:
    if pod is None:
        return ""
    return gang_of(pod) or _batch_job(pod)


def _batch_job(pod: Pod) -> str:
    owner = controller(pod)
    return owner.uid if owner is not None and owner.kind == BATCH_JOB else ""


def _moving_number(pod: Pod | None, migrating: Callable[[str], int]) -> int:
    batch = _batch_job(pod) if pod is not None else ""
    return migrating(batch) if batch else 0


def _created(job: PodMigrationJob) -> int:
    moment = job.metadata.creation_timestamp
    return int((moment or _OLDEST).timestamp())
