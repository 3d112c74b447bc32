# SPDX-License-Identifier: Apache-2.0
"""How the pod of a job is made to go.

Rule: docs/reference/migration.md#evictors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.eviction import SoftEviction
from koord.api.timestamps import seconds_text
from koord.base import faults
from koord.base.errors import one_line
from koord.controllers.descheduler.migration.arbitration.job_writer import ACTION
from koord.controllers.descheduler.migration.course.object_limiter import EvictionBucket
from koord.controllers.descheduler.migration.course.soft_evictions import owner_of, taken_back
from koord.controllers.descheduler.migration.course.surge_pass import eviction_reason
from koord.controllers.descheduler.migration.migration_args import DELETE, POLICIES, SOFT_EVICTION
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.api.kinds.migration import DeleteOptions, PodMigrationJob
    from koord.base.clock import Clock
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs

_CONFLICT, _NOT_FOUND = 409, 404


class PodEvictors:
    """Evicts by the policy that the pod, or its job, asks for.

    Args:
        args: of the plugin.
        cluster: where the pods are.
        clock: the time.
    """

    def __init__(self, args: MigrationControllerArgs, cluster: ClusterAccess, clock: Clock) -> None:
        self._args = args
        self._cluster = cluster
        self._clock = clock
        size, now = float(args.evict_burst), clock.monotonic_seconds()
        self._bucket = EvictionBucket(args.evictions_per_second(), size, size, now)

    def policy(self, job: PodMigrationJob, pod: Pod) -> str:
        """``Eviction``, ``Delete`` or ``SoftEviction``."""
        wanted = pod.metadata.labels.get(keys.EVICT_POLICY)
        wanted = wanted or job.metadata.labels.get(keys.EVICT_POLICY)
        return wanted if wanted in POLICIES else self._args.eviction_policy

    def wait_seconds(self) -> float:
        """Takes the token that an eviction costs; for how long to wait where there is none."""
        if self._bucket.take(self._clock.monotonic_seconds()):
            return 0.0
        return (1 - self._bucket.tokens) / self._bucket.rate

    async def evict(self, job: PodMigrationJob, pod: Pod) -> str:
        """Asks the pod to go, that very pod; why it does not, empty where it does.

        One that is gone already counts as evicted.
        """
        why = await self._result(job, pod)
        strategy = job.metadata.annotations.get(keys.EVICT_TRIGGER, "")
        self._cluster.count_eviction("error" if why else "success", strategy, pod)
        if not why:
            reason = f'by the reason "{eviction_reason(job)}"'
            text = f'Pod evicted from node "{pod.spec.node_name}" {reason}'
            self._cluster.events.event(pod, "Normal", "Descheduled", text, action=ACTION)
        return why

    async def revoke(self, pod: Pod, whole: bool = True) -> None:
        """Takes a soft eviction back; a pod that is gone is well.

        Args:
            whole: whether the request goes, and not only what says whose it was.

        Raises:
            ApiError: the server refuses, also where anybody wrote meanwhile.
            TransportError: no answer came.
        """
        meta, change = pod.metadata, taken_back(pod, whole)
        faults.point("descheduler.migration.revoke")
        try:
            await self._cluster.client.patch(Pod, meta.name, Patch.merge(change), meta.namespace)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise

    async def _result(self, job: PodMigrationJob, pod: Pod) -> str:
        """Why the pod was not asked; empty where it was, or is gone already."""
        try:
            faults.point("descheduler.migration.evict")
            await self._ask(job, pod)
            faults.point("descheduler.migration.evicted")
        except ApiError as error:
            if error.http_status in (_CONFLICT, _NOT_FOUND):
                return ""
            return one_line(str(error))
        except TransportError as error:
            return one_line(str(error))
        return ""

    async def _ask(self, job: PodMigrationJob, pod: Pod) -> None:
        meta, client, policy = pod.metadata, self._cluster.client, self.policy(job, pod)
        options = job.spec.delete_options or self._args.default_delete_options
        grace = options.grace_period_seconds if options is not None else None
        if policy == DELETE:
            await client.delete(
                Pod,
                meta.name,
                meta.namespace,
                uid=meta.uid,
                grace_period_seconds=grace,
                propagation=(options.propagation_policy or "") if options is not None else "",
            )
        elif policy == SOFT_EVICTION:
            text = self._soft(job, options)
            asked = {keys.SOFT_EVICTION: text, keys.SOFT_EVICTION_JOB: owner_of(job, text).text()}
            change = {"metadata": {"uid": meta.uid, "annotations": asked}}
            await client.patch(Pod, meta.name, Patch.merge(change), meta.namespace)
        else:
            await client.evict(meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=grace)

    def _soft(self, job: PodMigrationJob, options: DeleteOptions | None) -> str:
        asked = SoftEviction(
            timestamp=seconds_text(self._clock.wall_seconds()),
            delete_options=options,
            initiator=job.metadata.annotations.get(keys.EVICT_TRIGGER, ""),
            reason=eviction_reason(job),
        )
        return codec.to_json(asked).decode()
