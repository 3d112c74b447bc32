# SPDX-License-Identifier: Apache-2.0
"""Where in a network a job goes, by the letter of the rule: dictionaries, recursion, no caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cmp_to_key


@dataclass(eq=False)
class Spot:
    layer: str
    name: str
    above: Spot | None = None
    below: list[Spot] = field(default_factory=list)

    def nodes(self) -> list[Spot]:
        if not self.below:
            return [self] if self.layer == "NodeTopologyLayer" else []
        return [node for child in self.below for node in child.nodes()]


@dataclass
class Job:
    desired: int
    must: str
    slots: Mapping[str, int]
    existing: Mapping[str, int]
    scores: Mapping[str, int]
    multiples: Mapping[str, int]


def all_spots(root: Spot) -> list[Spot]:
    return [root, *(spot for child in root.below for spot in all_spots(child))]


def slot(spot: Spot, job: Job) -> int:
    """Room for pods, floored layer by layer."""
    if spot.below:
        room = sum(slot(child, job) for child in spot.below)
    else:
        room = job.slots.get(spot.name, 0) if spot.layer == "NodeTopologyLayer" else 0
    multiple = job.multiples.get(spot.layer, 1)
    return room // multiple * multiple


def counts(spot: Spot, job: Job) -> set[int]:
    """The numbers of pods that can be put there with all multiples kept."""
    if spot.below:
        found = {0}
        for child in spot.below:
            found = {a + b for a in found for b in counts(child, job)}
    else:
        found = set(range(slot(spot, job) + 1))
    multiple = job.multiples.get(spot.layer, 1)
    return {count for count in found if count % multiple == 0}


def total(spot: Spot, of: Mapping[str, int]) -> int:
    return sum(of.get(node.name, 0) for node in spot.nodes())


def less(a: Spot, b: Spot, job: Job, low: bool) -> int:
    """-1 if the first goes first."""
    one: Spot | None = a
    other: Spot | None = b
    while one and other:
        have, has = total(one, job.existing), total(other, job.existing)
        if have != has:
            return -1 if have > has else 1
        one, other = one.above, other.above
    one, other = a, b
    while one and other:
        room, space = slot(one, job), slot(other, job)
        if room != space:
            return -1 if (room < space) == low else 1
        one, other = one.above, other.above
    if total(a, job.scores) != total(b, job.scores):
        return -1 if total(a, job.scores) > total(b, job.scores) else 1
    return -1 if a.name < b.name else 1


def candidates(root: Spot, job: Job) -> list[Spot]:
    """The places of the deepest level that can take all, in order."""
    level = [spot for spot in all_spots(root) if spot.layer == job.must]
    best: list[Spot] = []
    while level:
        fit = [spot for spot in level if job.desired in counts(spot, job)]
        best = fit or best
        level = [child for spot in fit for child in spot.below]
    return sorted(best, key=cmp_to_key(lambda a, b: less(a, b, job, low=True)))


def distribute(spot: Spot, want: int, job: Job, into: dict[str, int]) -> int:
    """Largest child first; right where nothing must be a multiple."""
    take = min(slot(spot, job), want)
    multiple = job.multiples.get(spot.layer, 1)
    take = take // multiple * multiple
    if not spot.below:
        if spot.layer == "NodeTopologyLayer" and take:
            into[spot.name] = take
        return take
    given = 0
    for child in sorted(spot.below, key=cmp_to_key(lambda a, b: less(a, b, job, low=False))):
        given += distribute(child, take - given, job, into)
    return given


def place(root: Spot, job: Job) -> dict[str, int] | None:
    found = candidates(root, job)
    if not found:
        return None
    into: dict[str, int] = {}
    distribute(found[0], job.desired, job, into)
    return into
