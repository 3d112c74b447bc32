# SPDX-License-Identifier: Apache-2.0
"""What pods and containers ask for and may use, as strategies count it: milli-cores and bytes.

Containers run together with sidecars; other init containers do not count. Absent is None for one
container; sums take what is there. Rules: docs/reference/evictions.md#cpu-evictions,
docs/reference/strategies.md#memory-qos.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.target import QUOTA_LEAST_US
from koord.api import requests
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.pod import Container, Pod

_MILLI = 1000


def amount(resources: ResourceList, name: str) -> int | None:
    """Milli-cores of cpu, units of anything else; None where it is not named."""
    found = resources.get(name)
    return None if found is None else requests.amount(name, found)


def cpu_limit_milli(container: Container) -> int:
    """The CPU limit; 0 without one."""
    return max(0, amount(container.resources.limits, CPU) or 0)


def running_together(pod: Pod) -> Iterator[Container]:
    """Containers and sidecars."""
    yield from pod.spec.containers
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            yield container


def requested(pod: Pod, name: str) -> int:
    """The sum of positive requests over :func:`running_together`."""
    asked = (amount(each.resources.requests, name) for each in running_together(pod))
    return sum(max(0, one or 0) for one in asked)


def batch_cpu_milli(pod: Pod) -> int:
    """Batch CPU that a pod asks for; the unit of that resource is the milli-core."""
    return requested(pod, BATCH_CPU)


def own_request(state: PodState, native: str) -> tuple[str, int]:
    """Under which name a pod's class asks for cpu or memory, and how much it asks."""
    name = native
    if state.priority_class in (PriorityClass.MID, PriorityClass.BATCH):
        name = translated(state.priority_class, native)
        return name, requested(state.pod, name)
    return name, requests.effective(state.pod).get(name, 0)


def memory_names(state: PodState) -> str:
    """The resource that a pod's memory is counted by."""
    return BATCH_MEMORY if state.qos is QoSClass.BE else MEMORY


def memory_request_bytes(state: PodState) -> int:
    """Memory that a pod asks for; batch memory for BE pods."""
    if state.qos is QoSClass.BE:
        return requested(state.pod, BATCH_MEMORY)
    return requests.effective(state.pod).get(MEMORY, 0)


def memory_limit_bytes(state: PodState) -> int:
    """Memory that a pod may use, 0 for no limit: the sum of the limits that its containers have.

    A BE pod is limited only where each of its containers is.
    """
    if state.qos is not QoSClass.BE:
        return requests.effective(state.pod, limits=True).get(MEMORY, 0)
    limits = [amount(each.resources.limits, BATCH_MEMORY) for each in running_together(state.pod)]
    if any(not limit or limit <= 0 for limit in limits):
        return 0
    return sum(limit for limit in limits if limit)


def quota_us(limit_milli: int, period_us: int) -> int:
    """The quota that the kubelet makes of a CPU limit; -1 without one."""
    return max(limit_milli * period_us // _MILLI, QUOTA_LEAST_US) if limit_milli > 0 else -1


def kubelet_quota_milli(pod: Pod) -> int | None:
    """CPU that the kubelet limits a pod to: None unless every container has a limit."""
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    if not all(cpu_limit_milli(each) for each in containers):
        return None
    return requests.effective(pod, limits=True).get(CPU, 0)
