# SPDX-License-Identifier: Apache-2.0
"""The koord policy: worked examples, and the kernel against the plain model."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kernels.placement import NodeTable, Placement, Placer
from tests.models import koord_policy as model
from tests.models.koord_policy import Node, Pod

Choice = tuple[int, tuple[int, ...]] | None

HALF = Pod((4000,), 1, 500)
WHOLE = Pod((4000,), 1, 1000)
ROOMY = Node([16000], [1000, 1000], "T4")
TIGHT = Node([8000], [1000, 1000], "T4")


def table_of(nodes: Sequence[Node]) -> NodeTable:
    resources = ["cpu", "memory", "disk"][: len(nodes[0].free)]
    table = NodeTable(resources)
    for i, node in enumerate(nodes):
        capacity = dict(zip(resources, node.free, strict=True))
        table.add_node(f"n{i}", capacity, gpus=len(node.gpus), model=node.model)
    return table


def shape_of(table: NodeTable, pod: Pod) -> int:
    request = dict(zip(table.resources, pod.request, strict=True))
    return table.shape(request, gpus=pod.gpus, gpu_milli=pod.gpu_milli, models=pod.models)


def place_all(
    nodes: Sequence[Node], shapes: Sequence[Pod], arrivals: Sequence[Pod]
) -> list[Choice]:
    """What the kernel chooses for each arrival."""
    table = table_of(nodes)
    placer = Placer(table, "koord")
    ids = {pod: shape_of(table, pod) for pod in shapes}
    placed = [placer.place(ids[pod]) for pod in arrivals]
    return [None if one is None else (one.row, one.gpus) for one in placed]


def place_all_plainly(
    nodes: Sequence[Node], shapes: Sequence[Pod], arrivals: Sequence[Pod]
) -> list[Choice]:
    """What the model chooses for each arrival."""
    nodes = deepcopy(list(nodes))
    policy = model.Policy(shapes)
    choices = []
    for pod in arrivals:
        policy.arrived(nodes, pod)
        choice = policy.choose(nodes, pod)
        choices.append(choice)
        if choice is not None:
            nodes[choice[0]] = model.after(nodes[choice[0]], pod, choice[1])
    return choices


def estimated(shapes: Sequence[Pod], nodes: Sequence[Node]) -> model.Policy:
    """The model after one arrival of each shape."""
    policy = model.Policy(shapes)
    policy.estimate = model.estimate(dict.fromkeys(shapes, 1), list(nodes))
    return policy


class TestWorkedExamples:
    """Half and whole GPUs are equally common; 4 cores go with 750 milli on average."""

    @pytest.mark.parametrize(
        ("free", "left"), [(0, 0), (499, 499), (500, 0), (600, 100), (999, 499), (1000, 0)]
    )
    def test_leftover_of_a_gpu(self, free: int, left: int) -> None:
        assert estimated([HALF, WHOLE], [ROOMY]).estimate.leftover[free] == left

    def test_a_size_between_the_two_limits_counts_half(self) -> None:
        counts = {WHOLE: 98, HALF: 2}
        assert model.leftovers(counts)[500] == 250

    @pytest.mark.parametrize(("node", "milli"), [(ROOMY, 0.0), (TIGHT, 500.0)])
    def test_stranded_capacity(self, node: Node, milli: float) -> None:
        # 8 cores carry 1500 of the tight node's 2000 milli.
        assert estimated([HALF, WHOLE], [node]).stranded(node) == milli

    @pytest.mark.parametrize(
        ("pod", "roomy", "tight"),
        [
            (HALF, 0, -250),  # the tight node strands 750 of 1500 instead of 500 of 2000
            (WHOLE, 0, 250),  # it strands 250 of 1000: less than before
            (Pod((8000,)), -500, -1500),  # a CPU-only pod costs what it strands
            (Pod((0,), 1, 400), -100, 300),  # 600 free leave 100; unasked-for CPU carries the rest
        ],
    )
    def test_scores_are_minus_the_cost(self, pod: Pod, roomy: int, tight: int) -> None:
        policy = estimated([HALF, WHOLE], [ROOMY, TIGHT])
        assert (policy.score(ROOMY, pod), policy.score(TIGHT, pod)) == (roomy, tight)

    def test_scarcity_of_a_model(self) -> None:
        # Half of the demand names T4, which has a third of what is free; a tenth of that half is
        # set aside for models nobody named, evenly.
        nodes = [Node([8000], [1000], "T4"), Node([8000], [1000, 1000], "G2")]
        scarcity = model.scarcities({WHOLE: 1, Pod((4000,), 1, 1000, ("T4",)): 1}, nodes)
        assert scarcity == pytest.approx({"T4": 1.5 + 0.075, "G2": 0.0375})

    def test_a_share_goes_where_it_leaves_least(self) -> None:
        table = table_of([ROOMY])
        placer = Placer(table, "koord")
        half, whole = shape_of(table, HALF), shape_of(table, WHOLE)
        first = placer.place(half)
        assert first == Placement(0, half, (0,))
        assert placer.place(half) == Placement(0, half, (0,))
        assert placer.place(whole) == Placement(0, whole, (1,))

    def test_pods_of_any_model_leave_a_scarce_one(self) -> None:
        nodes = [Node([64000], [1000], "T4"), Node([64000], [1000], "G2")]
        choosy = Pod((4000,), 1, 1000, ("T4",))
        assert place_all(nodes, [choosy, WHOLE], [WHOLE])[0] == (0, (0,))
        table = table_of(nodes)
        placer = Placer(table, "koord")
        first = placer.place(shape_of(table, choosy))
        assert first is not None
        table.remove(first)
        assert placer.place(shape_of(table, WHOLE)) == Placement(1, 1, (0,))


milli = st.sampled_from([100, 200, 300, 470, 500, 650, 810, 1000])
amount = st.integers(0, 12).map(lambda n: 1000 * n)
spec = st.sampled_from([(), (), ("A",), ("B",), ("A", "C")])


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    width = draw(st.integers(1, 3))
    amounts = st.tuples(*[amount] * width)
    nodes = st.builds(
        lambda free, gpus, name: Node([4 * f for f in free], [1000] * gpus, name),
        amounts,
        st.integers(0, 4),
        st.sampled_from("ABC"),
    )
    pods = st.one_of(
        st.builds(Pod, amounts),
        st.builds(Pod, amounts, st.just(1), milli, spec),
        st.builds(Pod, amounts, st.integers(2, 4), st.sampled_from([500, 1000]), spec),
    )
    shapes = draw(st.lists(pods, min_size=1, max_size=5, unique=True))
    return draw(st.lists(nodes, min_size=1, max_size=4)), shapes


@given(st.data())
def test_chooses_as_the_model_does(data: st.DataObject) -> None:
    nodes, shapes = data.draw(clusters())
    arrivals = data.draw(st.lists(st.sampled_from(shapes), max_size=20))
    assert place_all(nodes, shapes, arrivals) == place_all_plainly(nodes, shapes, arrivals)


def test_scores_for_people_are_0_to_100() -> None:
    table = table_of([ROOMY, TIGHT, Node([1000], [1000], "T4")])
    placer = Placer(table, "koord")
    for pod in (HALF, WHOLE):
        placed = placer.place(shape_of(table, pod))
        assert placed is not None
        table.remove(placed)
    feasible, scores = placer.score(shape_of(table, HALF))
    assert feasible.tolist() == [True, True, False]
    assert scores[:2].tolist() == [100, 0]


@pytest.mark.parametrize(("later", "gpu"), [(1_000, 1), (40_000, 0)])
def test_the_estimate_follows_a_mix_that_changes(later: int, gpu: int) -> None:
    # Nothing but the first pod and the last fits. While shares of 300 are still expected, the 300
    # beside the first pod are kept for one and the last pod opens the other GPU.
    nodes = [Node([0], [1000, 1000], "A")]
    first, last = Pod((0,), 1, 700), Pod((0,), 1, 100)
    large, small = Pod((0,), 1, 700, ("Z",)), Pod((0,), 1, 300, ("Z",))
    arrivals = [first, *[large, small] * 600, *[large] * later, last]
    shapes = [first, last, large, small]
    assert place_all(nodes, shapes, arrivals)[-1] == (0, (gpu,))
    assert place_all_plainly(nodes, shapes, arrivals)[-1] == (0, (gpu,))
