# SPDX-License-Identifier: Apache-2.0
"""Cards of several types that lie close to each other.

Rule: docs/reference/devices.md#joint-allocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare import reasons
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.kernels.devices_assign import Demand


class CardChoice(Protocol):
    """Chooses cards of one type."""

    def __call__(
        self, kind: str, demand: Demand, pcies: Sequence[int] = (), only: int | None = None
    ) -> int | Rejection:
        """Cards as a word, or why there are not enough.

        Args:
            kind: of the devices.
            demand: how many, with how much of each.
            pcies: PCIe roots to be taken in turn.
            only: the cards that may be chosen, as a word; None for all.
        """
        ...


class JointAllocation:
    """Allocates the joint types of a request on one node.

    Args:
        request: of the pod.
        inventory: the node's cards.
        demands: what the pod wants of the node, by type.
        choose: chooses cards of one type.
        fitting: all cards of a type that could serve the pod if it wanted one, as a word.
    """

    def __init__(
        self,
        request: DeviceRequest,
        inventory: DeviceInventory,
        demands: Mapping[str, Demand],
        choose: CardChoice,
        fitting: Callable[[str], int],
    ) -> None:
        self._request = request
        self._inventory = inventory
        self._demands = demands
        self._choose = choose
        self._fitting = fitting

    def allocate(self) -> dict[str, int] | Rejection:
        """Cards by type, as words; empty where nothing is to be allocated jointly."""
        request, demands = self._request, self._demands
        joint = [kind for kind in request.joint if kind in demands]
        if not joint or joint[0] != request.joint[0] or len(demands) < 2:
            return {}
        chosen = self._close_to_primary(joint)
        if isinstance(chosen, Rejection) and request.shares_exclusive_roots:
            return self._on_common_roots(joint) or chosen
        return chosen

    def _on_common_roots(self, joint: list[str]) -> dict[str, int] | None:
        """Cards on PCIe roots of which each joint type has some left; None if there are none.

        While the roots that the primary type would take do not hold enough of the others, the root
        that holds the least of what is wanted is passed over.
        """
        left = {kind: self._fitting(kind) for kind in joint}
        roots = set.intersection(*(set(self._inventory.pcies(k, left[k])) for k in joint))

        def share(root: int) -> tuple[float, int]:
            shares = (
                (left[kind] & self._inventory.on_pcies(kind, (root,))).bit_count()
                / self._demands[kind].count
                for kind in joint
            )
            return min(shares), -root

        for root in sorted(roots, key=share):
            chosen = self._close_to_primary(joint, roots)
            if not isinstance(chosen, Rejection):
                return chosen
            roots.discard(root)
        return None

    def _close_to_primary(
        self, joint: list[str], roots: Collection[int] | None = None
    ) -> dict[str, int] | Rejection:
        """The primary type's cards and, near them, those of the others.

        Args:
            joint: the types, the primary first.
            roots: PCIe roots that cards may come from, of the other types those among them that
                the primary took; None for any.
        """
        request, inventory = self._request, self._inventory
        primary, *secondaries = joint
        word = self._choose(primary, self._demands[primary], only=self._on(primary, roots))
        if isinstance(word, Rejection):
            return word
        chosen = {primary: word}
        pcies = inventory.pcies(primary, word)
        for kind in secondaries:
            demand = self._demands[kind]
            # Never more GPUs than requested; of others one a root.
            if request.same_pcie and kind != GPU and demand.count < len(pcies):
                demand = request.demand(kind, len(pcies))
            only = self._on(kind, None if roots is None else pcies)
            word = self._choose(kind, demand, pcies, only)
            if isinstance(word, Rejection):
                return word
            chosen[kind] = word
        if request.same_pcie:
            for kind in secondaries:
                if inventory.pcies(kind, chosen[kind]) != pcies:
                    return Rejection(NAME, (reasons.JOINT_VIOLATED,))
        return chosen

    def _on(self, kind: str, roots: Collection[int] | None) -> int | None:
        return None if roots is None else self._inventory.on_pcies(kind, roots)
