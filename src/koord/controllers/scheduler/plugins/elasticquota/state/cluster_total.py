# SPDX-License-Identifier: Apache-2.0
"""What the cluster has: what all nodes offer.

Rule: docs/reference/quota.md#total. Readiness, taints and cordons do not count: what a group may
use should not swing with them. What is reserved on a node has been taken off, and old names are
gone (:mod:`koord.controllers.cluster.transforms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.requests import amount
from koord.controllers.cluster.quota_objects import MOST, AmountSums
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from koord.api.kinds.node import Node


class ClusterTotal:
    """The sum over all nodes, kept by differences."""

    def __init__(self) -> None:
        self._offers: dict[str, dict[str, int]] = {}
        self._sums = AmountSums()

    def put(self, node: Node) -> bool:
        """Takes over a node's state; True if the sum may be another now.

        A node that is being deleted keeps the state it had before.
        """
        name = node.metadata.name
        if node.metadata.deletion_timestamp is not None:
            return False
        offer, before = offered(node), self._offers.get(name, {})
        if offer == before:
            return False
        self._sums.add(before, -1)
        self._sums.add(offer)
        self._offers[name] = offer
        return True

    def remove(self, name: str) -> bool:
        """Forgets a node; True if it was known."""
        before = self._offers.pop(name, None)
        if before is not None:
            self._sums.add(before, -1)
        return before is not None

    def total(self) -> dict[str, int]:
        """Milli-units of cpu, whole units of the rest; a resource that no node names is absent."""
        return self._sums.total()


def offered(node: Node) -> dict[str, int]:
    """What pods may use of a node; negative amounts are 0.

    Returns:
        Milli-units of cpu, whole units of the rest.
    """
    return {name: _whole(name, each) for name, each in node.status.allocatable.items()}


def _whole(name: str, quantity: Quantity) -> int:
    try:
        whole = amount(name, quantity, Rounding.UP)
    except ValueError:
        return MOST
    return max(whole, 0)
