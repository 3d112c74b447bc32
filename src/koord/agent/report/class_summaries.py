# SPDX-License-Identifier: Apache-2.0
"""Sums by class and by container beside the report, for readers who want a line a class.

Shape: docs/reference/reports.md#class-summaries; filled in only where the agent is told to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.report.resource_maps import pairs
from koord.api.kinds.nodemetric import ClassSummary, ContainerSummary, PodName, PodSummary
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY
from koord.api.requests import effective
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.agent.metrics.reader import MetricReader, Window
    from koord.agent.report.memory_kinds import MemoryKinds
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.nodemetric import NodeMetricStatus

_MILLI = 1000
UsagePair = tuple[int, int]
_NOTHING: UsagePair = (0, 0)


def add_summaries(
    status: NodeMetricStatus,
    pods: Sequence[PodState],
    metrics: MetricReader,
    memory: MemoryKinds,
    window: Window,
) -> None:
    """Fills the sums of a status: the node, BE and LS pods, every container."""
    running = [pod for pod in pods if pod.active]
    used = _used(metrics, MetricKind.POD_CPU_USAGE, memory.pod, window)
    best_effort = [pod for pod in running if pod.qos_default is QoSClass.BE]
    others = [pod for pod in running if pod.qos_default is not QoSClass.BE]
    status.be_metric, status.ls_metric = _class(best_effort, used), _class(others, used)
    if status.node_metric is not None:
        node, whole = status.node_metric, _class(running, used)
        node.usage = dict(node.node_usage.resources) if node.node_usage else {}
        node.request, node.limit = whole.request, whole.limit
    by_container = _used(metrics, MetricKind.CONTAINER_CPU_USAGE, memory.container, window)
    status.pod_metrics = [_pod(pod, by_container) for pod in running]


def _used(
    metrics: MetricReader, cpu_kind: MetricKind, memory_kind: MetricKind, window: Window
) -> dict[str, UsagePair]:
    measured = pairs(metrics, cpu_kind, memory_kind, window)
    return {label: (int(cpu * _MILLI), int(memory)) for label, (cpu, memory) in measured.items()}


def _class(pods: Iterable[PodState], used: Mapping[str, UsagePair]) -> ClassSummary:
    usage = request = limit = _NOTHING
    for pod in pods:
        usage = _plus(usage, used.get(pod.uid, _NOTHING))
        request = _plus(request, _native(effective(pod.pod)))
        limit = _plus(limit, _native(effective(pod.pod, limits=True)))
    return ClassSummary(usage=_listed(usage), request=_listed(request), limit=_listed(limit))


def _pod(pod: PodState, used: Mapping[str, UsagePair]) -> PodSummary:
    containers = []
    for container in pod.containers:
        asked = container.spec.resources if container.spec else None
        containers.append(
            ContainerSummary(
                name=container.name,
                usage=_listed(used.get(container.id, _NOTHING)),
                request=dict(asked.requests) if asked else {},
                limit=dict(asked.limits) if asked else {},
            )
        )
    name = PodName(namespace=pod.pod.metadata.namespace, name=pod.pod.metadata.name)
    return PodSummary(pod_ref=name, containers=containers)


def _native(amounts: Mapping[str, int]) -> UsagePair:
    """CPU in milli-cores and memory, batch resources counted as what they stand for."""
    return (
        amounts.get(CPU, 0) + amounts.get(BATCH_CPU, 0),
        amounts.get(MEMORY, 0) + amounts.get(BATCH_MEMORY, 0),
    )


def _plus(one: UsagePair, other: UsagePair) -> UsagePair:
    return one[0] + other[0], one[1] + other[1]


def _listed(amounts: UsagePair) -> dict[str, Quantity]:
    memory = Quantity.from_value(amounts[1], Format.BINARY_SI)
    return {CPU: Quantity.from_milli(amounts[0]), MEMORY: memory}
