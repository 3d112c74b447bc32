# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.kernels.devices import Device, Fragmentation, PodShape, TypicalPods
from koord.kernels.placement import NodeTable, Placement, Placer, Replay, policy_names
from tests.models import placement as model

TYPICAL = {
    PodShape(2000, 500, 1): 0.4,
    PodShape(4000, 1000, 1): 0.3,
    PodShape(6000, 1000, 2): 0.1,
    PodShape(1000): 0.2,
}
FRAGMENTATION = Fragmentation(TypicalPods(TYPICAL))
POLICIES = ["random", "dotprod", "clustering", "packing", "bestfit", "fgd", "fit", "least", "most",
            "balanced"]  # fmt: skip


def placer_of(table: NodeTable, policy: str, seed: int = 0) -> Placer:
    return Placer(table, policy, seed=seed, fragmentation=FRAGMENTATION)


def shape_of(table: NodeTable, pod: model.Pod) -> int:
    request = {"cpu": pod.cpu, "memory": pod.memory}
    models = [word for word in pod.spec.split("|") if word]
    return table.shape(request, gpus=pod.gpus, gpu_milli=pod.milli, models=models)


def table_of(nodes: list[model.Node]) -> NodeTable:
    table = NodeTable()
    for index, node in enumerate(nodes):
        capacity = {"cpu": node.cpu, "memory": node.memory}
        table.add_node(f"n{index}", capacity, gpus=len(node.gpus), model=node.model)
    table.set_ranks([node.rank for node in nodes])
    return table


def test_the_models_cover_every_policy() -> None:
    ours = set(policy_names())
    assert set(POLICIES) <= ours


# One node of 16 cores and two T4: (free CPU, free GPUs, pod, score of each policy, FGD's GPUs).
EXAMPLES = [
    (16000, [1000, 1000], model.Pod(2000, 0, 1, 500), 45, 99, 31, 85, (0,)),
    (14000, [500, 1000], model.Pod(2000, 0, 1, 500), 57, 99, 95, 89, (0,)),
    (14000, [500, 1000], model.Pod(4000, 0, 1, 1000), 57, 98, 49, 92, (1,)),
    (14000, [600, 700], model.Pod(3000, 0, 1, 300), 51, 99, 94, 89, (0,)),
    (7000, [1000, 1000], model.Pod(3000), 45, 99, 0, 85, ()),
    (16000, [1000, 1000], model.Pod(6000, 0, 2, 1000), 59, 96, 31, 96, (0, 1)),
]


@pytest.mark.parametrize(
    ("cpu", "gpus", "pod", "fgd", "dotprod", "packing", "bestfit", "chosen"), EXAMPLES
)
def test_worked_examples(cpu, gpus, pod, fgd, dotprod, packing, bestfit, chosen) -> None:
    table = NodeTable()
    row = table.add_node("n0", {"cpu": 16000}, gpus=2, model="T4")
    table.commit(Placement(row, table.shape({"cpu": 16000 - cpu})))
    for minor, free in enumerate(gpus):
        if free < 1000:
            held = table.shape({}, gpus=1, gpu_milli=1000 - free)
            table.commit(Placement(row, held, (minor,)))
    shape = shape_of(table, pod)
    scores = {"fgd": fgd, "dotprod": dotprod, "packing": packing}
    for policy, want in scores.items():
        feasible, got = placer_of(table, policy).score(shape)
        assert feasible[row]
        assert got[row] == want, policy
    # Best fit is normalised over feasible nodes; a second node makes the raw order visible.
    assert model.bestfit(model.Node(cpu, 0, "T4", gpus, 0), pod) == bestfit
    assert placer_of(table, "fgd").pick(shape) == Placement(row, shape, chosen)


