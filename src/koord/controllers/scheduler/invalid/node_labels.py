# SPDX-License-Identifier: Apache-2.0
"""Nodes with labels or annotations for the scheduler that count as absent."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from koord.api.kinds.node import Node
from koord.api.protocol import keys, node_reservation, nodes
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.invalid.invalid_objects import InvalidObjects

_ANNOTATIONS = (keys.USAGE_THRESHOLDS, keys.RESOURCE_AMPLIFICATION_RATIO, keys.NODE_RESERVATION)
_READERS: tuple[Callable[[Node], object], ...] = (
    nodes.usage_thresholds, nodes.amplification_ratios,
    lambda node: node_reservation.reserved_resources(
        node_reservation.node_reservation(node), node.title
    ),
)  # fmt: skip
WORDS = {
    keys.CPU_BIND_POLICY: (nodes.NONE, nodes.FULL_PCPUS_ONLY, nodes.SPREAD_BY_PCPUS),
    keys.NUMA_ALLOCATE_STRATEGY: (nodes.MOST_ALLOCATED, nodes.LEAST_ALLOCATED,
                                  nodes.DISTRIBUTE_EVENLY),
    keys.NUMA_TOPOLOGY_POLICY: ("BestEffort", "Restricted", "SingleNUMANode"),
    keys.GPU_PARTITION_POLICY: (nodes.HONOR, nodes.PREFER),
}  # fmt: skip
"""Labels whose words count as absent where they are none of these."""


def problem(node: Node) -> KoordError | None:
    """What is wrong first with what a node says to the scheduler; None if nothing is.

    Of ratios also what is followed and nobody can have meant.
    """
    labels = node.metadata.labels
    for key, words in WORDS.items():
        if labels.get(key) and labels[key] not in words:
            return KoordError(node.title, f"labels[{key}]", labels[key], " or ".join(words))
    for reader in _READERS:
        try:
            reader(node)
        except KoordError as error:
            return error
    return next(chain(nodes.unfollowed_ratios(node), nodes.implausible_ratios(node)), None)


class NodeLabelValidator:
    """Judges nodes that say something, when they come and when they say something else.

    Args:
        handle: the view of nodes.
        invalid: is told what is found.
    """

    def __init__(self, handle: Handle, invalid: InvalidObjects) -> None:
        self._invalid = invalid
        handle.view(Node).on_change(
            self._seen, self._changed, lambda node, _: invalid.gone(Node, node)
        )

    def _seen(self, node: Node) -> None:
        if any(_says(node)):
            self._invalid.judge(Node, node, problem(node))

    def _changed(self, old: Node, node: Node) -> None:
        # Most changes are of a node's status.
        if _says(old) != _says(node) or old.metadata.uid != node.metadata.uid:
            self._invalid.judge(Node, node, problem(node))


def _says(node: Node) -> tuple[str, ...]:
    meta = node.metadata
    annotations = (meta.annotations.get(key, "") for key in _ANNOTATIONS)
    return (*annotations, *(meta.labels.get(key, "") for key in WORDS))
