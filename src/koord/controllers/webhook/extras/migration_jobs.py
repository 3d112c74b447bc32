# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a PodMigrationJob before it is stored.

Rule: docs/reference/admission.md#podmigrationjobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import (
    ABORTED,
    EVICT_DIRECTLY,
    FAILED,
    RESERVATION_FIRST,
    SUCCEEDED,
    PodMigrationJob,
)
from koord.base.errors import Code, KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.api.kinds.pod import Pod

MODES = ("", RESERVATION_FIRST, EVICT_DIRECTLY)
_ENDED = (SUCCEEDED, FAILED, ABORTED)


def spec_problems(job: PodMigrationJob) -> Iterator[KoordError]:
    """What is wrong with a job by itself."""
    if job.spec.mode not in MODES:
        expected = f"{RESERVATION_FIRST} or {EVICT_DIRECTLY}"
        yield KoordError(job.title, "spec.mode", job.spec.mode, expected)
    if job.spec.ttl is not None and job.spec.ttl.nanoseconds < 0:
        yield KoordError(job.title, "spec.ttl", str(job.spec.ttl), "a duration of 0 or more")
    pod = job.spec.pod_ref  # which the schema requires
    if pod is not None and not pod.name:
        yield KoordError(job.title, "spec.podRef.name", None, "the name of a pod")
    elif pod is not None and not pod.namespace:
        yield KoordError(job.title, "spec.podRef.namespace", None, "the namespace of the pod")


def pod_key(job: PodMigrationJob) -> str | None:
    """The pod that a job moves, as ``namespace/name``; None where it names none."""
    pod = job.spec.pod_ref
    if pod is None or not pod.namespace or not pod.name:
        return None
    return f"{pod.namespace}/{pod.name}"


def is_open(job: PodMigrationJob) -> bool:
    """Whether a job has not ended."""
    return job.status.phase not in _ENDED


def pod_problems(job: PodMigrationJob, pod: Pod | None) -> Iterator[KoordError]:
    """What is wrong with the pod that a new job names.

    Args:
        job: which names one.
        pod: None where there is none.
    """
    key, named = pod_key(job), job.spec.pod_ref
    if pod is None:
        yield KoordError(job.title, "spec.podRef", key, "a pod that exists", Code.NOT_FOUND)
    elif named is not None and named.uid and named.uid != pod.metadata.uid:
        expected = f"{pod.metadata.uid}, the uid of that pod"
        yield KoordError(job.title, "spec.podRef.uid", named.uid, expected)


def job_problems(job: PodMigrationJob, jobs: Iterable[PodMigrationJob]) -> Iterator[KoordError]:
    """Another job that moves the same pod.

    Args:
        job: a new one.
        jobs: all that name its pod.
    """
    for other in jobs:
        if other.metadata.name != job.metadata.name and is_open(other):
            expected = f"a pod that no open job moves; {other.metadata.name} does"
            yield KoordError(job.title, "spec.podRef", pod_key(job), expected)
            return
