# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.conftest import Gate
from koord.kernels.placement import NodeTable, Placement, Placer
from koord.simulator.openb.replay import Experiment
from koord.simulator.openb.trace import read_nodes, read_pods
from koord.simulator.openb.workload import sample
from tests.models import placement as model

OPENB = Path(__file__).resolve().parents[1] / "examples" / "openb"
NODES = 5000
POD = model.Pod(2000, 4, 1, 300)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.of(
        read_nodes(OPENB / "openb_node_list_gpu_node.csv"),
        read_pods(OPENB / "openb_pod_list_default.csv"),
    )


@pytest.fixture(scope="module")
def table() -> NodeTable:
    table = NodeTable()
    for index in range(NODES):
        table.add_node(f"n{index}", {"cpu": 96000, "memory": 384}, gpus=8, model="T4")
    held = table.shape({"cpu": 1000}, gpus=1, gpu_milli=500)
    for row in range(NODES):
        for minor in range(row % 9):
            table.commit(Placement(row, held, (minor,)))
    return table


@pytest.fixture(scope="module")
def nodes(table: NodeTable) -> list[model.Node]:
    return [
        model.Node(96000, 384, "T4", table.gpus_free(row), row) for row in range(len(table))
    ]  # fmt: skip


def pod_shape(table: NodeTable) -> int:
    return table.shape({"cpu": POD.cpu, "memory": POD.memory}, gpus=1, gpu_milli=POD.milli)


def test_filter_5000_nodes(gate: Gate, table: NodeTable, nodes: list[model.Node]) -> None:
    shape = pod_shape(table)
    gate(
        "placement: filter 5,000 nodes",
        lambda: table.filter(shape),
        lambda: [node.fits(POD) for node in nodes],
        150,
    )


@pytest.mark.parametrize(("policy", "at_least"), [("bestfit", 30), ("least", 30), ("packing", 200)])
def test_filter_and_score_5000_nodes(
    gate: Gate, table: NodeTable, nodes: list[model.Node], policy: str, at_least: float
) -> None:
    placer = Placer(table, policy)
    shape = pod_shape(table)
    score = model.SCORES[policy]
    gate(
        f"placement: filter and score 5,000 nodes, {policy}",
        lambda: placer.score(shape),
        lambda: [score(node, POD) for node in nodes if node.fits(POD)],
        at_least,
    )


def test_fgd_with_nothing_cached(gate: Gate, table: NodeTable, experiment: Experiment) -> None:
    """Nodes in few states against as many of which no two are in the same."""
    differing = NodeTable()
    for index in range(NODES):
        differing.add_node(f"n{index}", {"cpu": 96000 - index, "memory": 384}, gpus=8, model="T4")
    gate(
        "placement: fgd, nothing cached, 9 states of 5,000 nodes (5,000 states)",
        lambda: fgd_scores(table, experiment),
        lambda: fgd_scores(differing, experiment),
        3,
    )


def fgd_scores(table: NodeTable, experiment: Experiment) -> object:
    placer = Placer(table, "fgd", fragmentation=experiment.fragmentation)
    return placer.score(pod_shape(table))


def test_a_warm_pick_beats_a_full_rescan(gate: Gate, table: NodeTable) -> None:
    warm, rescan = Placer(table, "bestfit"), Placer(table, "bestfit")
    shape = pod_shape(table)

    def place_and_remove() -> None:
        placed = warm.place(shape)
        assert placed
        table.remove(placed)

    def score_all_and_take_the_best() -> None:
        _, scores = rescan.score(shape)
        scores.argmax()

    gate("placement: one pod among 5,000 nodes, cached, full rescan", place_and_remove,
         score_all_and_take_the_best, 4)  # fmt: skip


@pytest.mark.parametrize(("policy", "arrivals", "at_least"), [("bestfit", 40, 2), ("fgd", 2, 3)])
def test_replay(
    gate: Gate, experiment: Experiment, policy: str, arrivals: int, at_least: float
) -> None:
    """A whole run against the first few arrivals of it in plain Python, which rescans all nodes."""
    workload = sample(experiment.nodes, experiment.pods, 1.3, 42)
    pods = [experiment.pods[index] for index in workload.arrivals[:arrivals]]
    asked = [
        model.Pod(pod.shape.cpu_milli, pod.memory_mib, pod.shape.gpu_count, pod.shape.gpu_milli)
        for pod in pods
    ]
    typical = list(experiment.fragmentation.typical.frequencies.items())

    def plain() -> None:
        cluster = model.Cluster(
            [
                model.Node(node.cpu_milli, node.memory_mib, node.model, [1000] * node.gpus, rank)
                for node, rank in zip(experiment.nodes, workload.ranks, strict=True)
            ],
            policy,
            typical,
        )
        for pod in asked:
            cluster.place(pod)

    gate(
        f"placement: replay {len(workload.arrivals):,} arrivals, {policy}, {arrivals} in Python",
        lambda: experiment.run(policy, workload),
        plain,
        at_least,
    )