@pytest.mark.parametrize(
    ("totals", "hosted", "want"),
    [
        ([1000, 1000], [500], 95),
        ([1000, 1000, 1000], [500, 1000], 70),
        ([1000, 500], [], 45),
        ([1000, 1000, 500], [1000], 20),
    ],
    ids=["its kind only", "its kind among others", "no GPU pod", "other kinds only"],
)
def test_clustering_groups(totals: list[int], hosted: list[int], want: int) -> None:
    table = NodeTable()
    table.add_node("n0", {}, gpus=[Device(m, {"gpu": total}) for m, total in enumerate(totals)])
    for minor, milli in enumerate(hosted):
        table.commit(Placement(0, table.shape({}, gpus=1, gpu_milli=milli), (minor,)))
    assert sum(table.gpus_free(0)) == 1500
    _, scores = Placer(table, "clustering").score(table.shape({}, gpus=1, gpu_milli=200))
    assert scores.tolist() == [want]


def test_best_fit_is_normalised_over_feasible_nodes() -> None:
    table = NodeTable()
    for name, cpu in [("a", 8000), ("b", 64000), ("c", 128000), ("d", 1000)]:
        table.add_node(name, {"cpu": cpu})
    feasible, scores = placer_of(table, "bestfit").score(table.shape({"cpu": 2000}))
    assert feasible.tolist() == [True, True, True, False]
    raw = [97, 75, 50]  # trunc((1 - left / 128000 / 2) * 100)
    assert scores.tolist() == [100, (raw[1] - raw[2]) * 100 // (raw[0] - raw[2]), 0, 0]


def test_stock_scores() -> None:
    table = NodeTable(["cpu", "memory"])
    table.add_node("a", {"cpu": 10000, "memory": 20000})
    table.commit(Placement(0, table.shape({"cpu": 3000, "memory": 5000})))
    shape = table.shape({"cpu": 3000, "memory": 0})
    scores = {name: placer_of(table, name).score(shape)[1][0] for name in ("least", "most")}
    assert scores == {"least": (40 + 75) // 2, "most": (60 + 25) // 2}
    assert placer_of(table, "balanced").score(shape)[1][0] == 82  # 1 - |0.6 - 0.25| / 2
    weighted = Placer(table, "least", weights={"cpu": 3, "memory": 1})
    assert weighted.score(shape)[1][0] == (3 * 40 + 75) // 4


def test_scores_count_what_they_are_told_to_count() -> None:
    table = NodeTable(["cpu", "memory"])
    table.add_node("a", {"cpu": 1000, "memory": 1000})
    best_effort = table.shape({}, scored={"cpu": 100, "memory": 200})
    table.commit(Placement(0, best_effort))
    assert table.free("cpu").tolist() == [1000]
    assert Placer(table, "least").score(best_effort)[1][0] == (80 + 60) // 2


def test_balanced_over_three_resources_is_the_population_deviation() -> None:
    table = NodeTable(["cpu", "memory", "disk"])
    table.add_node("a", {"cpu": 100, "memory": 100, "disk": 100})
    shape = table.shape({"cpu": 10, "memory": 40, "disk": 70})
    deviation = float(np.std([0.1, 0.4, 0.7]))
    assert Placer(table, "balanced").score(shape)[1][0] == int((1 - deviation) * 100)


def test_labels_models_and_closed_nodes_narrow_the_filter() -> None:
    table = NodeTable()
    table.add_node("a", {"cpu": 1000}, labels=["zone=a", "disk=ssd"], model="T4")
    table.add_node("b", {"cpu": 1000}, labels=["zone=b"], model="G2")
    table.add_node("c", {"cpu": 1000}, labels=["zone=a"])
    assert table.filter(table.shape({}, labels=["zone=a"])).tolist() == [True, False, True]
    both = table.shape({}, labels=["zone=a", "disk=ssd"])
    assert table.filter(both).tolist() == [True, False, False]
    assert table.filter(table.shape({}, models=["G2", "T4"])).tolist() == [True, True, False]
    assert not table.filter(table.shape({}, labels=["no=such"])).any()
    table.close_node(0)
    assert not table.filter(both).any()
    again = table.add_node("a", {"cpu": 1000}, labels=["zone=a", "disk=ssd"])
    assert table.filter(both).tolist() == [False, False, False, True]
    assert table.row("a") == again


def test_several_gpu_resources_all_have_to_fit() -> None:
    table = NodeTable(["cpu"], ["gpu", "gpu-memory"])
    gpus = [Device(0, {"gpu": 1000, "gpu-memory": 16}), Device(1, {"gpu": 1000, "gpu-memory": 24})]
    table.add_node("a", {}, gpus=gpus)
    large = table.shape({}, gpus=1, gpu_milli=500, gpu_request={"gpu-memory": 20})
    placer = Placer(table, "packing")
    assert placer.place(large) == Placement(0, large, (1,))
    assert placer.place(large) is None
    assert table.gpus_free(0) == [1000, 500]
    assert table.gpus_free(0, "gpu-memory") == [16, 4]


def test_a_view_follows_the_table_and_survives_its_growth() -> None:
    table = NodeTable()
    table.add_node("a", {"cpu": 1000})
    free = table.free("cpu")
    table.commit(Placement(0, table.shape({"cpu": 300})))
    assert free.tolist() == [700]
    assert not free.flags.writeable
    for index in range(1000):
        table.add_node(f"n{index}", {"cpu": 1})
    assert free.tolist() == [700]
    assert table.free("cpu")[0] == 700


def test_capacity_may_fall_below_what_is_requested() -> None:
    table = NodeTable()
    table.add_node("a", {"cpu": 1000})
    held = Placement(0, table.shape({"cpu": 800}))
    table.commit(held)
    table.set_capacity(0, {"cpu": 500})
    assert table.free("cpu").tolist() == [-300]
    assert table.filter(table.shape({})).tolist() == [True]
    table.remove(held)
    assert table.free("cpu").tolist() == [500]


def test_an_unhealthy_gpu_takes_no_more_pods() -> None:
    table = NodeTable()
    table.add_node("a", {}, gpus=2)
    shape = table.shape({}, gpus=1, gpu_milli=400)
    placer = Placer(table, "packing")
    held = placer.place(shape)
    assert held
    healthy = [Device(minor, {"gpu": 1000}) for minor in range(2)]
    table.set_gpus(0, [replace(healthy[0], healthy=False), healthy[1]])
    assert placer.pick(shape) == Placement(0, shape, (1,))
    table.remove(held)
    assert table.gpus_free(0) == [0, 1000]
    table.set_gpus(0, healthy)
    assert table.gpus_free(0) == [1000, 1000]


def test_a_batch_is_placed_whole_or_not_at_all() -> None:
    table = NodeTable()
    table.add_node("a", {"cpu": 1000})
    table.add_node("b", {"cpu": 1000})
    shape = table.shape({"cpu": 700})
    placer = Placer(table, "fit")
    assert placer.place_batch([shape] * 3, all_or_none=True) == []
    assert table.free("cpu").tolist() == [1000, 1000]
    placed = placer.place_batch([shape] * 3)
    assert placed == [Placement(0, shape), Placement(1, shape), None]


def test_placers_of_one_table_see_each_others_changes() -> None:
    table = NodeTable()
    table.add_node("a", {"cpu": 1000})
    table.add_node("b", {"cpu": 1000})
    shape = table.shape({"cpu": 1000})
    first, second = Placer(table, "fit"), Placer(table, "bestfit")
    assert second.pick(shape) == Placement(0, shape)
    first.place(shape)
    assert second.pick(shape) == Placement(1, shape)
    table.remove(Placement(0, shape))
    assert second.pick(shape) == Placement(0, shape)
    table.set_ranks([1, 0])
    assert second.pick(shape) == Placement(1, shape)


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda t: Placer(t, "fdg"), KeyError, "policy: got 'fdg', expected one of random"),
        (lambda t: Placer(t, "fgd"), ValueError, "typical pods: got 'none'"),
        (lambda t: Placer(t, "least", weights={"cpu": -1}), ValueError, "weight: got '-1'"),
        (lambda t: t.add_node("a", {}), ValueError, "node: got 'a', expected a new name"),
        (lambda t: t.add_node("b", {"cpu": -1}), ValueError, "capacity: got '-1'"),
        (lambda t: t.add_node("b", {}, gpus=65), ValueError, "gpus: got 65, expected 0 to 64"),
        (lambda t: t.add_node("b", {"disk": 1}), KeyError, "one of cpu, memory"),
        (lambda t: t.shape({"cpu": 2**60}), ValueError, "request: got"),
        (lambda t: t.shape({}, gpus=65), ValueError, "gpu count: got '65'"),
        (lambda t: t.shape({}, gpus=1, gpu_milli=-1), ValueError, "device request: got '-1'"),
        (lambda t: t.row("zz"), KeyError, "node: got 'zz'"),
        (lambda t: t.name(9), KeyError, "row: got '9'"),
        (lambda t: t.filter(9), KeyError, "shape: got '9'"),
        (lambda t: Placer(t, "fit").place(9), KeyError, "shape: got '9'"),
        (lambda t: t.set_ranks([0, 1]), ValueError, "ranks: got '2'"),
        (lambda t: t.set_ranks([1]), ValueError, "rank: got '1'"),
        (lambda t: t.remove(Placement(0, t.shape({"cpu": 1}))), ValueError, "cpu: got '1'"),
        (lambda t: t.commit(Placement(0, t.shape({}, gpus=1))), ValueError, "gpus: got '0'"),
        (lambda t: t.native.undo(0), ValueError, "an open mark"),
        (lambda t: t.free("disk"), KeyError, "one of cpu, memory"),
    ],
)
def test_bad_input_is_named(act, error: type[Exception], text: str) -> None:
    table = NodeTable()
    table.add_node("a", {"cpu": 1000}, gpus=1)
    with pytest.raises(error, match=text):
        act(table)


