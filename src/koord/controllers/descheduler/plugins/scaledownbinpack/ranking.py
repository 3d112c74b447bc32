# SPDX-License-Identifier: Apache-2.0
"""In which order pods leave, so that nodes become empty: nodes by what else runs there.

Rule: docs/reference/descheduling-plugins.md#scaledownbinpack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api import requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod


@dataclass
class RankedNode:
    """A node with its pods.

    Attributes:
        eligible: pods that are ranked.
        skipped: pods that would be ranked if a filter let them go.
        others: all else that has not ended.
    """

    node: Node
    eligible: list[Pod] = field(default_factory=list)
    skipped: list[Pod] = field(default_factory=list)
    others: list[Pod] = field(default_factory=list)


def ranked(nodes: Iterable[RankedNode], weights: Mapping[str, float]) -> list[Pod]:
    """Eligible pods, the first to leave first.

    Args:
        nodes: those with eligible pods.
        weights: of resources.
    """
    by_score = sorted(nodes, key=lambda node: _node_key(node, weights))
    return [pod for node in by_score for pod in _ordered(node, weights)]


def node_score(ranked_node: RankedNode, weights: Mapping[str, float]) -> float:
    """What keeps a node from being emptied: requests of others over those of eligible pods.

    0 where nothing else runs there, infinite where eligible pods ask for nothing and others do.
    """
    offered = requests.offered(ranked_node.node)
    eligible = _weighted(ranked_node.eligible, offered, weights)
    rest = _weighted([*ranked_node.others, *ranked_node.skipped], offered, weights)
    if eligible > 0:
        return rest / eligible
    return math.inf if rest > 0 else 0.0


def _node_key(ranked_node: RankedNode, weights: Mapping[str, float]) -> tuple[float, int, str]:
    return (
        node_score(ranked_node, weights),
        len(ranked_node.eligible),
        ranked_node.node.metadata.name,
    )


def _ordered(ranked_node: RankedNode, weights: Mapping[str, float]) -> list[Pod]:
    """The largest first, then the newest, then by namespace and name."""
    offered = requests.offered(ranked_node.node)

    def key(pod: Pod) -> tuple[float, float, str, str]:
        made = pod.metadata.creation_timestamp
        age = -made.timestamp() if made is not None else math.inf
        size = _weighted([pod], offered, weights)
        return -size, age, pod.metadata.namespace, pod.metadata.name

    return sorted(ranked_node.eligible, key=key)


def _weighted(
    pods: Iterable[Pod], offered: Mapping[str, int], weights: Mapping[str, float]
) -> float:
    """What pods ask for in parts of a node, weighted; resources that it lacks are left out."""
    amounts = [requests.requested(pod) for pod in pods]
    total = 0.0
    for name, weight in sorted(weights.items()):
        if offered.get(name, 0) > 0:
            total += weight * (sum(each.get(name, 0) for each in amounts) / offered[name])
    return total
