# SPDX-License-Identifier: Apache-2.0
"""How much of the CPU that best-effort pods would use they get, by one report of their node.

CPU in milli-cores. Rule: docs/reference/descheduling-plugins.md#starvedpods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import requests
from koord.api.protocol.qos import QoSClass, qos_with_default
from koord.api.protocol.resources import BATCH_CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric
    from koord.api.kinds.nodeslo import NodeSLO
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.slo_strategies import ResourceThresholdStrategy

SUPPRESS_THRESHOLD_PERCENT = 65
"""Of a node's CPU, from which on best-effort pods are suppressed; where the NodeSLO says none."""


@dataclass(frozen=True)
class BestEffortPod:
    """A best-effort pod that its node reports.

    Attributes:
        usage_milli: what it uses.
        request_milli: what it asks for.
        wanted_milli: what it would use, as far as it asks for it.
    """

    pod: Pod
    usage_milli: int
    request_milli: int
    wanted_milli: int


def best_effort_pods(
    pods: Iterable[Pod], metric: NodeMetric, peaks: Mapping[str, int]
) -> list[BestEffortPod]:
    """The best-effort pods of a node that its report has.

    Args:
        pods: of the node.
        metric: its report.
        peaks: by UID what a pod has used while nothing held it down; those that are not there
            would use what they ask for.
    """
    usage = {
        (each.namespace, each.name): requests.amount("cpu", each.pod_usage.resources["cpu"])
        for each in metric.status.pods_metric
        if each.pod_usage is not None and "cpu" in each.pod_usage.resources
    }
    found = []
    for pod in pods:
        used = usage.get((pod.metadata.namespace, pod.metadata.name))
        if used is None or qos_with_default(pod) is not QoSClass.BE:
            continue
        asked = requests.requested(pod)
        request = asked.get(BATCH_CPU) or asked.get(requests.CPU, 0)
        wanted = max(peaks.get(pod.metadata.uid, request), used)
        found.append(BestEffortPod(pod, used, request, min(request, wanted)))
    return found


def satisfaction_percent(pods: Sequence[BestEffortPod]) -> float:
    """Usage over what pods would use, in percent; 100 where they would use nothing."""
    wanted = sum(each.wanted_milli for each in pods)
    used = sum(min(each.usage_milli, each.wanted_milli) for each in pods)
    return 100 * used / wanted if wanted else 100.0


def used_milli(metric: NodeMetric) -> int | None:
    """What the node uses; None where the report does not say."""
    info = metric.status.node_metric
    if info is None or info.node_usage is None or "cpu" not in info.node_usage.resources:
        return None
    return requests.amount("cpu", info.node_usage.resources["cpu"])


def capacity_milli(node: Node) -> int:
    """The CPU of a node, reserved CPU included."""
    amounts = node.status.capacity or node.status.allocatable
    return requests.amount("cpu", amounts["cpu"]) if "cpu" in amounts else 0


def suppress_percent(slo: NodeSLO | None) -> int | None:
    """From which share of a node's CPU on its agent suppresses; None where it never does."""
    strategy = _strategy(slo)
    if strategy is None:
        return None
    percent = strategy.cpu_suppress_threshold_percent
    return SUPPRESS_THRESHOLD_PERCENT if percent is None else percent


def agent_evicts_sooner(
    slo: NodeSLO | None, pods: Sequence[BestEffortPod], window_seconds: float
) -> bool:
    """Whether the agent may evict best-effort pods for want of CPU before the window is over.

    A report has no limit of the best-effort tier, which is between its usage and its requests:
    where usage is at or below the agent's lower bound, the limit may be, and that counts.
    """
    strategy = _strategy(slo)
    if strategy is None:
        return False
    lower = strategy.cpu_evict_be_satisfaction_lower_percent
    upper = strategy.cpu_evict_be_satisfaction_upper_percent
    seconds = strategy.cpu_evict_time_window_seconds
    if lower is None or upper is None or not 1 <= lower <= 60 or not lower <= upper < 100:
        return False
    if seconds is not None and seconds >= window_seconds:
        return False
    asked = sum(each.request_milli for each in pods)
    return 100 * sum(each.usage_milli for each in pods) <= lower * asked


def _strategy(slo: NodeSLO | None) -> ResourceThresholdStrategy | None:
    strategy = slo.spec.resource_used_threshold_with_be if slo is not None else None
    return strategy if strategy is not None and strategy.enable else None
