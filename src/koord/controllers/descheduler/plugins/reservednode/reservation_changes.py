# SPDX-License-Identifier: Apache-2.0
"""Since when the reservation of each node says what it says, and whether it was told.

Rule: docs/reference/descheduling-plugins.md#evictpodsonreservedresources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass
class SeenReservation:
    """The reservation of one node as it was last seen.

    Attributes:
        text: the annotation.
        since: monotonic seconds at which it was first seen.
        is_announced: whether the pods that have to go were told of.
    """

    text: str
    since: float
    is_announced: bool = False


class ReservationChanges:
    """The reservations of all nodes; what a process saw first counts as changed then.

    Args:
        grace_seconds: how long after a change nothing is evicted.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._by_node: dict[str, SeenReservation] = {}

    def __len__(self) -> int:
        return len(self._by_node)

    def see(self, node_name: str, text: str, now: float) -> SeenReservation:
        """Notes what a node's annotation says now."""
        seen = self._by_node.get(node_name)
        if seen is None or seen.text != text:
            seen = self._by_node[node_name] = SeenReservation(text, now)
        return seen

    def is_due(self, seen: SeenReservation, now: float) -> bool:
        """Whether pods have been told of for long enough."""
        return seen.is_announced and now - seen.since >= self._grace_seconds

    def keep(self, node_names: Collection[str]) -> None:
        """Forgets all other nodes."""
        for name in self._by_node.keys() - set(node_names):
            del self._by_node[name]
