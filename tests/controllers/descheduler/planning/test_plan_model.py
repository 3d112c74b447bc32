# SPDX-License-Identifier: Apache-2.0
"""Plans over random clusters, held against a plain model of what a step must not do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.controllers.descheduler.planning.worlds import budget, load, plan
from tests.controllers.descheduler.world import node, pod
from tests.profiles import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.descheduler.planning.plan import PlannedStep

OLD = {"PodLifeTime": {"maxPodLifeTimeSeconds": 100}}
PODS_A_NODE = 10


@dataclass
class PlainCluster:
    """Nodes by their CPU, and pods by what they ask for and where they are."""

    cores: dict[str, int]
    closed: set[str]
    asks: dict[str, int]
    at: dict[str, str]
    apart: set[str] = field(default_factory=set)

    def fits(self, name: str, target: str) -> bool:
        """Whether a pod may be on a node beside those that are there."""
        there = [other for other, place in self.at.items() if place == target and other != name]
        used = sum(self.asks[other] for other in there)
        room = used + self.asks[name] <= self.cores[target] and len(there) < PODS_A_NODE
        alone = name not in self.apart or not self.apart.intersection(there)
        return room and alone and target not in self.closed

    def do(self, step: PlannedStep) -> None:
        """Carries a step out; it must be possible."""
        assert self.at[step.name] == step.node != step.target
        assert self.fits(step.name, step.target), f"{step.name} does not fit {step.target}"
        self.at[step.name] = step.target


@st.composite
def clusters(draw: st.DrawFn) -> tuple[PlainCluster, dict[str, int], int]:
    """A cluster that may be, the budgets by label, and the limit of the round."""
    names = [f"n{at}" for at in range(draw(st.integers(2, 5)))]
    cores = {name: draw(st.integers(2, 8)) for name in names}
    closed = {name for name in names[1:] if draw(st.integers(0, 5)) == 0}
    plain = PlainCluster(cores, set(), {}, {})
    for at in range(draw(st.integers(1, 14))):
        name, place = f"p{at:02}", draw(st.sampled_from(names))
        plain.asks[name], plain.at[name] = draw(st.integers(1, 3)), place
        if draw(st.integers(0, 3)) == 0:
            plain.apart.add(name)
        alone = plain.at.pop(name)
        if plain.fits(name, alone):
            plain.at[name] = alone
        else:
            plain.apart.discard(name)
            del plain.asks[name]
    plain.closed = closed
    allowed = {f"g{at}": draw(st.integers(0, 4)) for at in range(2)}
    return plain, allowed, draw(st.integers(0, 12))


def _objects(plain: PlainCluster, allowed: dict[str, int]) -> list[Any]:
    objects: list[Any] = [
        node(
            name,
            cpu=str(cores),
            unschedulable=name in plain.closed,
            labels={"kubernetes.io/hostname": name},
        )
        for name, cores in plain.cores.items()
    ]
    for at, (name, place) in enumerate(plain.at.items()):
        labels = {"group": f"g{at % 3}", "apart": str(name in plain.apart)}
        spec = {"affinity": _APART} if name in plain.apart else {}
        objects.append(
            pod(name, place, cpu=str(plain.asks[name]), memory="1Mi", age=1000 - at,
                labels=labels, spec=spec)
        )  # fmt: skip
    objects += [budget(group, count, group=group) for group, count in allowed.items()]
    for name in plain.cores:
        used = {each: plain.asks[each] * 700 for each, place in plain.at.items() if place == name}
        objects.append(load(name, used))
    return objects


_APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"apart": "True"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}


def _groups(plain: PlainCluster) -> dict[str, str]:
    return {name: f"g{at % 3}" for at, name in enumerate(plain.at)}


def _copy(plain: PlainCluster) -> PlainCluster:
    return PlainCluster(plain.cores, plain.closed, plain.asks, dict(plain.at), plain.apart)


def _done(plain: PlainCluster, steps: Iterable[PlannedStep]) -> PlainCluster:
    done = _copy(plain)
    for step in steps:
        done.do(step)
    return done


@settings(max_examples=examples(0.3))
@given(clusters(), st.sets(st.integers(1, 6)))
def test_steps_hold_whatever_is_refused(
    drawn: tuple[PlainCluster, dict[str, int], int], refused: set[int]
) -> None:
    plain, allowed, most = drawn
    made = plan(_objects(plain, allowed), OLD, maxNoOfPodsToEvictTotal=most)
    # Each step is possible when it is reached, and no pod moves twice.
    end = _done(plain, made.steps)
    assert len({step.uid for step in made.steps}) == len(made.steps)
    # Never over a limit or below a budget.
    assert len(made.steps) <= most
    groups = _groups(plain)
    spent = Counter(groups[step.name] for step in made.steps)
    assert all(spent[group] <= count for group, count in allowed.items())
    # Gains add up to what all steps gain.
    gained = sum(step.gain for step in made.steps)
    assert made.overload_before - made.overload_after == pytest.approx(gained)
    # What is refused ends those that depend on it and no other; the rest is still possible.
    left = made.remaining(refused)
    _done(plain, left)
    lost = {step.number for step in made.steps} - {step.number for step in left} - refused
    assert all(step.requires for step in made.steps if step.number in lost)
    # Every pod that was wanted is a step or says why it stays; with room for one there is a step.
    told = {step.name for step in made.steps} | {each.name for each in made.staying}
    assert told == set(plain.at)
    if most and not made.steps:
        free = [name for name in plain.at if allowed.get(groups[name], 1)]
        assert not any(
            plain.fits(name, place)
            for name in free for place in plain.cores if place != plain.at[name]
        )  # fmt: skip
    assert set(end.at) == set(plain.at)
