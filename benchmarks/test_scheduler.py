# SPDX-License-Identifier: Apache-2.0
"""Decisions with all stock plugins: against the plain model, and on more nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from itertools import count

import msgspec
import pytest

from benchmarks.conftest import Gate
from benchmarks.scheduler_decisions import SHAPES, cluster, run, waiting
from benchmarks.scheduler_profile import Shipped
from benchmarks.scheduler_restart import PODS_A_NODE, measure
from koord.api.codec import to_json
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework import column_what_if
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation import single_zone
from koord.kube.codec.decoder import decoder_of
from koord.kube.requests.options import resolve
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import Cluster as NumaCluster
from tests.controllers.scheduler.pods import pod
from tests.controllers.scheduler.preemption.world import Promised
from tests.controllers.scheduler.stock import Stock
from tests.kube.pods import pages
from tests.models.stock_scheduler import Cluster

NODES, PLACED = 200, 100
# Pods a node at most: well below what one of any case has room for.
MOST_A_NODE = 10
RESTARTED = 20
PROMISED = 100
DIFFERENT = 100
QOS = "koordinator.sh/qosClass"


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
        for waits in pods:
            decision = stock.decider.decide(waits)
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
    """Ten more pods of the case, from the queue to the end of their bindings.

    How many calls there will be depends on the machine, so now and then all pods go: the fastest
    round is one without.
    """
    made = shipped(case, nodes)

    def step() -> None:
        if len(made.world.accounts.pods()) > MOST_A_NODE * nodes:
            made.empty()
        asyncio.run(made.place(SHAPES))

    return step


@pytest.mark.parametrize(
    ("case", "at_least"),
    [
        ("shipped", 0.4),
        ("loadaware", 0.4),
        ("numa", 0.3),
        ("gpushare", 0.2),
        ("spread", 0.2),
        ("reservation", 0.4),
    ],
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


def test_load_that_is_reported_hardly_costs_more_on_many_nodes(gate: Gate) -> None:
    """Answers are kept for pods that are alike."""
    gate(
        "scheduler: the whole profile, loadaware in the time of a plain pod, 5,000 nodes",
        through_the_loop("loadaware", 5000),
        through_the_loop("shipped", 5000),
        0.7,
    )


@pytest.mark.parametrize(
    ("case", "at_least"),
    [("loadaware", 0.3), ("numa", 0.25), ("gpushare", 0.15), ("reservation", 0.2)],
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
        40,
    )


def answers(together: bool) -> Callable[[], None]:
    """Brings all answers for a plain pod of the whole profile up to date, ten times."""
    made = shipped("shipped", NODES)
    decider = next(iter(made.scheduler.loop.parts.deciders.values()))
    pods = list(made.world.accounts.pods().values())[:SHAPES]
    apart = Decider(decider.table, decider.accounts, decider.plugins, together=together)

    def step() -> None:
        for placed in pods:
            decider.table.touch(placed.row, Aspect.PODS)
            apart.evaluator.entry(Cycle(placed, decider.table))

    return step


def test_kernels_answer_faster_together_than_plugin_by_plugin(gate: Gate) -> None:
    gate(
        "scheduler: answers for a plain pod by kernels together, against plugin by plugin",
        answers(together=True),
        answers(together=False),
        1.4,
    )


@pytest.mark.parametrize("fits", [False, True])
def test_promised_rows_on_the_columns_against_what_ifs(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    """One decision where no node's promise leaves any room, or the one of the last node alone."""
    stock = cluster(PROMISED)
    info = stock.world.shapes.info
    nominations = Promised()
    for row in range(PROMISED):
        large = pod(f"large-{row}", cpu="40" if fits and row == PROMISED - 1 else "60", priority=10)
        nominations.by_row[row] = [info(large)]
    made = stock.decider
    decider = Decider(made.table, made.accounts, made.plugins, nominations)
    waits = info(pod("p", cpu="20"))

    def decide() -> None:
        assert decider.decide(waits).row == (PROMISED - 1 if fits else -1)

    def what_ifs() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(column_what_if, "of_columns", lambda *asked: None)
            decide()

    gate(
        f"scheduler: {PROMISED} promised nodes on the columns, {'one' if fits else 'none'} fits",
        decide,
        what_ifs,
        3,
    )


def test_a_restart_beside_reading_its_lists(gate: Gate) -> None:
    """From bytes to the first decision, beside decoding whole pods of the same bytes ten times."""
    bodies = list(pages(RESTARTED * PODS_A_NODE))
    whole = decoder_of(resolve(Pod)[0], Pod)

    def read() -> None:
        for _ in range(10):
            for body in bodies:
                assert whole.page(body).items

    gate(
        f"scheduler: a restart with {RESTARTED} nodes, beside decoding its pods ten times",
        lambda: measure(RESTARTED, bodies),
        read,
        1.4,
    )


def test_a_restart_counts_the_pods_of_a_page_together(gate: Gate) -> None:
    """The whole of it, from the bytes of lists, beside telling of one pod after the other."""
    bodies = list(pages(RESTARTED * PODS_A_NODE, by_key=True))
    gate(
        f"scheduler: a restart with {RESTARTED} nodes, beside pods told of one by one",
        lambda: measure(RESTARTED, bodies),
        lambda: measure(RESTARTED, bodies, together=False),
        0.95,
    )


@pytest.mark.parametrize(("policy", "zones"), [("Restricted", 2), ("BestEffort", 8)])
def test_zones_on_machines_that_all_differ(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, policy: str, zones: int
) -> None:
    """A first look where nothing can be kept, beside merging all hints of every node."""
    sizes = count(1)
    clusters = {name: _different(policy, zones) for name in ("ours", "all hints")}

    def look(cluster: NumaCluster) -> None:
        asks = pod("p", cpu="4", memory=f"{next(sizes)}Mi", labels={QOS: "LSR"}, priority=9500)
        cycle = Cycle(cluster.world.shapes.info(asks), cluster.world.table)
        assert cluster.plugin.pre_filter(cycle) is None
        assert cluster.plugin.filter(cycle, slice(0, DIFFERENT)).all()
        cluster.plugin.score(cycle, slice(0, DIFFERENT))

    def all_hints() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(single_zone, "is_applicable", lambda *asked: False)
            look(clusters["all hints"])

    gate(
        f"scheduler: {DIFFERENT} different nodes of {zones} zones, {policy}, beside all hints",
        lambda: look(clusters["ours"]),
        all_hints,
        1.5,
    )


def _different(policy: str, zones: int) -> NumaCluster:
    cluster = NumaCluster()
    for number in range(DIFFERENT):
        memory = f"{16 * 1024 + number}Mi"
        shape, policies = (2, zones // 2, 8, 2), (f"{policy}ContainerLevel",)
        cluster.node(f"n{number}", shape, memory=memory, policies=policies)
    return cluster
