# SPDX-License-Identifier: Apache-2.0
"""Of the jobs of one pod one begins, also while two deschedulers believe that they lead.

A job that may go on says so. Who is about to begin one reads all jobs after that, and takes from
other jobs of the pod what lets them go on. Both that write and the one that begins a job name the
version that was judged: of two that meet, one is refused.

Rule: docs/reference/migration.md#arbitration.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.kinds.migration import RUNNING, PodMigrationJob
from koord.controllers.descheduler.migration.arbitration.job_index import (
    group_of,
    has_passed,
    is_open,
    job_pod_key,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.clock import Clock
    from koord.controllers.descheduler.migration.arbitration.job_writer import JobWriter
    from koord.kube.client import Client

# Between two lists of all jobs.
_LIST_SECONDS = 0.5


class JobClaims:
    """Says whether a job may begin.

    Args:
        client: the way to the jobs.
        writer: of jobs.
        clock: the time.
    """

    def __init__(self, client: Client, writer: JobWriter, clock: Clock) -> None:
        self._client = client
        self._writer = writer
        self._clock = clock
        self._lock = asyncio.Lock()
        self._last_call = self._last_answer = 0
        self._listed: Sequence[PodMigrationJob] = ()
        self._since = -_LIST_SECONDS

    async def claim(self, job: PodMigrationJob) -> bool:
        """Whether a job that has passed may begin now; no other of its pod does then.

        Raises:
            ApiError: the server refuses, also where another job was about to begin.
            TransportError: no answer came.
        """
        others = [each for each in await self._all() if _is_rival(each, job)]
        for each in others:
            if each.status.phase == RUNNING or rank(each) < rank(job):
                return False
        for each in others:
            await self._writer.withdraw(each)
        return True

    async def _all(self) -> Sequence[PodMigrationJob]:
        """All jobs as they are after this call; one list is for all who wait for it."""
        self._last_call += 1
        own = self._last_call
        async with self._lock:
            if self._last_answer < own:
                early = self._since + _LIST_SECONDS - self._clock.monotonic_seconds()
                if early > 0:
                    await asyncio.sleep(early)
                until, self._since = self._last_call, self._clock.monotonic_seconds()
                self._listed = (await self._client.list(PodMigrationJob)).items
                self._last_answer = until
            return self._listed


def _is_rival(other: PodMigrationJob, job: PodMigrationJob) -> bool:
    """Whether another job that may go on, or runs, is of the same pod."""
    if other.metadata.uid == job.metadata.uid or job_pod_key(other) != job_pod_key(job):
        return False
    uids = {ref.uid for ref in (other.spec.pod_ref, job.spec.pod_ref) if ref is not None} - {""}
    return len(uids) <= 1 and is_open(other) and has_passed(other)


def rank(job: PodMigrationJob) -> tuple[str, str, str]:
    """Which of two jobs that may both begin goes first: the same for all who ask.

    Jobs that move together have one answer for all of their pods.
    """
    return group_of(job), str(job.metadata.creation_timestamp), job.metadata.name
