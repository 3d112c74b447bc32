# SPDX-License-Identifier: Apache-2.0
"""Where in the network a job goes: worked cases, and everything else against the plain rule."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.network_topology import CLUSTER_LAYER, NODE_LAYER
from koord.api.protocol.gang import GatherRule, NetworkTopologySpec
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.coscheduling.allocation.placement_solver import (
    CandidateNodes,
    GatherRequirement,
    PlacementSolver,
    gather_requirement,
    sums,
)
from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import NetworkTree, build
from tests.controllers.scheduler.plugins.coscheduling.gangs import layers
from tests.controllers.scheduler.pods import node
from tests.models import gather as model

TREE = {"n1": ("s1", "b1"), "n2": ("s1", "b1"), "n3": ("s1", "b2"), "n4": ("s1", "b2")}
SLOTS = {"n1": 5, "n2": 7, "n3": 6, "n4": 4}


def network(places: Mapping[str, tuple[str, str]]) -> NetworkTree:
    nodes = [node(n, labels={"spine": s, "block": b}) for n, (s, b) in places.items()]
    return build(layers("spine", "block"), nodes)


@pytest.mark.parametrize(
    ("want", "multiples", "expected"),
    [
        (15, {}, {"n2": 7, "n1": 5, "n3": 3}),
        (20, {NODE_LAYER: 4}, {"n1": 4, "n2": 4, "n3": 4, "n4": 4}),
        (16, {"block": 8}, {"n2": 7, "n1": 1, "n3": 6, "n4": 2}),
        (16, {NODE_LAYER: 2, "block": 8}, {"n2": 6, "n1": 2, "n3": 6, "n4": 2}),
    ],
)
def test_worked_distributions(
    want: int, multiples: dict[str, int], expected: dict[str, int]
) -> None:
    tree = network(TREE)
    solver = PlacementSolver(
        tree, GatherRequirement(multiples=multiples), want, CandidateNodes(SLOTS)
    )
    assert dict(solver.distribute(tree.root, want)) == expected


def test_a_job_goes_to_the_deepest_place_that_takes_it_and_the_tightest_there() -> None:
    tree = network(TREE)
    for want, expected in [(4, ["n4"]), (7, ["n2"]), (9, ["n3", "n4"]), (12, ["n2", "n1"])]:
        solved = PlacementSolver(tree, GatherRequirement(), want, CandidateNodes(SLOTS)).solve()
        assert solved is not None
        assert [name for name, _ in solved] == expected
    assert PlacementSolver(tree, GatherRequirement(), 23, CandidateNodes(SLOTS)).solve() is None


def test_must_gather_is_kept() -> None:
    tree = network(TREE)
    solver = PlacementSolver(tree, GatherRequirement("block"), 13, CandidateNodes(SLOTS))
    assert solver.solve() is None
    rooms = [(place.title, solver.slots[place.number]) for place in solver.gather_places()]
    assert rooms == [("block/b1", 12), ("block/b2", 10)]


def test_pods_of_the_selector_draw_others() -> None:
    solved = PlacementSolver(
        network(TREE), GatherRequirement(), 4, CandidateNodes(SLOTS, {"n2": 1})
    ).solve()
    assert solved == [("n2", 4)]


def test_what_is_missing_joins_what_is_there() -> None:
    tree = network(TREE)
    offers = CandidateNodes({"n1": 1, "n2": 1, "n3": 6, "n4": 4}, held={"n1": 3})
    solved = PlacementSolver(tree, GatherRequirement("block"), 2, offers).solve()
    assert solved is not None
    assert dict(solved) == {"n1": 1, "n2": 1}
    # Three of a node's four are there: one more makes them whole, two are too many.
    four = GatherRequirement("block", multiples={NODE_LAYER: 4})
    assert PlacementSolver(tree, four, 1, offers).solve() == [("n1", 1)]
    assert PlacementSolver(tree, four, 2, offers).solve() is None


def test_a_split_that_largest_first_misses() -> None:
    # Block a seems good for nine, in twos it would be eight, which is no multiple of three.
    tree = network({"n1": ("s", "a"), "n2": ("s", "b"), "n3": ("s", "b")})
    wish = GatherRequirement(multiples={"block": 3, NODE_LAYER: 2})
    solved = PlacementSolver(tree, wish, 12, CandidateNodes({"n1": 10, "n2": 4, "n3": 4})).solve()
    assert solved == [("n1", 6), ("n2", 4), ("n3", 2)]


def test_a_preferred_layer_is_used_as_little_as_possible_whatever_lies_above() -> None:
    places = {f"a{i}": ("s1", f"b{i}") for i in range(6)}
    places |= {"z1": ("s2", "big"), "z2": ("s2", "big")}
    slots = {**{f"a{i}": 2 for i in range(6)}, "z1": 6, "z2": 5}
    tree = network(places)
    ignored = PlacementSolver(tree, GatherRequirement(), 12, CandidateNodes(slots)).solve()
    assert ignored is not None
    assert len(ignored) == 6
    preferred = PlacementSolver(
        tree, GatherRequirement(prefer=("block",)), 12, CandidateNodes(slots)
    ).solve()
    assert preferred == [("z1", 6), ("z2", 5), ("a0", 1)]
    both = PlacementSolver(
        tree, GatherRequirement(prefer=("spine", "block")), 12, CandidateNodes(slots)
    ).solve()
    assert both == ignored


def spec(*rules: GatherRule) -> NetworkTopologySpec:
    return NetworkTopologySpec(gather_strategy=list(rules))


def test_the_deepest_must_counts() -> None:
    tree = network(TREE)
    wish = gather_requirement(
        spec(
            GatherRule(layer="block", strategy="MustGather", pod_count_multiple=4),
            GatherRule(layer="spine", strategy="MustGather", pod_count_multiple=1),
            GatherRule(layer=NODE_LAYER, strategy="PreferGather"),
            GatherRule(layer="unknown", strategy="PreferGather", pod_count_multiple=-3),
        ),
        tree,
        "PodGroup default/g",
    )
    assert wish == GatherRequirement("block", (NODE_LAYER,), {"block": 4})
    assert gather_requirement(spec(), tree, "").must == CLUSTER_LAYER


def test_an_unknown_layer_that_must_gather_is_refused() -> None:
    rules = spec(GatherRule(layer="rack", strategy="MustGather"))
    with pytest.raises(KoordError) as error:
        gather_requirement(rules, network(TREE), "PodGroup default/g")
    assert str(error.value) == (
        "PodGroup default/g: gatherStrategy[0].layer: got 'rack', expected one of"
        " ClusterTopologyLayer, spine, block, NodeTopologyLayer"
    )


NODES = st.dictionaries(
    st.sampled_from([f"n{i}" for i in range(7)]),
    st.tuples(st.sampled_from("st"), st.sampled_from("abc")),
    min_size=1,
)
AMOUNTS = st.dictionaries(st.sampled_from([f"n{i}" for i in range(7)]), st.integers(0, 6))
FEW = st.dictionaries(st.sampled_from([f"n{i}" for i in range(7)]), st.integers(0, 2))


def spots(tree: NetworkTree) -> model.Spot:
    made: dict[int, model.Spot] = {}
    for place in tree.places:
        above = made[place.parent.number] if place.parent is not None else None
        made[place.number] = spot = model.Spot(place.layer, place.name, above)
        if above is not None:
            above.below.append(spot)
    return made[0]


@given(NODES, AMOUNTS, FEW, FEW, st.integers(1, 14), st.sampled_from([CLUSTER_LAYER, "spine"]))
def test_without_multiples_it_is_the_rule_to_the_letter(
    places: dict[str, tuple[str, str]],
    slots: dict[str, int],
    existing: dict[str, int],
    scores: dict[str, int],
    desired: int,
    must: str,
) -> None:
    tree = network({name: (s, f"{s}{b}") for name, (s, b) in places.items()})
    solved = PlacementSolver(
        tree, GatherRequirement(must), desired, CandidateNodes(slots, existing, {}, scores)
    ).solve()
    job = model.Job(desired, must, slots, existing, scores, {})
    assert (dict(solved) if solved is not None else None) == model.place(spots(tree), job)


@given(
    NODES,
    AMOUNTS,
    st.integers(1, 14),
    st.dictionaries(st.sampled_from(["spine", "block", NODE_LAYER]), st.integers(2, 4)),
)
def test_with_multiples_a_split_is_found_whenever_there_is_one(
    places: dict[str, tuple[str, str]],
    slots: dict[str, int],
    desired: int,
    multiples: dict[str, int],
) -> None:
    tree = network({name: (s, f"{s}{b}") for name, (s, b) in places.items()})
    solved = PlacementSolver(
        tree, GatherRequirement(multiples=multiples), desired, CandidateNodes(slots)
    ).solve()
    job = model.Job(desired, CLUSTER_LAYER, slots, {}, {}, multiples)
    best = model.candidates(spots(tree), job)
    assert (solved is None) == (not best)
    if solved is None:
        return
    placed = dict(solved)
    assert sum(placed.values()) == desired
    assert all(count <= slots.get(name, 0) for name, count in placed.items())
    assert set(placed) <= {spot.name for spot in best[0].nodes()}
    for spot in model.all_spots(best[0]):
        there = sum(placed.get(each.name, 0) for each in spot.nodes())
        assert there % multiples.get(spot.layer, 1) == 0


@given(
    st.sets(st.integers(0, 12), max_size=6),
    st.sets(st.integers(0, 12), max_size=6),
    st.integers(0, 24),
)
def test_sums_of_sets(one: set[int], other: set[int], most: int) -> None:
    def bits(numbers: set[int]) -> int:
        return sum(1 << number for number in numbers)

    expected = {a + b for a in one for b in other if a + b <= most}
    assert sums(bits(one), bits(other), (1 << (most + 1)) - 1) == bits(expected)
