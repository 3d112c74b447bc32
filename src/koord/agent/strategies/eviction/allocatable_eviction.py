# SPDX-License-Identifier: Apache-2.0
"""Evictions for requests above what is allocatable, of CPU and of memory alike.

Rule: docs/reference/evictions.md#cpu-requests-above-allocatable and
docs/reference/evictions.md#memory-requests-above-allocatable.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.agent.strategies import one_node, pod_resources
from koord.agent.strategies.eviction import release_amounts, victims
from koord.agent.strategies.eviction.eviction_cycle import EvictionRequest
from koord.agent.strategies.eviction.tasks import REQUESTED
from koord.api.protocol.resources import MEMORY, class_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.eviction.thresholds import ThresholdRange
    from koord.api.kinds.node import Node


def allocatable_request(
    feature: str,
    native: str,
    node: Node,
    pods: Sequence[PodState],
    limits: ThresholdRange,
    priority: int,
    measured: Mapping[str, float],
) -> EvictionRequest:
    """What is to go, by the names under which classes ask for a resource.

    Args:
        feature: its gate.
        native: cpu or memory.
        node: what is allocatable.
        pods: of the node.
        limits: in percent of allocatable.
        priority: the highest one that counts and may be evicted.
        measured: usage by pod UID; pods without are no victims.
    """
    due = _due(native, node, pods, limits, priority)
    classes = {class_of(name) for name in due} - {class_of("")}

    def released(pod: PodState) -> Mapping[str, int]:
        if pod.priority_class not in classes:
            return {}
        name, amount = pod_resources.own_request(pod, native)
        return {name: amount} if amount > 0 else {}

    chosen = victims.up_to_priority(pods, feature, priority, measured)
    # A pod that releases nothing of what is due would be evicted for nothing.
    chosen = [pod for pod in chosen if released(pod).keys() & due.keys()]
    weight = [pod_resources.own_request(pod, native)[1] for pod in chosen]
    return EvictionRequest(REQUESTED, due, victims.in_priority_order(chosen, weight), released)


def _due(
    native: str, node: Node, pods: Sequence[PodState], limits: ThresholdRange, priority: int
) -> dict[str, int]:
    requested: Counter[str] = Counter()
    for pod in pods:
        if pod.priority <= priority and not pod.terminated:
            name, amount = pod_resources.own_request(pod, native)
            requested[name] += amount
    names = sorted(name for name in requested if name)
    offered = [pod_resources.amount(node.status.allocatable, name) or 0 for name in names]
    due = release_amounts.by_requests(
        one_node.column([requested[name] for name in names]),
        one_node.column(offered),
        one_node.column([limits.threshold_percent] * len(names)),
        one_node.column([limits.lower_percent] * len(names)),
        as_ratio=native == MEMORY,
    )
    return {name: value for name, value in zip(names, due.tolist(), strict=True) if value > 0}
