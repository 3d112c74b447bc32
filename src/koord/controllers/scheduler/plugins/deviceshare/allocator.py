# SPDX-License-Identifier: Apache-2.0
"""Which devices of one node a pod gets: type by type, or jointly, with virtual functions.

Rules: docs/reference/devices.md#default-order-of-cards and
docs/reference/devices.md#joint-allocation. A function of a node's state that changes nothing; the
kernel :mod:`koord.kernels.devices_assign` picks the cards of one type.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.controllers.scheduler.plugins.deviceshare import names
from koord.controllers.scheduler.plugins.deviceshare.holding import Function, Held
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, MEMORY, RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.quantities import completed
from koord.kernels.devices import minors
from koord.kernels.devices_assign import UNSCORED, Offer, Refusal, Scoring, assign

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.ask import Ask
    from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache, Remained
    from koord.controllers.scheduler.plugins.deviceshare.holding import Holdings
    from koord.controllers.scheduler.plugins.deviceshare.inventory import Inventory
    from koord.kernels.devices_assign import Demand

_MOST_CARDS = 64


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
        chosen = self._jointly(wanted)
        for kind, demand in wanted.items():
            if isinstance(chosen, Refused):
                return chosen
            if kind not in chosen:
                word = self._choose(kind, demand)
                chosen = word if isinstance(word, Refused) else {**chosen, kind: word}
        return chosen if isinstance(chosen, Refused) else self._held(wanted, chosen)

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

    def offer(self, kind: str, pcies: Sequence[int] = (), *, by_function: bool = True) -> Offer:
        """What of a type may be given under the terms.

        Args:
            kind: of the devices.
            pcies: PCIe roots to be taken in turn.
            by_function: only cards with a virtual function left, where the pod wants those.
        """
        terms = self.terms
        caps = [(minor, amounts) for (of, minor), amounts in terms.caps.items() if of == kind]
        returned = terms.returned.items()
        return Offer(
            terms.numa_nodes, self._allowed(kind, by_function), terms.preferred.get(kind, 0), pcies,
            [(minor, amounts) for (of, minor), amounts in returned if of == kind],
            caps or None,
        )  # fmt: skip

    def _is_left_for_later(self, kind: str) -> bool:
        if self.terms.reserving or not self.ask.secondary(kind):
            return False
        return self.inventory.well_planned

    def _jointly(self, wanted: dict[str, Demand]) -> dict[str, int] | Refused:
        """Cards of the types that are to lie close to each other, by type."""
        joint = [kind for kind in self.ask.joint if kind in wanted]
        if not joint or joint[0] != self.ask.joint[0] or len(wanted) < 2:
            return {}
        found = self._together(joint, wanted)
        if isinstance(found, Refused) and self.ask.shares_exclusive_roots:
            return self._planned(joint, wanted) or found
        return found

    def _planned(self, joint: list[str], wanted: dict[str, Demand]) -> dict[str, int] | None:
        """Cards on PCIe roots of which each joint type has some left; None if there are none.

        While the roots that the primary type would take do not hold enough of the others, the root
        that holds the least of what is wanted is passed over.
        """
        left = {kind: self._fitting(kind) for kind in joint}
        roots = set.intersection(*(set(self.inventory.pcies(k, left[k])) for k in joint))

        def share(root: int) -> tuple[float, int]:
            found = (
                (left[kind] & self.inventory.on_pcies(kind, (root,))).bit_count()
                / wanted[kind].count
                for kind in joint
            )
            return min(found), -root

        for root in sorted(roots, key=share):
            found = self._together(joint, wanted, roots)
            if not isinstance(found, Refused):
                return found
            roots.discard(root)
        return None

    def _fitting(self, kind: str) -> int:
        """All cards of a type that could serve the pod if it wanted one, as a word."""
        offer = replace(self.offer(kind), preferred=0, preferred_pcies=range(_MOST_CARDS))
        # There are no more roots than cards: one of as many roots as there may be is all that fit.
        return assign(self.cache.tables[kind], self.row, self.ask.single(kind), offer)[1]

    def _together(
        self, joint: list[str], wanted: dict[str, Demand], roots: Collection[int] | None = None
    ) -> dict[str, int] | Refused:
        """The primary type's cards and, near them, those of the others.

        Args:
            joint: the types, the primary first.
            wanted: of each type.
            roots: PCIe roots that cards may come from, of the other types those among them that
                the primary took; None for any.
        """
        primary, *secondaries = joint
        word = self._choose(primary, wanted[primary], only=self._on(primary, roots))
        if isinstance(word, Refused):
            return word
        chosen = {primary: word}
        pcies = self.inventory.pcies(primary, word)
        for kind in secondaries:
            demand = wanted[kind]
            # Never more GPUs than asked for; of others one a root.
            if self.ask.same_pcie and kind != GPU and demand.count < len(pcies):
                demand = self.ask.demand(kind, len(pcies))
            only = self._on(kind, None if roots is None else pcies)
            word = self._choose(kind, demand, pcies, only)
            if isinstance(word, Refused):
                return word
            chosen[kind] = word
        if self.ask.same_pcie:
            for kind in secondaries:
                if self.inventory.pcies(kind, chosen[kind]) != pcies:
                    return Refused(names.JOINT_VIOLATED)
        return chosen

    def _on(self, kind: str, roots: Collection[int] | None) -> int | None:
        return None if roots is None else self.inventory.on_pcies(kind, roots)

    def _choose(
        self, kind: str, demand: Demand, pcies: Sequence[int] = (), only: int | None = None
    ) -> int | Refused:
        # Only the order in which cards are taken knows PCIe roots; GPUs go by their topology.
        offer = self.offer(kind, () if kind == GPU else pcies)
        if only is not None:
            offer.allowed = only if offer.allowed is None else offer.allowed & only
        scoring = self.scoring.get(kind, UNSCORED)
        refusal, word = assign(self.cache.tables[kind], self.row, demand, offer, scoring)
        if refusal is not Refusal.NONE:
            return Refused(*names.refusal_text(refusal, kind))
        return word

    def _allowed(self, kind: str, by_function: bool) -> int | None:
        """The cards that selectors, reservations and virtual functions leave over."""
        word = self.terms.required.get(kind)
        selector = self.ask.hint(kind).selector
        if selector is not None:
            matched = self.inventory.selected(kind, selector)
            word = matched if word is None else word & matched
        if by_function and self.ask.wants_vf(kind):
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
