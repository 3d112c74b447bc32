# SPDX-License-Identifier: Apache-2.0
"""Chooses where in the network a job's pods go (docs/reference/gangs.md#placing).

How many pods a place can take is kept as a set of counts, a bit a count, so that "all blocks in
eights and all nodes in twos" is answered exactly, where taking the largest child first may miss a
split that there is. Without multiples the result is what largest-first gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.network_topology import CLUSTER_LAYER
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.coscheduling.objects.gang_declaration import (
    MUST_GATHER,
    PREFER_GATHER,
)
from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import TreeNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.protocol.gang import NetworkTopologySpec
    from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import NetworkTree

_NONE: dict[str, int] = {}


class GatherRequirement(NamedTuple):
    """How close together a job wants to be.

    Attributes:
        must: the layer of which one place must hold all pods; the cluster's if none must.
        prefer: layers of which as few places as possible are to hold them.
        multiples: by layer, of what the pods in each of its places must be a multiple; 2 or more.
    """

    must: str = CLUSTER_LAYER
    prefer: tuple[str, ...] = ()
    multiples: Mapping[str, int] = _NONE


class CandidateNodes(NamedTuple):
    """What nodes offer, each by node name; who is not named has 0.

    Attributes:
        slots: how many pods of the job the node has room for.
        existing: pods on it with the job's selector.
        held: pods of the job that are on it already, and stay.
        scores: higher is better; the last criterion but the name.
    """

    slots: Mapping[str, int]
    existing: Mapping[str, int] = _NONE
    held: Mapping[str, int] = _NONE
    scores: Mapping[str, int] = _NONE


def gather_requirement(
    spec: NetworkTopologySpec, network: NetworkTree, title: str
) -> GatherRequirement:
    """Reads ``network-topology-spec``: the deepest layer that must gather counts.

    Args:
        spec: the annotation.
        network: the layers there are.
        title: who wants it, for errors.

    Raises:
        KoordError: a layer that must gather does not exist.
    """
    must, prefer, multiples = CLUSTER_LAYER, [], {}
    for number, rule in enumerate(spec.gather_strategy):
        depth = network.depth(rule.layer)
        if rule.strategy == MUST_GATHER:
            if depth is None:
                field = f"gatherStrategy[{number}].layer"
                known = ", ".join([CLUSTER_LAYER, *network.layers])
                raise KoordError(title, field, rule.layer, f"one of {known}")
            if depth > (network.depth(must) or 0):
                must = rule.layer
        if rule.strategy == PREFER_GATHER and depth is not None:
            prefer.append(rule.layer)
        if rule.pod_count_multiple > 1:
            multiples[rule.layer] = rule.pod_count_multiple
    return GatherRequirement(must, tuple(prefer), multiples)


class PlacementSolver:
    """One job over one network.

    Args:
        network: the places.
        requirement: how close together.
        desired: how many pods.
        offers: what nodes offer.

    Attributes:
        slots: by place, room for pods, kept to multiples.
    """

    def __init__(
        self,
        network: NetworkTree,
        requirement: GatherRequirement,
        desired: int,
        offers: CandidateNodes,
    ) -> None:
        self._network = network
        self._requirement = requirement
        self._desired = desired
        self._mask = (1 << (desired + 1)) - 1
        count = len(network.places)
        self.slots = [0] * count
        self._existing = [0] * count
        self._held = [0] * count
        self._scores = [0] * count
        self._reach = [1] * count
        for name, place in network.nodes.items():
            self.slots[place.number] = offers.slots.get(name, 0)
            self._existing[place.number] = offers.existing.get(name, 0)
            self._held[place.number] = offers.held.get(name, 0)
            self._scores[place.number] = offers.scores.get(name, 0)
        self._children = self._without_skipped()
        self._add_up()

    def solve(self) -> list[tuple[str, int]] | None:
        """Nodes with how many pods each takes, in the order in which they are to be filled."""
        candidates = self._candidates()
        if not candidates:
            return None
        best = min(candidates, key=lambda place: self._key(place, low=True))
        return self.distribute(best, self._desired)

    def distribute(self, place: TreeNode, want: int) -> list[tuple[str, int]]:
        """How a place divides pods among its nodes: as many as it can, at most so many."""
        divided: list[tuple[str, int]] = []
        reach = self._reach[place.number] & ((1 << (want + 1)) - 1)
        self._lay(place, reach.bit_length() - 1, divided)
        return divided

    def gather_places(self) -> list[TreeNode]:
        """The places of which one must hold all; where pods are held already, only theirs."""
        places = self._network.at(self._requirement.must)
        taken = [place for place in places if self._held[place.number]]
        return taken or places

    # The tree.

    def _without_skipped(self) -> list[list[TreeNode]]:
        """By place, those below that count.

        Layers that nobody names are passed over if they lie above one that is preferred: a job
        that fits into none of its places takes as few of them as it can, wherever they are.
        """
        requirement, network = self._requirement, self._network
        named = {requirement.must, *requirement.prefer, *requirement.multiples}
        deepest = max((network.depth(layer) or 0 for layer in requirement.prefer), default=0)
        skipped = set(network.layers[: max(deepest - 1, 0)]) - named
        below: list[list[TreeNode]] = [[] for _ in network.places]
        for place in reversed(network.places):
            for child in place.children.values():
                if child.layer in skipped:
                    below[place.number] += below[child.number]
                else:
                    below[place.number].append(child)
        return below

    def _add_up(self) -> None:
        for place in reversed(self._network.places):
            number = place.number
            self._reach[number] = self._reachable(place)
            multiple = self._requirement.multiples.get(place.layer, 1)
            held = self._held[number]
            room = (held + self.slots[number]) // multiple * multiple - held
            self.slots[number] = max(room, 0)
            if place.parent is not None:
                above = place.parent.number
                self.slots[above] += self.slots[number]
                self._existing[above] += self._existing[number]
                self._held[above] += held
                self._scores[above] += self._scores[number]

    def _reachable(self, place: TreeNode) -> int:
        """The counts of pods that a place can take, a bit each."""
        if place.leaf:
            reach = (1 << (min(self.slots[place.number], self._desired) + 1)) - 1
        else:
            reach = 1
            for child in self._children[place.number]:
                reach = sums(reach, self._reach[child.number], self._mask)
        multiple = self._requirement.multiples.get(place.layer, 1)
        if multiple > 1:
            first = -self._held[place.number] % multiple
            reach &= sum(1 << count for count in range(first, self._desired + 1, multiple))
        return reach

    # The choice.

    def _candidates(self) -> list[TreeNode]:
        """Of the deepest layer that has any, the places that can take all pods."""
        level, found = self.gather_places(), list[TreeNode]()
        while level:
            level = [place for place in level if self._reach[place.number] >> self._desired & 1]
            found = level or found
            level = [child for place in level for child in self._children[place.number]]
        return found

    def _key(self, place: TreeNode, *, low: bool) -> tuple[object, ...]:
        """Sorts places: more pods of the selector, then less (or more) room, layer by layer."""
        upward = [above.number for above in place.upward()]
        sign = 1 if low else -1
        return (
            [-self._existing[number] for number in upward],
            [sign * self.slots[number] for number in upward],
            -self._scores[place.number],
            place.name,
        )

    def _lay(self, place: TreeNode, want: int, divided: list[tuple[str, int]]) -> None:
        """Divides exactly so many pods, which the place can take."""
        if want <= 0:
            return
        if place.leaf:
            divided.append((place.name, want))
            return
        below = self._children[place.number]
        children = sorted(below, key=lambda child: self._key(child, low=False))
        rest = self._rests(children)
        for number, child in enumerate(children):
            share = self._share(self._reach[child.number], rest[number + 1], want)
            self._lay(child, share, divided)
            want -= share
            if want == 0:
                return

    def _rests(self, children: Sequence[TreeNode]) -> list[int]:
        """By child, the counts that it and those after it can take together."""
        rests = [1] * (len(children) + 1)
        for number in range(len(children) - 1, -1, -1):
            reach = self._reach[children[number].number]
            rests[number] = sums(rests[number + 1], reach, self._mask)
        return rests

    @staticmethod
    def _share(reach: int, rest: int, want: int) -> int:
        """The most that a child can take so that the others can take what is left."""
        share = min(want, reach.bit_length() - 1)
        while not (reach >> share & 1 and rest >> (want - share) & 1):
            share -= 1
        return share


def sums(one: int, other: int, mask: int) -> int:
    """All sums of a count of one set and a count of the other, as far as a mask lets them."""
    if other & (other + 1) and not one & (one + 1):
        one, other = other, one
    if other & (other + 1):
        return _sums(one, other) & mask
    # All counts from 0 on: twice as many shifts with every step.
    reached, last = 1, other.bit_length()
    while reached < last:
        step = min(reached, last - reached)
        one |= one << step
        reached += step
    return one & mask if other else 0


def _sums(one: int, other: int) -> int:
    if other.bit_count() > one.bit_count():
        one, other = other, one
    total = 0
    while other:
        lowest = other & -other
        total |= one * lowest
        other ^= lowest
    return total