node_shapes = st.tuples(
    st.sampled_from([4000, 8000, 16000]),
    st.sampled_from([100, 200]),
    st.sampled_from(["T4", "P100"]),
    st.sampled_from([0, 1, 2, 4]),
)
pods = st.one_of(
    st.builds(model.Pod, st.sampled_from([0, 1000, 3000]), st.sampled_from([0, 10, 60])),
    st.builds(
        model.Pod, st.sampled_from([0, 1000, 2000]), st.sampled_from([0, 30]), st.just(1),
        st.sampled_from([1, 250, 300, 500, 999]), st.sampled_from(["", "T4", "P100|T4"]),
    ),
    st.builds(
        model.Pod, st.sampled_from([1000, 4000]), st.just(10), st.sampled_from([1, 2, 4]),
        st.just(1000), st.sampled_from(["", "P100"]),
    ),
)  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> list[model.Node]:
    specs = draw(st.lists(node_shapes, min_size=1, max_size=6))
    ranks = draw(st.permutations(range(len(specs))))
    return [
        model.Node(cpu, memory, gpu_model, [1000] * gpus, rank)
        for (cpu, memory, gpu_model, gpus), rank in zip(specs, ranks, strict=True)
    ]


@given(clusters(), st.lists(pods, max_size=14), st.sampled_from(POLICIES), st.integers(0, 3))
def test_placements_are_the_models(
    nodes: list[model.Node], arrivals: list[model.Pod], policy: str, seed: int
) -> None:
    table = table_of(nodes)
    placer = placer_of(table, policy, seed)
    cluster = model.Cluster(nodes, policy, list(TYPICAL.items()), seed)
    for pod in arrivals:
        want = cluster.place(pod)
        got = placer.place(shape_of(table, pod))
        assert (got and (got.row, list(got.gpus))) == want
    assert table.free("cpu").tolist() == [node.cpu_free for node in nodes]
    assert [table.gpus_free(row) for row in range(len(table))] == [node.gpus for node in nodes]


