# SPDX-License-Identifier: Apache-2.0
"""Which devices of one node a pod gets: type by type, or jointly, with virtual functions.

Rules: docs/reference/devices.md#default-order-of-cards and
docs/reference/devices.md#joint-allocation. A function of a node's state that changes nothing; the
kernel :mod:`koord.kernels.devices_assign` picks the cards of one type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare import reasons
from koord.controllers.scheduler.plugins.deviceshare.allocation.joint import JointAllocation
from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import FREE_POOL
from koord.controllers.scheduler.plugins.deviceshare.names import (
    GPU,
    MEMORY,
    NAME,
    RESOURCES,
    TYPES,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    CardAllocation,
    FunctionAllocation,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import completed
from koord.kernels.devices import minors
from koord.kernels.devices_assign import UNSCORED, Offer, Refusal, Scoring, assign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import DevicePool
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
    from koord.controllers.scheduler.plugins.deviceshare.state.cache import DeviceCache
    from koord.kernels.devices_assign import Demand

_MOST_CARDS = 64


class DeviceAllocator:
    """Allocates on one row.

    Args:
        cache: the state of all nodes.
        row: of a node whose Device is known.
        request: of the pod.
        pool: from which devices.
        scoring: by device type, how cards are ordered; none in Filter, so the lowest minor wins.
    """

    def __init__(
        self,
        cache: DeviceCache,
        row: int,
        request: DeviceRequest,
        pool: DevicePool = FREE_POOL,
        scoring: Mapping[str, Scoring] | None = None,
    ) -> None:
        inventory = cache.nodes[row].inventory
        assert inventory is not None  # asked only for nodes with a Device
        self.cache, self.row, self.request, self.pool = cache, row, request, pool
        self.inventory: DeviceInventory = inventory
        self.scoring = scoring or {}
        self._taken: dict[str, set[str]] = {}

    def allocate(self) -> CardAllocations | Rejection:
        """What the pod gets, or the first reason why not."""
        wanted = self.demands()
        if isinstance(wanted, Rejection):
            return wanted
        chosen: dict[str, int] | Rejection = {}
        if self.request.joint:
            chosen = JointAllocation(
                self.request, self.inventory, wanted, self._choose, self._fitting
            ).allocate()
        for kind, demand in wanted.items():
            if isinstance(chosen, Rejection):
                return chosen
            if kind not in chosen:
                word = self._choose(kind, demand)
                chosen = word if isinstance(word, Rejection) else {**chosen, kind: word}
        return chosen if isinstance(chosen, Rejection) else self._allocations(wanted, chosen)

    def demands(self) -> dict[str, Demand] | Rejection:
        """What the pod wants of this node, by type."""
        wanted: dict[str, Demand] = {}
        for kind in self.request.requests:
            if self._is_left_for_later(kind):
                continue
            cards = self.inventory.cards.get(kind)
            if not cards:
                return Rejection(NAME, (reasons.insufficient(kind),), unresolvable=True)
            count = 0
            if self.request.wants_all(kind):
                selector = self.request.hint(kind).selector
                matched = sum(
                    selector is None or selectors.matches(selector, listed.labels)
                    for listed in cards.values()
                )
                if not matched:
                    return Rejection(NAME, (reasons.insufficient(kind),), unresolvable=True)
                count = matched
            wanted[kind] = self.request.demand(kind, count)
        for kind in wanted:
            if self.request.wants_vf(kind) and not self.inventory.has_vfs(kind):
                return Rejection(NAME, (reasons.insufficient_vfs(kind),), unresolvable=True)
        return wanted

    def offer(self, kind: str, pcies: Sequence[int] = (), *, by_function: bool = True) -> Offer:
        """What of a type may be given out of the pool.

        Args:
            kind: of the devices.
            pcies: PCIe roots to be taken in turn.
            by_function: only cards with a virtual function left, where the pod wants those.
        """
        pool = self.pool
        caps = [(minor, amounts) for (of, minor), amounts in pool.caps.items() if of == kind]
        returned = pool.returned.items()
        return Offer(
            pool.numa_nodes, self._allowed(kind, by_function), pool.preferred.get(kind, 0), pcies,
            [(minor, amounts) for (of, minor), amounts in returned if of == kind],
            caps or None,
        )  # fmt: skip

    def _is_left_for_later(self, kind: str) -> bool:
        if self.pool.reserving or not self.request.secondary(kind):
            return False
        return self.inventory.well_planned

    def _fitting(self, kind: str) -> int:
        """All cards of a type that could serve the pod if it wanted one, as a word."""
        offer = replace(self.offer(kind), preferred=0, preferred_pcies=range(_MOST_CARDS))
        # There are no more roots than cards: one of as many roots as there may be is all that fit.
        return assign(self.cache.tables[kind], self.row, self.request.single(kind), offer)[1]

    def _choose(
        self, kind: str, demand: Demand, pcies: Sequence[int] = (), only: int | None = None
    ) -> int | Rejection:
        hint = self.request.hint(kind)
        picks = hint.selector is not None or hint.vf_selector is not None
        offer: Offer | None = None
        if picks or pcies or only is not None or not self.pool.is_open:
            # Only the order in which cards are taken knows PCIe roots; GPUs go by their topology.
            offer = self.offer(kind, () if kind == GPU else pcies)
            if only is not None:
                offer.allowed = only if offer.allowed is None else offer.allowed & only
        scoring = self.scoring.get(kind, UNSCORED)
        refusal, word = assign(self.cache.tables[kind], self.row, demand, offer, scoring)
        if refusal is not Refusal.NONE:
            return reasons.rejection_of(refusal, kind)
        return word

    def _allowed(self, kind: str, by_function: bool) -> int | None:
        """The cards that selectors, reservations and virtual functions leave over."""
        word = self.pool.required.get(kind)
        selector = self.request.hint(kind).selector
        if selector is not None:
            matched = self.inventory.selected(kind, selector)
            word = matched if word is None else word & matched
        if by_function and self.request.wants_vf(kind):
            with_vf = 0
            for minor in self.inventory.cards.get(kind, {}):
                with_vf |= bool(self._function(kind, minor)) << minor
            word = with_vf if word is None else word & with_vf
        return word

    def _function(self, kind: str, minor: int) -> FunctionAllocation | None:
        """The virtual function of a card that a pod would get: the least bus."""
        if kind not in self._taken:
            returned = self.pool.functions_of
            self._taken[kind] = self.cache.taken_functions(self.row, kind, returned)
        taken = self._taken[kind]
        selector = self.request.hint(kind).vf_selector
        only = self.pool.designated.get((kind, minor))
        free = [
            FunctionAllocation(vf.minor, vf.bus_id)
            for group in self.inventory.cards[kind][minor].vf_groups
            if selectors.matches(selector, group.labels)
            for vf in group.vfs
            if vf.bus_id not in taken and (only is None or vf.bus_id in only)
        ]
        return min(free, key=lambda function: (function.bus_id, function.minor), default=None)

    def _allocations(self, wanted: dict[str, Demand], chosen: dict[str, int]) -> CardAllocations:
        allocated: list[CardAllocation] = []
        for kind in TYPES:
            if kind not in chosen:
                continue
            for minor in minors(chosen[kind]):
                amounts = wanted[kind].each
                if kind == GPU:
                    amounts = completed(amounts, self._card_bytes(minor))
                function = self._function(kind, minor) if self.request.wants_vf(kind) else None
                functions = () if function is None else (function,)
                allocated.append(CardAllocation(kind, minor, tuple(amounts), functions))
        return tuple(allocated)

    def _card_bytes(self, minor: int) -> int:
        return self.inventory.cards[GPU][minor].card.total.get(RESOURCES[GPU][MEMORY], 0)
