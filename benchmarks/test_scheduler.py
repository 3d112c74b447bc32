# SPDX-License-Identifier: Apache-2.0
"""Decisions with all stock plugins: against the plain model, and on more nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from benchmarks.conftest import Gate
from benchmarks.scheduler_decisions import SHAPES, cluster, run, waiting
from benchmarks.scheduler_profile import Shipped
from koord.api.codec import to_json
from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.stock import Stock
from tests.models.stock_scheduler import Cluster

NODES, PLACED = 200, 100


@cache
def filled(nodes: int, case: str) -> tuple[Stock, list[PodInfo]]:
    """A cluster with some pods of ten workloads on it, and ten more that wait."""
    stock = cluster(nodes)
    pods = waiting(stock, case, PLACED + SHAPES)
    run(stock, pods[:PLACED])
    return stock, pods[PLACED:]


def decisions(nodes: int, case: str) -> Callable[[], None]:
    """Decides and assumes one pod of each workload, and takes them back."""
    stock, pods = filled(nodes, case)

    def step() -> None:
        made = []
        for pod in pods:
            decision = stock.decider.decide(pod)
            assert stock.decider.assume(decision) is None
            made.append(decision)
        for decision in reversed(made):
            stock.decider.retract(decision)

    return step


def brute_force(case: str) -> Callable[[], None]:
    """Where the plain model would put the same ten pods, one by one."""
    stock, pods = filled(NODES, case)

    def wire(value: object) -> dict[str, object]:
        document: dict[str, object] = msgspec.json.decode(to_json(value))
        document.setdefault("spec", {})
        return document

    held = stock.world.accounts.pods().values()
    model = Cluster(
        nodes={stock.table.name(row): wire(node) for row, node in enumerate(stock.table.nodes)},
        placed=[(wire(pod.pod), stock.table.name(pod.row)) for pod in held],
    )
    documents = [wire(pod.pod) for pod in pods]

    def step() -> None:
        for document in documents:
            assert model.best(document) is not None

    return step


@pytest.mark.parametrize(
    ("case", "at_least"),
    [("plain", 20), ("affinity", 20), ("hardspread", 100), ("podaffinity", 100)],
)
def test_decisions_against_brute_force(gate: Gate, case: str, at_least: float) -> None:
    gate(
        f"scheduler: 10 decisions among {NODES} nodes, {case}",
        decisions(NODES, case),
        brute_force(case),
        at_least,
    )


def test_a_plain_decision_hardly_depends_on_the_number_of_nodes(gate: Gate) -> None:
    gate(
        "scheduler: 5,000 nodes in the time of 500",
        decisions(5000, "plain"),
        decisions(500, "plain"),
        0.6,
    )


@cache
def shipped(case: str, nodes: int) -> Shipped:
    """The whole profile over nodes with some pods of the case."""
    made = Shipped(case, nodes)
    asyncio.run(made.place(PLACED))
    return made


def through_the_loop(case: str, nodes: int) -> Callable[[], None]:
    """Ten more pods of the case, from the queue to the end of their bindings."""
    made = shipped(case, nodes)
    return lambda: asyncio.run(made.place(SHAPES))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("case", "at_least"),
    [("shipped", 0.4), ("loadaware", 0.4), ("numa", 0.3), ("gpushare", 0.2), ("spread", 0.2)],
)
def test_the_whole_profile_hardly_depends_on_the_number_of_nodes(
    gate: Gate, case: str, at_least: float
) -> None:
    gate(
        f"scheduler: the whole profile, {case}, 1,000 nodes in the time of 200",
        through_the_loop(case, 1000),
        through_the_loop(case, 200),
        at_least,
    )


@pytest.mark.parametrize(
    ("case", "at_least"),
    [("loadaware", 0.3), ("numa", 0.25), ("gpushare", 0.15), ("reservation", 0.1)],
)
def test_features_against_a_plain_pod(gate: Gate, case: str, at_least: float) -> None:
    gate(
        f"scheduler: the whole profile, {case} in the time of a plain pod",
        through_the_loop(case, 200),
        through_the_loop("shipped", 200),
        at_least,
    )


def test_a_plain_pod_of_the_whole_profile_against_brute_force(gate: Gate) -> None:
    gate(
        f"scheduler: 10 pods through the loop among {NODES} nodes, the whole profile",
        through_the_loop("shipped", NODES),
        brute_force("plain"),
        10,
    )
