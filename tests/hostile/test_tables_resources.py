# SPDX-License-Identifier: Apache-2.0
"""Resource names that pods write: no column for what no node offers, and none that stays."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.cluster.node_table import ABSENT, PODS, NodeTable
from koord.controllers.cluster.pods import CountedRequests, PodInfo, Shapes
from koord.controllers.scheduler.framework.feasibility import participants
from koord.controllers.scheduler.framework.rejection import MOST_REASONS
from koord.controllers.scheduler.plugins.noderesources import fit
from koord.controllers.scheduler.plugins.reservation.state.columns import ReservationColumns
from koord.controllers.scheduler.plugins.reservation.state.fit import IgnoredResources
from koord.controllers.scheduler.queue.events import NODE, Action, ClusterEvent
from tests.controllers.scheduler.plugins.event_hints import wakes
from tests.controllers.scheduler.plugins.reservation.bench import slots_of
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.stock import Stock
from tests.hostile.growth import at_least, churn

NAMES, NODES, STEPS = 5_000, 20, 100_000


def greedy(name: str, first: int = 0) -> Pod:
    """A pod of some 200 KB that requests thousands of resources that nobody offers."""
    numbers = range(first, first + NAMES)
    return pod(name, cpu="1", requests={f"tenant.example/resource-{i:06}": "1" for i in numbers})


def test_names_that_no_node_offers_get_no_column() -> None:
    stock = Stock(only=("NodeResourcesFit", "NodeResourcesBalancedAllocation"))
    stock.add(*(node(f"n{i}") for i in range(NODES)))
    table = stock.table
    columns, layout = table.allocatable.shape, table.layout
    for i in range(4):
        said = stock.where(greedy(f"greedy-{i}", i * NAMES))
        assert said.startswith("0/20 nodes are available: 20 Insufficient tenant.example/resource-")
        assert said.count("20 Insufficient tenant.example/resource-") == MOST_REASONS
        assert said.endswith(f" and {NAMES - MOST_REASONS} more.")
    assert (table.allocatable.shape, table.layout) == (columns, layout)
    assert stock.where(pod("good", cpu="1")) == "n0"


def test_what_is_kept_by_lists_of_names_is_bounded_by_the_names() -> None:
    """As many lists as there are shapes would be 256 times what one pod's names take."""
    stock = Stock(only=("NodeResourcesFit",))
    stock.add(node("n0"))
    sizes, own = [], [tracemalloc.Filter(True, fit.__file__)]
    tracemalloc.start()
    for number in range(10):
        stock.where(greedy(f"greedy-{number}", number * NAMES))
        kept = tracemalloc.take_snapshot().filter_traces(own).statistics("filename")
        sizes.append(sum(each.size for each in kept))
    tracemalloc.stop()
    assert sizes[0] > 0
    # What is remembered of large pods has room for five of these.
    assert sizes[-1] <= 5 * sizes[0], sizes


def test_kinds_of_pods_are_bounded_by_the_names_that_they_request() -> None:
    """Kinds are known by the names: those of a thousand pods would be a gigabyte."""
    stock = Stock(only=("NodeResourcesFit",))
    stock.add(node("n0"))
    table = stock.decider._participants
    for number in range(0, 100 * 500, 500):
        names = {f"tenant.example/resource-{number + i:06}": "1" for i in range(500)}
        stock.where(pod(f"greedy-{number}", cpu="1", requests=names))
        kinds = table._kinds
        assert kinds.size == sum(len(key[1]) for key in kinds._entries) <= participants._NAMES
    assert 20 < len(kinds) < 100


def test_kinds_of_pods_are_bounded_by_their_number() -> None:
    stock = Stock(only=("NodeResourcesFit",))
    stock.add(node("n0"))
    for number in range(participants._KINDS + 100):
        stock.where(pod(f"p{number}", cpu="1", requests={f"tenant.example/r-{number}": "1"}))
    assert len(stock.decider._participants._kinds) == participants._KINDS


