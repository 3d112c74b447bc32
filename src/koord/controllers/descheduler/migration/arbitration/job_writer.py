# SPDX-License-Identifier: Apache-2.0
"""Writes of jobs: each a patch that is refused where the job has changed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.draft import merge_patch
from koord.api.kinds.migration import PodMigrationJob
from koord.api.protocol import keys
from koord.base import faults
from koord.controllers.descheduler.migration.arbitration.job_index import has_passed
from koord.kube.errors import ApiError
from koord.kube.patches import Patch, preconditions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.meta import ObjectReference
    from koord.api.kinds.migration import PodMigrationJobStatus
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex

_NOT_FOUND = 404
ACTION = "Migrating"
"""Of all events of migrations."""


class JobWriter:
    """Writes jobs, and takes what the server gave back into the index at once.

    Args:
        cluster: where the jobs are.
        jobs: the index.
    """

    def __init__(self, cluster: ClusterAccess, jobs: JobIndex) -> None:
        self._cluster = cluster
        self._jobs = jobs

    async def annotate(self, job: PodMigrationJob, annotations: Mapping[str, str | None]) -> None:
        """Adds annotations; takes those away that have no value."""
        await self._patch("annotate", job, {"metadata": {"annotations": dict(annotations)}})

    async def withdraw(self, job: PodMigrationJob) -> None:
        """Has a job that passed and has not begun wait for arbitration again."""
        await self.annotate(job, {keys.PASSED_ARBITRATION: None, keys.JOB_GROUP: None})

    async def ask(self, job: PodMigrationJob) -> None:
        """Reads a job anew, after a write that nobody answered to."""
        meta = job.metadata
        try:
            found = await self._cluster.client.get(PodMigrationJob, meta.name)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise
            self._jobs.remove(meta.uid)
            return
        if self._jobs.get(meta.uid) is not None and found.metadata.uid == meta.uid:
            self._jobs.put(found)
            if not has_passed(found):
                self._jobs.take_back(meta.uid)

    async def name_pod(self, job: PodMigrationJob, uid: str) -> PodMigrationJob:
        """Says which pod of that name is meant."""
        return await self._patch("name", job, {"spec": {"podRef": {"uid": uid}}})

    async def name_reservation(self, job: PodMigrationJob, ref: ObjectReference) -> None:
        """Says which reservation holds the new place."""
        named = {"reservationOptions": {"reservationRef": codec.to_document(ref)}}
        await self._patch("reference", job, {"spec": named})

    async def status(
        self,
        job: PodMigrationJob,
        status: PodMigrationJobStatus,
        events: Iterable[tuple[str, str, str]] = (),
    ) -> PodMigrationJob:
        """Writes the status, then says what happened."""
        changed = merge_patch(codec.to_document(job.status), codec.to_document(status))
        if changed:
            job = await self._patch("status", job, {"status": changed}, "status")
        for kind, reason, message in events:
            self.event(job, kind, reason, message)
        return job

    def event(self, job: PodMigrationJob, kind: Any, reason: str, message: str) -> None:
        """Says something of a job."""
        self._cluster.events.event(job, kind, reason, message, action=ACTION)

    async def delete(self, job: PodMigrationJob) -> None:
        """Deletes that very job."""
        faults.point("descheduler.migration.delete")
        meta = job.metadata
        await self._cluster.client.delete(PodMigrationJob, meta.name, uid=meta.uid)

    async def _patch(
        self, what: str, job: PodMigrationJob, change: dict[str, Any], subresource: str = ""
    ) -> PodMigrationJob:
        meta = job.metadata
        change["metadata"] = {**change.get("metadata", {}), **preconditions_of(meta)}
        faults.point(f"descheduler.migration.{what}")
        stored = await self._cluster.client.patch(
            PodMigrationJob, meta.name, Patch.merge(change), subresource=subresource
        )
        faults.point(f"descheduler.migration.{what}.done")
        if self._jobs.get(meta.uid) is not None:
            self._jobs.put(stored)
        return stored


def passed(group: str) -> dict[str, str]:
    """The annotations of a job that may go on.

    Args:
        group: see :func:`koord.controllers.descheduler.migration.arbitration.job_index.group_of`.
    """
    said = {keys.PASSED_ARBITRATION: "true"}
    return {**said, keys.JOB_GROUP: group} if group else said
