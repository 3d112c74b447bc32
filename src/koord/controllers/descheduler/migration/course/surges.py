# SPDX-License-Identifier: Apache-2.0
"""Deployments with a second replica while their only pod is moved: asked, scaled, scaled back.

Rule: docs/reference/migration.md#surge. Which job a Deployment is surged for is written into it
together with the replicas, so that whoever comes later knows what is to be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import Kind, kind_of_type
from koord.api.kinds.workloads import Deployment
from koord.api.protocol import keys
from koord.base import faults
from koord.base.errors import one_line
from koord.controllers.descheduler.migration.course.surge_state import (
    MANAGER,
    SURGED,
    SurgeState,
    asks_for_surge,
    surge_state,
)
from koord.kube.errors import ApiError, unless_missing
from koord.kube.patches import Patch, preconditions_of

if TYPE_CHECKING:
    from koord.api.kinds.migration import PodMigrationJob
    from koord.base.clock import Clock
    from koord.base.documents import Document
    from koord.controllers.descheduler.migration.arbitration.workloads import Workloads
    from koord.kube.client import Client

_FORBIDDEN, _NOT_FOUND = 403, 404
_DEPLOYMENT = kind_of_type(Deployment)
AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True,
    "workloads.Workload",
)  # fmt: skip
_FIRST_TO_GO = "-2147483648"
# What refused a surge is asked again after that.
_REFUSED_SECONDS = 300.0
_MOST_REFUSALS = 10_000


class _DeploymentKey(NamedTuple):
    namespace: str
    name: str
    uid: str


class Surges:
    """Reads and writes of Deployments that are surged.

    Args:
        workloads: of pods.
        clock: the time.
    """

    def __init__(self, workloads: Workloads, clock: Clock) -> None:
        self._workloads = workloads
        self._clock = clock
        self._by_job: dict[str, _DeploymentKey] = {}
        self._by_key: dict[_DeploymentKey, str] = {}
        self._refused: dict[str, tuple[str, float]] = {}

    def put(self, deployment: Deployment) -> set[str]:
        """A Deployment is there, or has changed; uids of the jobs that it was or is surged for."""
        key, job = _key(deployment), deployment.metadata.annotations.get(keys.SURGE_JOB, "")
        found = self.remove(deployment)
        if job:
            self._by_job[job], self._by_key[key] = key, job
            found.add(job)
        return found

    def remove(self, deployment: Deployment) -> set[str]:
        """A Deployment is gone; the uid of the job that it was surged for."""
        job = self._by_key.pop(_key(deployment), None)
        if job is None:
            return set()
        self._by_job.pop(job, None)
        return {job}

    def jobs(self) -> list[str]:
        """Uids of the jobs that Deployments are surged for."""
        return sorted(self._by_job)

    def wants_surge(self, pod: Pod) -> bool:
        """Whether the pod is the only one of a Deployment that asks for a surge."""
        found = self._workloads.deployment_of(pod)
        return found is not None and _wants_surge(found)

    def refusal(self, pod: Pod) -> str:
        """What refused a surge of the pod's Deployment lately; empty for nothing."""
        found = self._workloads.deployment_of(pod)
        uid = found.metadata.uid if found is not None else ""
        why, until = self._refused.get(uid, ("", 0.0))
        return why if self._clock.monotonic_seconds() < until else ""

    async def state(
        self, client: Client, job: PodMigrationJob, pod: Pod | None
    ) -> SurgeState | None:
        """What the Deployment of a job's pod says, asked of the server; None where it asks for
        nothing and is not surged for the job.

        Raises:
            ApiError: the server refuses.
            TransportError: no answer came.
        """
        uid = job.metadata.uid
        key = self._by_job.get(uid)
        if key is None and pod is not None:
            found = self._workloads.deployment_of(pod)
            key = _key(found) if found is not None and _wants_surge(found) else None
        return await self._read(client, key, uid) if key is not None else None

    async def _read(self, client: Client, key: _DeploymentKey, job: str) -> SurgeState | None:
        try:
            document: Document = await client.get(_DEPLOYMENT, key.name, key.namespace)
            if document["metadata"]["uid"] != key.uid:
                return None
            scalers: list[Any] = await _autoscalers(client, key.namespace)
        except ApiError as error:
            if error.http_status == _NOT_FOUND:
                return None
            if error.http_status != _FORBIDDEN:
                raise
            meta = {"namespace": key.namespace, "name": key.name, "uid": key.uid}
            text = "koord-descheduler lacks deploy/rbac/koord-descheduler-surge.yaml: "
            found = SurgeState({"metadata": meta}, 1, False, text + one_line(str(error)))
        else:
            found = surge_state(document, job, scalers)
            annotations = document["metadata"].get("annotations") or {}
            if found.replicas != 1 and keys.SURGE_JOB not in annotations:
                return None
        if found.refusal and not found.is_begun:
            self._refuse(key.uid, found.refusal)
        return found

    def _refuse(self, uid: str, why: str) -> None:
        if len(self._refused) >= _MOST_REFUSALS:
            self._refused.clear()
        self._refused[uid] = why, self._clock.monotonic_seconds() + _REFUSED_SECONDS

    async def scale_up(self, client: Client, job: PodMigrationJob, state: SurgeState) -> None:
        """Wants a second pod, for a job.

        Raises:
            ApiError: the server refuses, also where anybody wrote meanwhile.
            TransportError: no answer came.
        """
        faults.point("descheduler.migration.surge.up")
        await _scale(client, state, SURGED, job.metadata.uid)
        faults.point("descheduler.migration.surge.up.done")

    async def scale_down(self, client: Client, state: SurgeState, pod: Pod) -> None:
        """Wants one pod again: another than the old one.

        Raises:
            ApiError: as of :meth:`scale_up`.
            TransportError: likewise.
        """
        if keys.SURGE_COST not in pod.metadata.annotations:
            before = pod.metadata.annotations.get(keys.POD_DELETION_COST, "")
            faults.point("descheduler.migration.surge.cost")
            await _annotate(
                client, pod, {keys.POD_DELETION_COST: _FIRST_TO_GO, keys.SURGE_COST: before}
            )
        faults.point("descheduler.migration.surge.down")
        await _scale(client, state, 1, None)
        faults.point("descheduler.migration.surge.down.done")

    async def undo(self, client: Client, job: str, old: Pod | None) -> None:
        """Takes back whatever was done for a job.

        Args:
            job: uid.
            old: the pod that the job was to move, where it is there.

        Raises:
            ApiError: as of :meth:`scale_up`.
            TransportError: likewise.
        """
        if old is not None:
            await _restore(client, old)
        key = self._by_job.get(job)
        state = await self._read(client, key, job) if key is not None else None
        if key is None or state is None or not state.is_begun:
            return
        is_ours = state.replicas == SURGED and not state.refusal
        pods = self._workloads.pods_of(key.uid)
        stays = old or next((pod for pod in pods if keys.SURGE_COST in pod.metadata.annotations),
                            next(iter(pods), None))  # fmt: skip
        for pod in pods:
            if stays is not None and pod.metadata.uid == stays.metadata.uid:
                if old is None:
                    await _restore(client, pod)
            elif is_ours and pod.metadata.annotations.get(keys.POD_DELETION_COST) != _FIRST_TO_GO:
                await _annotate(client, pod, {keys.POD_DELETION_COST: _FIRST_TO_GO})
        faults.point("descheduler.migration.surge.undo")
        await _scale(client, state, 1 if is_ours else None, None)
        faults.point("descheduler.migration.surge.undo.done")