def test_reasons_are_in_order_and_only_what_is_short() -> None:
    stock = Stock(only=("NodeResourcesFit",))
    stock.add(node("n0", cpu="1", allocatable={"example.com/b": "1"}))
    wanted = {"example.com/a": "1", "example.com/b": "2", "example.com/c": "1", "memory": "1Ti"}
    assert stock.where(pod("p", cpu="2", requests=wanted)) == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/a, "
        "1 Insufficient example.com/b, 1 Insufficient example.com/c, 1 Insufficient memory."
    )
    decision = stock.decide(pod("q", requests={"example.com/a": "1"}))
    assert decision.diagnosis is not None
    assert decision.diagnosis.by_row[0].unresolvable


def test_a_pod_waits_for_a_node_that_offers_the_name() -> None:
    stock = Stock(only=("NodeResourcesFit",))
    bare, offering = node("n0"), node("n0", allocatable={"example.com/a": "1"})
    stock.add(bare, node("n1"))
    waiting = stock.world.shapes.info(pod("p", requests={"example.com/a": "1"}))
    plugin = stock.plugins["NodeResourcesFit"]
    offers = ClusterEvent(NODE, Action.UPDATE_NODE_ALLOCATABLE)
    assert stock.where(waiting.pod) == "0/2 nodes are available: 2 Insufficient example.com/a."
    assert not wakes(plugin, waiting, offers, bare, node("n0", cpu="64"))
    assert wakes(plugin, waiting, offers, bare, offering)
    stock.add(offering)
    assert stock.place(waiting.pod) == "n0"
    assert stock.where(pod("q", requests={"example.com/a": "1"})) == (
        "0/2 nodes are available: 2 Insufficient example.com/a."
    )
    stock.add(bare)
    assert stock.where(waiting.pod) == "0/2 nodes are available: 2 Insufficient example.com/a."


def test_what_pods_hold_of_a_name_counts_when_a_node_offers_it() -> None:
    stock = Stock(only=("NodeResourcesFit",))
    stock.add(node("n0"))
    stock.put(pod("early", requests={"example.com/a": "3"}), "n0")
    assert stock.table.resource("example.com/a") == ABSENT
    assert stock.table.requested_by_name(0)["example.com/a"] == 3
    stock.add(node("n0", allocatable={"example.com/a": "4"}))
    assert stock.where(pod("two", requests={"example.com/a": "2"})).startswith("0/1 nodes")
    assert stock.where(pod("one", requests={"example.com/a": "1"})) == "n0"


