# SPDX-License-Identifier: Apache-2.0
"""Which devices of one node a pod gets: type by type, or jointly, with virtual functions.

Spec sections 5.4 to 5.6. A function of a node's state that changes nothing; the kernel
:mod:`koord.kernels.devices_assign` picks the cards of one type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.controllers.scheduler.plugins.deviceshare import names
from koord.controllers.scheduler.plugins.deviceshare.holding import Function, Held
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, MEMORY, RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.quantities import completed
from koord.kernels.devices import minors
from koord.kernels.devices_assign import UNSCORED, Offer, Refusal, Scoring, assign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.ask import Ask
    from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache, Remained
    from koord.controllers.scheduler.plugins.deviceshare.holding import Holdings
    from koord.controllers.scheduler.plugins.deviceshare.inventory import Inventory
    from koord.kernels.devices_assign import Demand


class Refused(NamedTuple):
    """Why a node cannot serve a pod.

    Attributes:
        reason: as users know it.
        unresolvable: removing pods would not help.
    """

    reason: str
    unresolvable: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What of a node an allocation may use, beside what is free for everybody.

    Attributes:
        numa_nodes: a bit for each NUMA node that devices may come from; None for all.
        returned: held by reservations, but the pod may have it.
        preferred: by type, cards taken before all others.
        required: by type, the only cards that may be taken.
        caps: the most of each card; a type of which none is named is not capped.
        functions_of: reservations whose virtual functions the pod may have.
        designated: by type and minor, the only virtual functions that may be taken.
        reserving: the allocation is to be held: nothing is left for later.
    """

    numa_nodes: int | None = None
    returned: Remained = field(default_factory=dict)
    preferred: Mapping[str, int] = field(default_factory=dict)
    required: Mapping[str, int] = field(default_factory=dict)
    caps: Remained = field(default_factory=dict)
    functions_of: Sequence[str] = ()
    designated: Mapping[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    reserving: bool = False


PLAIN = Terms()


class Allocator:
    """Allocates on one row.

    Args:
        cache: the state of all nodes.
        row: of a node whose Device is known.
        ask: what the pod wants.
        terms: see :class:`Terms`.
        scoring: by device type, how cards are ordered; none in Filter, so the lowest minor wins.
    """

    def __init__(
        self,
        cache: DeviceCache,
        row: int,
        ask: Ask,
        terms: Terms = PLAIN,
        scoring: Mapping[str, Scoring] | None = None,
    ) -> None:
        inventory = cache.nodes[row].inventory
        assert inventory is not None  # asked only for nodes with a Device
        self.cache, self.row, self.ask, self.terms = cache, row, ask, terms
        self.inventory: Inventory = inventory
        self.scoring = scoring or {}
        self._taken: dict[str, set[str]] = {}

    def allocate(self) -> Holdings | Refused:
        """What the pod gets, or the first reason why not."""
        wanted = self.demands()
        if isinstance(wanted, Refused):
            return wanted
        chosen: dict[str, int] = {}
        refused = self._jointly(wanted, chosen)
        for kind, demand in wanted.items():
            if refused is not None:
                return refused
            if kind not in chosen:
                refused = self._choose(kind, demand, (), chosen)
        return refused if refused is not None else self._held(wanted, chosen)

    def demands(self) -> dict[str, Demand] | Refused:
        """What the pod wants of this node, by type."""
        wanted: dict[str, Demand] = {}
        for kind in self.ask.requests:
            if self._is_left_for_later(kind):
                continue
            cards = self.inventory.cards.get(kind)
            if not cards:
                return Refused(names.insufficient(kind), unresolvable=True)
            count = 0
            if self.ask.for_all(kind):
                selector = self.ask.hint(kind).selector
                matched = sum(
                    selector is None or selectors.matches(selector, listed.labels)
                    for listed in cards.values()
                )
                if not matched:
                    return Refused(names.insufficient(kind), unresolvable=True)
                count = matched
            wanted[kind] = self.ask.demand(kind, count)
        for kind in wanted:
            if self.ask.wants_vf(kind) and not self.inventory.has_vfs(kind):
                return Refused(names.insufficient_vfs(kind), unresolvable=True)
        return wanted

    def offer(self, kind: str, pcies: Sequence[int] = ()) -> Offer:
        """What of a type may be given under the terms."""
        terms = self.terms
        caps = [(minor, amounts) for (of, minor), amounts in terms.caps.items() if of == kind]
        returned = terms.returned.items()
        return Offer(
            terms.numa_nodes, self._allowed(kind), terms.preferred.get(kind, 0), pcies,
            [(minor, amounts) for (of, minor), amounts in returned if of == kind],
            caps or None,
        )  # fmt: skip

    def _is_left_for_later(self, kind: str) -> bool:
        if self.terms.reserving or not self.ask.secondary(kind):
            return False
        return self.inventory.well_planned

    def _jointly(self, wanted: dict[str, Demand], chosen: dict[str, int]) -> Refused | None:
        joint = [kind for kind in self.ask.joint if kind in wanted]
        if not joint or joint[0] != self.ask.joint[0] or len(wanted) < 2:
            return None
        primary, *secondaries = joint
        refused = self._choose(primary, wanted[primary], (), chosen)
        if refused is not None:
            return refused
        pcies = self.inventory.pcies(primary, chosen[primary])
        for kind in secondaries:
            demand = wanted[kind]
            # Never more GPUs than asked for; of others one a root.
            if self.ask.same_pcie and kind != GPU and demand.count < len(pcies):
                demand = self.ask.demand(kind, len(pcies))
            refused = self._choose(kind, demand, pcies, chosen)
            if refused is not None:
                return refused
        if self.ask.same_pcie:
            for kind in secondaries:
                if self.inventory.pcies(kind, chosen[kind]) != pcies:
                    return Refused(names.JOINT_VIOLATED)
        return None

    def _choose(
        self, kind: str, demand: Demand, pcies: Sequence[int], chosen: dict[str, int]
    ) -> Refused | None:
        # Only the order in which cards are taken knows PCIe roots; GPUs go by their topology.
        offer = self.offer(kind, () if kind == GPU else pcies)
        scoring = self.scoring.get(kind, UNSCORED)
        refusal, word = assign(self.cache.tables[kind], self.row, demand, offer, scoring)
        if refusal is not Refusal.NONE:
            return Refused(*names.refusal_text(refusal, kind))
        chosen[kind] = word
        return None

    def _allowed(self, kind: str) -> int | None:
        """The cards that selectors, reservations and virtual functions leave over."""
        word = self.terms.required.get(kind)
        selector = self.ask.hint(kind).selector
        if selector is not None:
            matched = self.inventory.selected(kind, selector)
            word = matched if word is None else word & matched
        if self.ask.wants_vf(kind):
            with_vf = 0
            for minor in self.inventory.cards.get(kind, {}):
                with_vf |= bool(self._function(kind, minor)) << minor
            word = with_vf if word is None else word & with_vf
        return word

    def _function(self, kind: str, minor: int) -> Function | None:
        """The virtual function of a card that a pod would get: the least bus."""
        if kind not in self._taken:
            returned = self.terms.functions_of
            self._taken[kind] = self.cache.taken_functions(self.row, kind, returned)
        taken = self._taken[kind]
        selector = self.ask.hint(kind).vf_selector
        only = self.terms.designated.get((kind, minor))
        free = [
            Function(vf.minor, vf.bus_id)
            for group in self.inventory.cards[kind][minor].vf_groups
            if selectors.matches(selector, group.labels)
            for vf in group.vfs
            if vf.bus_id not in taken and (only is None or vf.bus_id in only)
        ]
        return min(free, key=lambda function: (function.bus_id, function.minor), default=None)

    def _held(self, wanted: dict[str, Demand], chosen: dict[str, int]) -> Holdings:
        found: list[Held] = []
        for kind in TYPES:
            if kind not in chosen:
                continue
            for minor in minors(chosen[kind]):
                each = wanted[kind].each
                if kind == GPU:
                    each = completed(each, self._card_bytes(minor))
                function = self._function(kind, minor) if self.ask.wants_vf(kind) else None
                functions = () if function is None else (function,)
                found.append(Held(kind, minor, tuple(each), functions))
        return tuple(found)

    def _card_bytes(self, minor: int) -> int:
        return self.inventory.cards[GPU][minor].card.total.get(RESOURCES[GPU][MEMORY], 0)