@given(clusters(), st.lists(pods, min_size=1, max_size=8), st.sampled_from(POLICIES))
def test_masks_and_scores_are_the_models(
    nodes: list[model.Node], arrivals: list[model.Pod], policy: str
) -> None:
    table = table_of(nodes)
    placer = placer_of(table, policy)
    cluster = model.Cluster(nodes, policy, list(TYPICAL.items()))
    for pod in arrivals[:-1]:
        placed = cluster.place(pod)
        if placed:
            table.commit(Placement(placed[0], shape_of(table, pod), tuple(placed[1])))
    pod = arrivals[-1]
    feasible, scores = placer.score(shape_of(table, pod))
    assert feasible.tolist() == [node.fits(pod) for node in nodes]
    want = [cluster.score(node, pod) for node in nodes if node.fits(pod)]
    if policy == "bestfit" and want:
        low, high = min(want), max(want)
        want = [(score - low) * 100 // (high - low) if high > low else 0 for score in want]
    assert scores[feasible].tolist() == want


@given(clusters(), st.lists(pods, max_size=12), st.sampled_from(POLICIES), st.integers(1, 12))
def test_a_replay_records_every_arrival(
    nodes: list[model.Node], arrivals: list[model.Pod], policy: str, chunk: int
) -> None:
    table = table_of(nodes)
    shapes = np.array([shape_of(table, pod) for pod in arrivals], np.uint32)
    replay = Replay(placer_of(table, policy), FRAGMENTATION)
    for first in range(0, len(shapes), chunk):
        replay.run(shapes[first : first + chunk])
    rows = replay.finish()
    cluster = model.Cluster(nodes, policy, list(TYPICAL.items()))
    used = arrived = 0
    for index, pod in enumerate(arrivals):
        placed = cluster.place(pod)
        arrived += pod.total
        used += pod.total if placed else 0
        amount = cluster.fragmentation()
        idle = sum(sum(node.gpus) for node in nodes)
        assert rows.node[index] == (placed[0] if placed else -1)
        assert (rows.used_milli[index], rows.arrived_milli[index]) == (used, arrived)
        assert rows.fragment_milli[index] == pytest.approx(amount, abs=1e-6)
        percent = 100 * amount / idle if idle else 0
        assert rows.fragment_percent[index] == pytest.approx(percent, abs=1e-6)


class PlaceRemoveUndo(RuleBasedStateMachine):
    """A table that is changed and taken back, with warm caches, against one built afresh."""

    @initialize(nodes=clusters(), policy=st.sampled_from([p for p in POLICIES if p != "random"]))
    def start(self, nodes: list[model.Node], policy: str) -> None:
        self.cluster = model.Cluster(nodes, policy, list(TYPICAL.items()))
        self.table = table_of(nodes)
        self.placer = placer_of(self.table, policy)
        self.placed: list[tuple[model.Pod, Placement]] = []

    @rule(pod=pods)
    def place(self, pod: model.Pod) -> None:
        want = self.cluster.place(pod)
        got = self.placer.place(shape_of(self.table, pod))
        assert (got and (got.row, list(got.gpus))) == want
        if got:
            self.placed.append((pod, got))

    @precondition(lambda self: self.placed)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        pod, placement = self.placed.pop(data.draw(st.integers(0, len(self.placed) - 1)))
        self.table.remove(placement)
        self.cluster.nodes[placement.row].apply(pod, list(placement.gpus), -1)

    @rule(batch=st.lists(pods, max_size=4))
    def try_and_take_back(self, batch: list[model.Pod]) -> None:
        kept = copy.deepcopy(self.cluster.nodes)
        with self.table.what_if():
            for pod in batch:
                want = self.cluster.place(pod)
                got = self.placer.place(shape_of(self.table, pod))
                assert (got and (got.row, list(got.gpus))) == want
            if self.placed:
                self.table.remove(self.placed[0][1])
        self.cluster.nodes = kept

    @invariant()
    def the_table_is_the_models(self) -> None:
        nodes = self.cluster.nodes
        assert self.table.free("cpu").tolist() == [node.cpu_free for node in nodes]
        assert self.table.free("memory").tolist() == [node.memory_free for node in nodes]
        assert [self.table.gpus_free(row) for row in range(len(nodes))] == [
            node.gpus for node in nodes
        ]


TestPlaceRemoveUndo = PlaceRemoveUndo.TestCase
TestPlaceRemoveUndo.settings = settings(stateful_step_count=10)