def _wants_surge(deployment: Deployment) -> bool:
    annotations, replicas = deployment.metadata.annotations, deployment.spec.replicas
    return asks_for_surge(annotations) and (replicas in (None, 1) or keys.SURGE_JOB in annotations)


def _key(deployment: Deployment) -> _DeploymentKey:
    meta = deployment.metadata
    return _DeploymentKey(meta.namespace, meta.name, meta.uid)


async def _autoscalers(client: Client, namespace: str) -> list[Any]:
    found = await unless_missing(client.list(AUTOSCALER, namespace=namespace))
    return list(found.items) if found is not None else []


async def _scale(client: Client, state: SurgeState, replicas: int | None, job: str | None) -> None:
    meta = state.document["metadata"]
    change: Document = {
        "metadata": {
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "annotations": {keys.SURGE_JOB: job},
        }
    }
    if replicas is not None:
        change["spec"] = {"replicas": replicas}
    await client.patch(
        _DEPLOYMENT, meta["name"], Patch.merge(change), meta["namespace"], field_manager=MANAGER
    )


async def _restore(client: Client, pod: Pod) -> None:
    """Gives a pod the deletion cost that it had."""
    before = pod.metadata.annotations.get(keys.SURGE_COST)
    if before is not None:
        faults.point("descheduler.migration.surge.restore")
        await _annotate(
            client, pod, {keys.POD_DELETION_COST: before or None, keys.SURGE_COST: None}
        )


async def _annotate(client: Client, pod: Pod, annotations: dict[str, str | None]) -> None:
    """One that is gone already is well."""
    meta = pod.metadata
    change: Document = {"metadata": {"annotations": annotations, **preconditions_of(meta)}}
    await unless_missing(client.patch(Pod, meta.name, Patch.merge(change), meta.namespace))
