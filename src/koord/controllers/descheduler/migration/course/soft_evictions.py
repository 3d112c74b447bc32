# SPDX-License-Identifier: Apache-2.0
"""Soft evictions whose jobs are gone: whoever asked a pod to go takes that back.

A pod says beside the request for which job it was made; so another process knows as well.

Rule: docs/reference/migration.md#evictors.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.migration import PodMigrationJob
from koord.api.protocol import keys
from koord.kube.errors import unless_missing
from koord.kube.patches import preconditions_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.api.kinds.pod import Pod
    from koord.base.documents import Document
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.kube.client import Client


class SoftEvictionOwner(NamedTuple):
    """Whose request a pod has.

    Attributes:
        uid, name: of the job.
        digest: of the request, as it was written.
    """

    uid: str
    name: str
    digest: str

    def text(self) -> str:
        """As the annotation has it."""
        return "/".join(self)


def owner_of(job: PodMigrationJob, request: str) -> SoftEvictionOwner:
    """What a pod says of a request that a job writes."""
    return SoftEvictionOwner(job.metadata.uid, job.metadata.name, _digest(request))


def owner_on(pod: Pod | None) -> SoftEvictionOwner | None:
    """What a pod says of whose request it has; None for nothing that anyone here wrote."""
    if pod is None:
        return None
    parts = pod.metadata.annotations.get(keys.SOFT_EVICTION_JOB, "").split("/")
    return SoftEvictionOwner(*parts) if len(parts) == 3 and all(parts) else None


def taken_back(pod: Pod, whole: bool = True) -> Document:
    """The change that takes a request back, refused where anybody wrote meanwhile.

    Args:
        whole: whether the request goes, and not only what says whose it was.
    """
    gone: dict[str, str | None] = {keys.SOFT_EVICTION_JOB: None}
    if whole:
        gone[keys.SOFT_EVICTION] = None
    return {"metadata": {"annotations": gone, **preconditions_of(pod.metadata)}}


class SoftEvictionIndex:
    """Pods that jobs have asked to go, by job; kept by events.

    Args:
        client: the way to the server.
        jobs: that there are.
        revoke: takes a request back, or only what says whose it was.
    """

    def __init__(
        self, client: Client, jobs: JobIndex, revoke: Callable[[Pod, bool], Awaitable[None]]
    ) -> None:
        self._client = client
        self._revoke = revoke
        self._jobs = jobs
        self._pods: dict[str, dict[str, Pod]] = {}
        self._uids: dict[str, str] = {}

    def put(self, key: str, pod: Pod | None) -> str:
        """A pod has changed, or is gone; the uid of the job that it names where that is gone."""
        old = self._uids.pop(key, "")
        if old:
            del self._pods[old][key]
            if not self._pods[old]:
                del self._pods[old]
        found = owner_on(pod)
        if pod is None or found is None:
            return ""
        self._uids[key] = found.uid
        self._pods.setdefault(found.uid, {})[key] = pod
        return found.uid if self._jobs.get(found.uid) is None else ""

    def without_job(self, key: str) -> str:
        """The uid of the job that a pod names, where that is gone; empty otherwise."""
        uid = self._uids.get(key, "")
        return uid if uid and self._jobs.get(uid) is None else ""

    def jobs(self) -> list[str]:
        """Uids of the jobs that are gone and whose requests are there still."""
        return [uid for uid in sorted(self._pods) if self._jobs.get(uid) is None]

    async def clean(self, uid: str) -> None:
        """Takes back what a job asked that is gone, unless another one moves the pod.

        Raises:
            ApiError: the server refuses, also where anybody wrote meanwhile.
            TransportError: no answer came.
        """
        for key, pod in list(self._pods.get(uid, {}).items()):
            found = owner_on(pod)
            if found is None or self._jobs.get(uid) is not None or self._jobs.has_open(key):
                continue
            # A cache may lack a job that is newer than it.
            live = await unless_missing(self._client.get(PodMigrationJob, found.name))
            if live is None or live.metadata.uid != uid:
                request = pod.metadata.annotations.get(keys.SOFT_EVICTION, "")
                await self._revoke(pod, _digest(request) == found.digest)


def _digest(request: str) -> str:
    return hashlib.sha256(request.encode()).hexdigest()[:16]