class Accounts:
    """A table, and by name what each of its pods requests."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.shapes = Shapes()
        self.pods: dict[str, tuple[int, PodInfo]] = {}
        self.numbers = count()

    def add(self, row: int, names: list[str]) -> None:
        name = f"p{next(self.numbers)}"
        info = self.shapes.info(pod(name, requests=dict.fromkeys(names, "2")))
        self.table.add(row, info)
        self.pods[name] = row, info

    def drop(self, name: str) -> None:
        self.table.drop(*self.pods.pop(name))

    def offer(self, name: str, names: list[str]) -> None:
        self.table.put(node(name, allocatable=dict.fromkeys(names, "8")))

    def remove(self, name: str) -> None:
        row = self.table.row(name)
        self.table.remove(name)
        self.pods = {name: each for name, each in self.pods.items() if each[0] != row}

    def check(self) -> None:
        """Everything that is offered and requested is what nodes and pods say."""
        table = self.table
        for row in np.flatnonzero(table.open).tolist():
            wanted: Counter[str] = Counter()
            for _, info in [each for each in self.pods.values() if each[0] == row]:
                wanted.update({"pods": 1, **info.shape.request})
            held = table.requested_by_name(row)
            assert {name: n for name, n in held.items() if n} == wanted
            known: Node | None = table.nodes[row]
            assert known is not None
            for name in known.status.allocatable:
                assert table.allocatable[table.resource(name), row] > 0
        assert not table.requested[ABSENT].any()
        assert not table.allocatable[ABSENT].any()


def test_amounts_are_kept_whatever_comes_and_goes() -> None:
    draw = random.Random(7)
    accounts = Accounts()
    names = [f"example.com/{i}" for i in range(60)]
    for step in range(600):
        some = draw.sample(names, draw.randrange(30))
        act = draw.randrange(5)
        nodes = accounts.table.names()
        if act == 0 or not nodes:
            accounts.offer(f"n{draw.randrange(4)}", some)
        elif act == 1 and draw.random() < 0.3:
            accounts.remove(draw.choice(nodes))
        elif act in (2, 3):
            row = accounts.table.row(draw.choice(nodes))
            assert row is not None
            accounts.add(row, some)
        elif accounts.pods:
            accounts.drop(draw.choice(sorted(accounts.pods)))
        if step % 5 == 0:
            accounts.check()
    accounts.check()


def test_names_of_pods_are_forgotten_with_them() -> None:
    table, shapes = NodeTable(), Shapes(limit=64)
    row = table.put(node("n0"))
    before = table.requested_by_name(row)
    layout = table.layout
    info = shapes.info(pod("p"))
    for i in range(STEPS):
        # What a pod counts as, without the work of decoding one.
        info.counted = CountedRequests({f"example.com/{i}": 1}, (0, 0))
        table.add(row, info)
        table.drop(row, info)
    assert table.requested_by_name(row) == before
    assert (len(table.resources), table.layout) == (PODS + 2, layout)


def test_columns_of_nodes_are_given_back() -> None:
    table = NodeTable()
    columns = table._columns
    first = len(table.resources)
    table.put(node("other", allocatable={"example.com/other": "1"}))
    row = table.put(node("n0"))
    sizes, keys = set(), set()
    for i in range(STEPS):
        # What a node offers, without the work of decoding it.
        columns.offer(row, {"cpu": 1000, "pods": 110, f"example.com/{i}": 1})
        sizes.add(len(columns.names))
        keys.add(columns._space.shape[1])
    assert max(sizes) <= first + 2 * 16 + 2
    assert max(keys) <= 128
    table.remove("n0")
    table.put(node("n1"))
    assert len(table.resources) <= first + 2 * 16 + 2
    assert table.allocatable[table.resource("example.com/other")].sum() == 1


def test_many_names_grow_the_columns_in_few_steps() -> None:
    table = NodeTable()
    shapes = set()
    for i in range(2_000):
        table.put(node(f"n{i}", allocatable={f"example.com/{i}": "1"}))
        shapes.add(table._columns._space.shape[1:])
    # Doubling: rows from 64 to 2,048 and columns from 5 to 2,560.
    assert len(shapes) <= 20
    for i in range(2_000):
        table.remove(f"n{i}")
    assert len(table.resources) <= PODS + 2 + 16


def _record(uid: str, held: dict[str, int]) -> Any:
    """What columns read of a reservation that nobody has used yet."""
    return SimpleNamespace(
        uid=uid, held=held, used=dict.fromkeys(held, 0), seats=None, is_free=True,
        remaining=lambda: held, limits=lambda: held,
    )  # fmt: skip


def test_resources_of_reservations_are_forgotten_with_them() -> None:
    columns = ReservationColumns(NodeTable())
    stays = _record("stays", {"cpu": 4})
    columns.changed(stays)

    def step(i: int) -> None:
        record = _record(f"uid-{i}", {f"example.com/{i}": 1, "cpu": 1})
        columns.changed(record)
        slots_of(columns, record)
        columns.drop(record.uid)

    churn(step, columns, steps=at_least(20_000))
    assert sorted(columns._index) == ["cpu", "pods"]
    assert columns.scores(slots_of(columns, stays), {"cpu": 2}).tolist() == [50]


def test_a_reservation_holds_nothing_of_what_its_node_no_longer_offers() -> None:
    table = NodeTable()
    table.put(node("n0"))
    row = np.array([0], np.intp)
    columns = ReservationColumns(table)
    slots = slots_of(columns, _record("r", {"example.com/a": 2}))
    request = {"example.com/a": 1}
    found = columns.fits(slots, row, request, IgnoredResources())
    assert (found.within[0], found.shares[0]) == (True, True)
    assert (found.alone[0], found.beside[0]) == (False, False)
    assert not columns.given_back(slots)[ABSENT].any()
    table.put(node("n0", allocatable={"example.com/a": "2"}))
    assert columns.fits(slots, row, request, IgnoredResources()).beside[0]
    assert columns.given_back(slots)[table.resource("example.com/a")].tolist() == [2]
