# SPDX-License-Identifier: Apache-2.0
"""How GPUs and other devices of one node are picked, slowly and obviously."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from koord.kernels.devices_assign import Refusal, Scope


@dataclass
class Card:
    """A device; amounts by position. ``numa`` -1 is everywhere, -2 unknown."""

    total: list[int]
    used: list[int]
    numa: int = -1
    pcie: int = -1


@dataclass
class Ask:
    each: list[int]
    count: int = 1
    grouped: bool = False
    shared: bool = False
    scope: Scope = Scope.ANY
    honour: bool = False
    best_only: bool = False
    bandwidth: int = 0
    whole_pcie: bool = False


@dataclass
class Wish:
    numa_nodes: set[int] | None = None
    allowed: set[int] | None = None
    preferred: set[int] = field(default_factory=set)
    pcies: list[int] = field(default_factory=list)
    returned: dict[int, list[int]] = field(default_factory=dict)
    caps: dict[int, list[int]] | None = None


@dataclass
class Part:
    minors: set[int]
    score: int = 0
    bandwidth: int | None = None


@dataclass
class Machine:
    cards: dict[int, Card]
    partitions: list[Part] | None = None
    honour: bool = False


class Seen:
    """What one pod sees of a machine."""

    def __init__(self, machine: Machine, ask: Ask, wish: Wish) -> None:
        self.machine, self.ask, self.wish = machine, ask, wish
        self.free = {minor: self._free(minor) for minor in machine.cards}
        self.candidates = [minor for minor in sorted(machine.cards) if self._may(minor)]
        self.fitting = [
            minor
            for minor in self.candidates
            if all(f >= e for f, e in zip(self.free[minor], ask.each, strict=True))
        ]
        self.used = {minor for minor in machine.cards if self._in_use(minor)}

    def _free(self, minor: int) -> list[int]:
        card = self.machine.cards[minor]
        back = self.wish.returned.get(minor, [0] * len(card.total))
        free = [
            max(0, t - max(0, u - b)) for t, u, b in zip(card.total, card.used, back, strict=True)
        ]
        if self.wish.caps is not None and minor in self.wish.caps:
            free = [min(f, c) for f, c in zip(free, self.wish.caps[minor], strict=True)]
        return free

    def _may(self, minor: int) -> bool:
        card, wish = self.machine.cards[minor], self.wish
        if not any(card.total):
            return False
        if wish.caps is not None and minor not in wish.caps:
            return False
        if wish.allowed is not None and minor not in wish.allowed:
            return False
        if wish.numa_nodes is not None and card.numa != -1 and card.numa not in wish.numa_nodes:
            return False
        return not self.ask.whole_pcie or self._whole_pcie(card)

    def _whole_pcie(self, card: Card) -> bool:
        if any(other.numa == -2 for other in self.machine.cards.values()):
            return False
        return all(
            self.free[minor] == other.total
            for minor, other in self.machine.cards.items()
            if (other.numa, other.pcie) == (card.numa, card.pcie)
        )

    def _in_use(self, minor: int) -> bool:
        card = self.machine.cards[minor]
        if minor in self.candidates:
            return self.free[minor] != card.total
        return any(card.used)


def assign(
    machine: Machine, ask: Ask, wish: Wish, strategy: str, weights: list[int]
) -> tuple[Refusal, set[int]]:
    seen = Seen(machine, ask, wish)

    def score(minor: int) -> int:
        card = machine.cards[minor]
        parts = [
            (w, usage(strategy, t, t - f + e))
            for w, t, f, e in zip(weights, card.total, seen.free[minor], ask.each, strict=True)
            if t and w and strategy != "None"
        ]
        return sum(w * s for w, s in parts) // sum(w for w, _ in parts) if parts else 0

    if ask.grouped:
        for step in (by_partition(seen), by_scope(seen, score)):
            if step is not None:
                return step
    if len(seen.fitting) < ask.count:
        return Refusal.TOO_FEW, set()
    return Refusal.NONE, in_order(seen, score)


def usage(strategy: str, total: int, used: int) -> int:
    if strategy == "MostAllocated":
        return min(used, total) * 100 // total
    return 0 if used > total else (total - used) * 100 // total


def in_order(seen: Seen, score) -> set[int]:
    turns: dict[int, float] = {}
    rounds = dict.fromkeys(seen.wish.pcies, 0)
    by_score = sorted(seen.fitting, key=lambda minor: (-score(minor), minor))
    for minor in by_score:
        pcie = seen.machine.cards[minor].pcie
        turns[minor] = float("inf")
        if pcie in rounds:
            rounds[pcie] += 1
            turns[minor] = rounds[pcie]
        if minor in seen.wish.preferred:
            turns[minor] = 0
    wanted = max(seen.ask.count, len(seen.wish.pcies))
    return set(sorted(by_score, key=turns.__getitem__)[:wanted])


def by_partition(seen: Seen) -> tuple[Refusal, set[int]] | None:
    ask, machine = seen.ask, seen.machine
    if ask.shared:
        return None
    refusal, chosen = Refusal.NO_PARTITIONS, None
    if machine.partitions is not None:
        refusal, chosen = best_partition(seen, machine.partitions)
    if chosen is not None:
        return Refusal.NONE, chosen.minors
    return (refusal, set()) if ask.honour or machine.honour else None


def tiers(partitions: list[Part], size: int) -> list[list[Part]]:
    """Partitions of a size by score, best first."""
    right = sorted((p for p in partitions if len(p.minors) == size), key=lambda p: -p.score)
    return [list(group) for _, group in groupby(right, key=lambda p: p.score)]


def best_partition(seen: Seen, partitions: list[Part]) -> tuple[Refusal, Part | None]:
    ask = seen.ask
    sized = tiers(partitions, ask.count)
    if not sized:
        return Refusal.NO_PARTITION_SIZE, None

    def feasible(part: Part) -> bool:
        wide = part.bandwidth is not None and part.bandwidth >= ask.bandwidth
        return (
            part.minors <= set(seen.fitting)
            and not part.minors & seen.used
            and (not ask.bandwidth or wide)
        )

    def worth(part: Part) -> tuple[int, int]:
        taken = seen.used | part.minors
        left = 0
        for size, each in ((8, 10000), (4, 100), (2, 1)):
            if size >= ask.count:
                for tier in tiers(partitions, size)[:1]:
                    left += sum(each * p.score for p in tier if not p.minors & taken)
        return len(part.minors & seen.wish.preferred), left

    for tier in sized[:1] if ask.best_only else sized:
        good = [part for part in tier if feasible(part)]
        if good:
            return Refusal.NONE, max(good, key=worth)  # the first of the best
    return Refusal.PARTITIONS_TAKEN, None


def by_scope(seen: Seen, score) -> tuple[Refusal, set[int]] | None:
    ask, cards = seen.ask, seen.machine.cards
    must = ask.scope is not Scope.ANY
    if not cards or any(card.numa == -2 for card in cards.values()):
        return (Refusal.NO_TOPOLOGY, set()) if must else None
    if ask.shared and ask.count > 1:
        return (Refusal.MANY_SHARES, set()) if must else None
    picks = [pick for scope in scopes(cards) for pick in (scoped_pick(seen, scope, score),) if pick]
    if not picks:
        return Refusal.SCOPES_TAKEN if must else Refusal.GROUPS_TAKEN, set()
    # The first of the best, in the order in which the tree is walked: parts before the whole.
    return Refusal.NONE, max(picks, key=lambda pick: pick[0])[1]


def scopes(cards: dict[int, Card]) -> list[list[tuple[Scope, set[int]]]]:
    """Every part of the machine with the parts above it, innermost last."""
    found = []
    whole = (Scope.NODE, set(cards))
    for numa in sorted({card.numa for card in cards.values()}):
        within = {m for m, card in cards.items() if card.numa == numa}
        for pcie in sorted({cards[m].pcie for m in within}):
            root = {m for m in within if cards[m].pcie == pcie}
            found.append([whole, (Scope.NUMA_NODE, within), (Scope.PCIE, root)])
        found.append([whole, (Scope.NUMA_NODE, within)])
    return [*found, [whole]]


def scoped_pick(seen: Seen, way: list[tuple[Scope, set[int]]], score):
    ask = seen.ask
    level, members = way[-1]
    required = Scope.PCIE if ask.scope is Scope.DEVICE and ask.count == 1 else ask.scope
    able = [minor for minor in seen.fitting if minor in members]
    if required > level or len(able) < ask.count:
        return None
    preferred = seen.wish.preferred
    if ask.shared:
        wanted = [minor for minor in able if minor in preferred] or able
        chosen = {min(wanted, key=lambda minor: (-score(minor), minor))}
        worth = score(next(iter(chosen)))
    else:
        chosen = set(sorted(able, key=lambda minor: (minor not in preferred, minor))[: ask.count])
        worth = 0
    busy = sum(1 for _, part in way if part & seen.used)
    return (len(chosen & preferred), len(way), busy, worth), chosen
