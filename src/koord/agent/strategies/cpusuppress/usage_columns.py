# SPDX-License-Identifier: Apache-2.0
"""The columns of :mod:`decision` for one node, from a tick.

Rule: docs/reference/strategies.md#allowed-cpu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.cpusuppress import decision
from koord.api.protocol.node_reservation import node_reservation, reserved_resources
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.resources import CPU
from koord.base.errors import KoordError
from koord.kernels.cgroup_path import KubeQos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.strategy import Tick
    from koord.api.kinds.node import Node
    from koord.api.kinds.slo_strategies import HostApplication, ResourceThresholdStrategy


class PodRows:
    """Which rows of a reading are those of pods in the list, and which of them are best-effort.

    Args:
        pods: the list; what others use is part of the node's usage and no pod's.
    """

    def __init__(self, pods: Iterable[PodState]) -> None:
        self._best_effort = {pod.uid: is_best_effort(pod) for pod in pods}
        self._labels: list[tuple[str, ...]] | None = None
        self._rows = (np.empty(0, np.int64), np.empty(0, np.bool_))

    def of(self, labels: list[tuple[str, ...]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows, and a flag for each; looked up anew when ``labels`` is another object."""
        if labels is not self._labels:
            listed = [row for row, (uid,) in enumerate(labels) if uid in self._best_effort]
            flags = [self._best_effort[labels[row][0]] for row in listed]
            self._labels = labels
            self._rows = np.array(listed, np.int64), np.array(flags, np.bool_)
        return self._rows


def usage(tick: Tick, pods: PodRows) -> decision.UsageColumns:
    """CPU in use on this node.

    Args:
        tick: of this round.
        pods: of its snapshot.

    Raises:
        KoordError: the node's own usage was not measured lately.
    """
    node = readings.node_last(tick, MetricKind.NODE_CPU_USAGE)
    measured = readings.last(tick, MetricKind.POD_CPU_USAGE)
    listed, best_effort = pods.of(measured.labels)
    hosts = readings.last_by_label(tick, MetricKind.HOST_APPLICATION_CPU_USAGE)
    applications = [
        each for each in readings.slo_spec(tick).host_applications if each.name in hosts
    ]
    return decision.UsageColumns(
        one_node.float_row(node),
        one_node.node_rows(len(listed)),
        measured.last[listed],
        best_effort,
        one_node.node_rows(len(applications)),
        np.array([hosts[each.name] for each in applications], np.float64),
        np.array([_is_be_host(each) for each in applications], np.bool_),
    )


def bounds(tick: Tick, config: ResourceThresholdStrategy) -> decision.SuppressBounds:
    """What this node has and how much of it may be used.

    Raises:
        KoordError: no Node, no CPU in its capacity, or no threshold.
    """
    node = readings.node(tick)
    capacity = pod_resources.amount(node.status.capacity, CPU) or 0
    if capacity <= 0:
        raise KoordError(node.title, "status.capacity.cpu", capacity, "more than 0")
    threshold, least = config.cpu_suppress_threshold_percent, config.cpu_suppress_min_percent
    if threshold is None:
        field = "resourceUsedThresholdWithBE.cpuSuppressThresholdPercent"
        raise KoordError("NodeSLO", field, None, "a percentage")
    return decision.SuppressBounds(
        one_node.row(capacity),
        one_node.row(reserved_milli(node)),
        one_node.row(threshold),
        one_node.row(decision.UNSET if least is None else least),
    )


def reserved_milli(node: Node) -> int:
    """CPU held back: by the kubelet, or by the annotation if that is more."""
    capacity = pod_resources.amount(node.status.capacity, CPU) or 0
    allocatable = pod_resources.amount(node.status.allocatable, CPU)
    kubelet = max(0, capacity - (capacity if allocatable is None else allocatable))
    try:
        annotated = reserved_resources(node_reservation(node), node.title)
    except KoordError:
        annotated = {}
    return max(kubelet, pod_resources.amount(annotated, CPU) or 0)


def is_best_effort(pod: PodState) -> bool:
    """Whether a pod does not count as a service."""
    return pod.qos is QoSClass.BE or pod.kube_qos is KubeQos.BEST_EFFORT


def _is_be_host(application: HostApplication) -> bool:
    base = application.cgroup_path.base if application.cgroup_path else ""
    return application.qos == QoSClass.BE and base == "KubepodsBesteffort"
