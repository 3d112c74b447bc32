# SPDX-License-Identifier: Apache-2.0
"""Contexts of hooks from what the agent knows of a pod.

Rule: docs/reference/hooks.md#what-a-hook-sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from koord.agent.hooks.hook import CgroupRequest, ContainerContext, ExtendedResources, PodContext
from koord.api import requests
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.api.protocol import agent, resources, scheduling
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import milli_cpu_to_quota_us, milli_cpu_to_shares

if TYPE_CHECKING:
    from koord.agent.states.pod_state import ContainerState, PodState
    from koord.api.kinds.pod import Container

T = TypeVar("T")

_EXTENDED = (resources.BATCH_CPU, resources.BATCH_MEMORY, resources.MID_CPU, resources.MID_MEMORY)
_NO_LIMIT = -1


def pod_of(context: PodContext) -> Pod:
    """The pod with what a context has of it, for the accessors of its annotations."""
    metadata = ObjectMeta(
        name=context.name,
        namespace=context.namespace,
        uid=context.uid,
        labels=dict(context.labels),
        annotations=dict(context.annotations),
    )
    return Pod(kind="Pod", metadata=metadata)


def read_once(context: PodContext, read: Callable[[Pod], T]) -> T:
    """What an accessor reads of a pod's annotations, once for all of its containers.

    Args:
        context: the pod.
        read: an accessor of the protocol; its answer is not to be changed.

    Raises:
        KoordError: what the accessor raises, each time.
    """
    source, found = context.known.get(read, (None, None))
    if source is not context.annotations:
        try:
            found = read(pod_of(context))
        except KoordError as error:
            found = error.copy()
        context.known[read] = context.annotations, found
    if isinstance(found, KoordError):
        raise found.copy()
    return cast("T", found)


def qos_by_cpus(context: PodContext) -> QoSClass:
    """The label's class; a pod without one that has CPUs of its own counts as LSR.

    Raises:
        KoordError: the annotation of its CPUs is malformed.
    """
    if context.qos is QoSClass.NONE and read_once(context, scheduling.resource_status).cpuset:
        return QoSClass.LSR
    return context.qos


class _Malformed(Mapping[str, ExtendedResources]):
    """Extended resources that cannot be read: an error only for a hook that asks for them."""

    def __init__(self, error: KoordError) -> None:
        self._error = error.copy()

    def __getitem__(self, name: str) -> ExtendedResources:
        raise self._error.copy()

    def __iter__(self) -> Iterator[str]:
        raise self._error.copy()

    def __len__(self) -> int:
        raise self._error.copy()


def pod_context(state: PodState, *, reconciling: bool = True) -> PodContext:
    """A pod as its hooks see it; a malformed annotation is the hook's to stumble over."""
    extended: Mapping[str, ExtendedResources] | None
    try:
        extended = extended_of(state.pod)
    except KoordError as error:
        extended = _Malformed(error)
    metadata = state.pod.metadata
    return PodContext(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=metadata.labels,
        annotations=metadata.annotations,
        qos=state.qos,
        kube_qos=state.kube_qos,
        directory=state.directory,
        requested=_request_of_pod(state.pod),
        extended=extended,
        reconciling=reconciling,
    )


def container_context(
    pod: PodContext, state: ContainerState, environment: Mapping[str, str] | None = None
) -> ContainerContext:
    """One of its containers; limits that the spec does not name are none.

    Args:
        pod: whose.
        state: as its pod's source, or a runtime, tells of it.
        environment: of one that is being made.
    """
    asked = _request_of_container(state.spec) if state.spec else CgroupRequest()
    return ContainerContext(
        pod, state.name, state.id, state.directory, asked, environment=environment or {}
    )


def sandbox_context(pod: PodContext, directory: str) -> ContainerContext:
    """The container that holds a pod's namespaces."""
    return ContainerContext(pod, "", "", directory)


def extended_of(pod: Pod) -> Mapping[str, ExtendedResources] | None:
    """Batch and mid resources by container: of the spec, or else of the webhook's annotation.

    Containers that run side by side count, sidecars among them; init containers that end do not.

    Raises:
        KoordError: the annotation is malformed.
    """
    beside = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    rows = {c.name: _extended(c) for c in (*pod.spec.containers, *beside)}
    # What asks for no such resources keeps what the runtime gave it.
    found = {name: row for name, row in rows.items() if row.requests or row.limits}
    if found:
        return found
    told = agent.extended_resource_spec(pod).containers
    spec = {name: ExtendedResources(row.requests, row.limits) for name, row in told.items()}
    return spec or None


def _extended(container: Container) -> ExtendedResources:
    asked = container.resources
    return ExtendedResources(
        {name: asked.requests[name] for name in _EXTENDED if name in asked.requests},
        {name: asked.limits[name] for name in _EXTENDED if name in asked.limits},
    )


def _request_of_pod(pod: Pod) -> CgroupRequest:
    asked, limits = requests.effective(pod), requests.effective(pod, limits=True)
    every = [*pod.spec.containers, *pod.spec.init_containers]
    limited: dict[str, int] = {
        name: limits[name]
        for name in (resources.CPU, resources.MEMORY)
        if limits.get(name) and all(c.resources.limits.get(name) for c in every)
    }
    return _cgroup_request(asked.get(resources.CPU, 0), limited)


def _request_of_container(container: Container) -> CgroupRequest:
    wanted = container.resources
    limits: dict[str, int] = {
        name: requests.amount(name, wanted.limits[name])
        for name in (resources.CPU, resources.MEMORY)
        if name in wanted.limits
    }
    # The API server copies a limit into a missing request before anyone sees the pod.
    cpu = wanted.requests.get(resources.CPU, wanted.limits.get(resources.CPU))
    return _cgroup_request(requests.amount(resources.CPU, cpu) if cpu else 0, limits)


def _cgroup_request(cpu_milli: int, limits: Mapping[str, int]) -> CgroupRequest:
    memory = limits.get(resources.MEMORY, 0)
    return CgroupRequest(
        cpu_shares=milli_cpu_to_shares(cpu_milli),
        cfs_quota_us=milli_cpu_to_quota_us(limits.get(resources.CPU, 0)),
        memory_limit_bytes=memory if memory > 0 else _NO_LIMIT,
    )
