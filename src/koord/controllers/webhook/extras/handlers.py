# SPDX-License-Identifier: Apache-2.0
"""Answers what is asked about PodMigrationJobs and Devices.

Rules: docs/reference/admission.md#podmigrationjobs and #devices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from koord.api.kinds.device import Device
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.webhook.extras import devices, migration_jobs
from koord.controllers.webhook.framework.admission_decision import AdmissionDecision, denied
from koord.controllers.webhook.framework.admission_request import Operation
from koord.controllers.webhook.framework.webhook_table import (
    VALIDATE_DEVICE,
    VALIDATE_MIGRATION_JOB,
)
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from koord.controllers.cluster.views import View
    from koord.controllers.webhook.framework.admission_request import AdmissionRequest
    from koord.controllers.webhook.framework.handler import Handler, HandlerDependencies
    from koord.kube.client import Client

T = TypeVar("T")
_LOOKUP_SECONDS = 1.0
_UNKNOWN = "unknown"


class ValidateMigrationJob:
    """Refuses jobs that cannot be done, or that another one does already."""

    def __init__(self, given: HandlerDependencies) -> None:
        self._client = given.client
        self._pods = given.views.view(Pod)
        self._jobs = _JobsByPod(given.views.view(PodMigrationJob))

    async def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        job = request.decode(PodMigrationJob)
        wrong = list(migration_jobs.spec_problems(job))
        key = migration_jobs.pod_key(job)
        if request.operation is Operation.CREATE and key is not None:
            pod: Pod | str | None = self._pods.get(key)
            if pod is None:
                namespace, _, name = key.partition("/")
                pod = await _looked_up(self._client, Pod, name, namespace)
            if not isinstance(pod, str):
                wrong += migration_jobs.pod_problems(job, pod)
            wrong += migration_jobs.job_problems(job, self._jobs.of(key))
        return denied(wrong)


class ValidateDevice:
    """Refuses devices that no scheduler could give out, and those of no node."""

    def __init__(self, given: HandlerDependencies) -> None:
        self._client = given.client
        self._nodes = given.views.view(Node)

    async def admit(self, request: AdmissionRequest) -> AdmissionDecision:
        """See :class:`koord.controllers.webhook.framework.handler.Handler`."""
        device = request.decode(Device)
        wrong = list(devices.spec_problems(device))
        if request.operation is Operation.CREATE:
            # A node's koordlet makes its Device, perhaps before the cache has the node.
            name = device.metadata.name
            node = self._nodes.get(name) or await _looked_up(self._client, Node, name, "")
            wrong += devices.name_problems(device, has_node=node is not None)
        return denied(wrong)


class _JobsByPod:
    """Jobs by the pod that they move."""

    def __init__(self, view: View[PodMigrationJob]) -> None:
        self._by_pod: defaultdict[str, dict[str, PodMigrationJob]] = defaultdict(dict)
        view.on_change(self._put, self._replace, lambda job, _: self._remove(job))

    def of(self, key: str) -> list[PodMigrationJob]:
        return list(self._by_pod.get(key, {}).values())

    def _put(self, job: PodMigrationJob) -> None:
        key = migration_jobs.pod_key(job)
        if key is not None:
            self._by_pod[key][job.metadata.name] = job

    def _remove(self, job: PodMigrationJob) -> None:
        key = migration_jobs.pod_key(job)
        if key is not None and key in self._by_pod:
            self._by_pod[key].pop(job.metadata.name, None)
            if not self._by_pod[key]:
                del self._by_pod[key]

    def _replace(self, old: PodMigrationJob, new: PodMigrationJob) -> None:
        self._remove(old)
        self._put(new)


async def _looked_up(client: Client, kind: type[T], name: str, namespace: str) -> T | str | None:
    """An object past the cache; None where it is not there, a text where nobody says."""
    try:
        found = await client.list(
            kind,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            timeout_seconds=_LOOKUP_SECONDS,
        )
    except (ApiError, TransportError, TimeoutError):
        return _UNKNOWN
    return found.items[0] if found.items else None


HANDLERS: Mapping[str, Callable[[HandlerDependencies], Handler]] = {
    VALIDATE_MIGRATION_JOB: ValidateMigrationJob,
    VALIDATE_DEVICE: ValidateDevice,
}
