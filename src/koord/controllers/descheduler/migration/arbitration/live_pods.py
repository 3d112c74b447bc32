# SPDX-License-Identifier: Apache-2.0
"""Pods of jobs as the server has them: caches may be behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.kube.errors import unless_missing

if TYPE_CHECKING:
    from koord.api.kinds.migration import PodMigrationJob
    from koord.kube.client import Client


class LivePods:
    """Asks the server for pods.

    Args:
        client: the way to it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def named_by(self, job: PodMigrationJob) -> Pod | None:
        """The pod of the name that a job gives, with another uid too; None where there is none.

        Raises:
            ApiError: the server refuses.
            TransportError: no answer came.
        """
        ref = job.spec.pod_ref
        if ref is None or not (ref.name and ref.namespace):
            return None
        return await unless_missing(self._client.get(Pod, ref.name, ref.namespace))

    async def is_newer(self, job: PodMigrationJob, known: Pod | None) -> bool:
        """Whether the server has a pod that a cache lacks, or a node of it.

        Limits count a pod at its node, and what is not there meets no check.

        Raises:
            ApiError: the server refuses.
            TransportError: no answer came.
        """
        if known is not None and known.spec.node_name:
            return False
        live = await self.named_by(job)
        if known is None or live is None:
            return (known is None) != (live is None)
        return bool(live.spec.node_name) or live.metadata.uid != known.metadata.uid
