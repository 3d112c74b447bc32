# SPDX-License-Identifier: Apache-2.0
"""Whether a node can give a pod the CPU that it lacks, counting the pods that go there this round.

Rule: docs/reference/descheduling-plugins.md#starvedpods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.api import requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.controllers.descheduler.plugins.starvedpods.satisfaction import BestEffortPod
    from koord.controllers.descheduler.predicates.node_fit import NodeFit


@dataclass
class NodeOffer:
    """What one node can take.

    Attributes:
        limit_milli: CPU in use that it stays below.
        used_milli: CPU in use, of pods that go there too.
        taken: requests of the pods that go there.
    """

    node: Node
    limit_milli: float
    used_milli: int
    taken: dict[str, int] = field(default_factory=dict)


class Offers:
    """What the nodes of a round can take.

    Args:
        offers: in the order in which pods try them.
        node_fit: whether pods fit.
    """

    def __init__(self, offers: Sequence[NodeOffer], node_fit: NodeFit) -> None:
        self._offers = offers
        self._fit = node_fit

    def find(self, candidate: BestEffortPod) -> NodeOffer | None:
        """The first node that takes a pod and stays below its limit with what the pod would use."""
        return next((offer for offer in self._offers if self._takes(offer, candidate)), None)

    def take(self, offer: NodeOffer, candidate: BestEffortPod) -> None:
        """Counts a pod as gone there."""
        offer.used_milli += candidate.wanted_milli
        for name, amount in requests.requested(candidate.pod).items():
            offer.taken[name] = offer.taken.get(name, 0) + amount

    def _takes(self, offer: NodeOffer, candidate: BestEffortPod) -> bool:
        if offer.node.metadata.name == candidate.pod.spec.node_name:
            return False
        if offer.used_milli + candidate.wanted_milli >= offer.limit_milli:
            return False
        if not self._fit.fits(candidate.pod, offer.node):
            return False
        free = self._fit.free(offer.node)
        return all(
            amount + offer.taken.get(name, 0) <= free.get(name, 0)
            for name, amount in requests.requested(candidate.pod).items()
        )
