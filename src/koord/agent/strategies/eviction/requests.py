# SPDX-License-Identifier: Apache-2.0
"""Evictions for requests above what is allocatable, of CPU and of memory alike.

Rule: docs/reference/evictions.md#cpu-requests-above-allocatable and
docs/reference/evictions.md#memory-requests-above-allocatable.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies import amounts
from koord.agent.strategies.eviction import release, victims
from koord.agent.strategies.eviction.engine import Wish
from koord.agent.strategies.eviction.tasks import REQUESTED
from koord.api.protocol.resources import MEMORY, class_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.agent.states.pods import PodState
    from koord.agent.strategies.eviction.settings import Range
    from koord.api.kinds.node import Node


def wish(
    feature: str,
    native: str,
    node: Node,
    pods: Sequence[PodState],
    limits: Range,
    priority: int,
    measured: Mapping[str, float],
) -> Wish:
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
        name, asked = amounts.own_request(pod, native)
        return {name: asked} if asked > 0 else {}

    chosen = victims.up_to_priority(pods, feature, priority, measured)
    # A pod that releases nothing of what is due would be evicted for nothing.
    chosen = [pod for pod in chosen if released(pod).keys() & due.keys()]
    weight = [amounts.own_request(pod, native)[1] for pod in chosen]
    return Wish(REQUESTED, due, victims.in_priority_order(chosen, weight), released)


def _due(
    native: str, node: Node, pods: Sequence[PodState], limits: Range, priority: int
) -> dict[str, int]:
    requested: Counter[str] = Counter()
    for pod in pods:
        if pod.priority <= priority and not pod.terminated:
            name, asked = amounts.own_request(pod, native)
            requested[name] += asked
    names = sorted(name for name in requested if name)
    offered = [amounts.amount(node.status.allocatable, name) or 0 for name in names]
    column = np.full(len(names), 1, np.int64)
    due = release.by_requests(
        np.array([requested[name] for name in names], np.int64),
        np.array(offered, np.int64),
        column * limits.threshold_percent,
        column * limits.lower_percent,
        as_ratio=native == MEMORY,
    )
    return {name: value for name, value in zip(names, due.tolist(), strict=True) if value > 0}
