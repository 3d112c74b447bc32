# SPDX-License-Identifier: Apache-2.0
"""The decision loop with plugins made for it: what is asked, what is kept, what is undone."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from koord.controllers.cluster.node_table import CPU, Aspect, NodeTable
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from tests.controllers.scheduler.pods import info, node, pod, table


class Room:
    """CPU alone."""

    name = "Room"
    depends = Aspect.NODE | Aspect.PODS
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self) -> None:
        self.asked: list[int] = []

    def applies(self, cycle: Cycle) -> bool:
        return True

    def generation(self, cycle: Cycle) -> int:
        return 0

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        free = cycle.table.allocatable[CPU, rows] - cycle.table.requested[CPU, rows]
        self.asked.append(len(free))
        return cycle.shape.request.get("cpu", 0) <= free

    def diagnose(self, cycle: Cycle, rows: Any) -> list[Rejection]:
        return [Rejection(self.name, ("Insufficient cpu",)) for _ in rows]

    def score(self, cycle: Cycle, rows: Any) -> Any:
        held = cycle.table.allocatable[CPU, rows]
        free = held - cycle.table.requested[CPU, rows] - cycle.shape.request.get("cpu", 0)
        return free * 100 // np.maximum(held, 1)


class Odd:
    """Lets nobody onto rows of even number; one row at a time."""

    name = "Odd"
    depends = Aspect.NODE

    def __init__(self) -> None:
        self.asked: list[int] = []

    def applies(self, cycle: Cycle) -> bool:
        return "odd" in cycle.shape.labels

    def generation(self, cycle: Cycle) -> int:
        return 0

    def filter_node(self, cycle: Cycle, row: int) -> Rejection | None:
        self.asked.append(row)
        return None if row % 2 else Rejection(self.name, ("even",), unresolvable=True)


def decider(nodes: NodeTable, *filters: Any) -> Decider:
    plugins = ProfilePlugins(filter=filters, score=[(filters[0], 1)])
    return Decider(nodes, Accounts(nodes), plugins)


def place(decides: Decider, waiting: PodInfo) -> int:
    decision = decides.decide(waiting)
    if decision.row >= 0:
        assert decides.assume(decision) is None
    return decision.row


def test_the_emptiest_node_and_the_first_by_name() -> None:
    nodes = table(*(node(f"n{i}", cpu="4") for i in range(3)))
    room = Room()
    decides = decider(nodes, room)
    rows = [place(decides, info(pod(f"p{i}", cpu="2"))) for i in range(6)]
    assert rows == [0, 1, 2, 0, 1, 2]
    last = decides.decide(info(pod("p9", cpu="2")))
    assert last.row == -1
    assert last.diagnosis is not None
    assert last.diagnosis.message() == "0/3 nodes are available: 3 Insufficient cpu."


def test_only_the_changed_row_is_asked_about_again() -> None:
    nodes = table(*(node(f"n{i}") for i in range(200)))
    room = Room()
    decides = decider(nodes, room)
    for i in range(3):
        place(decides, info(pod(f"p{i}", cpu="1")))
    assert room.asked == [200, 1, 1]


def test_a_per_node_filter_sees_survivors_once() -> None:
    nodes = table(*(node(f"n{i}", cpu="1" if i < 2 else "8") for i in range(6)))
    odd = Odd()
    decides = decider(nodes, Room(), odd)
    assert place(decides, info(pod("a", cpu="2", labels={"odd": ""}))) == 3
    assert odd.asked == [2, 3, 4, 5]
    assert place(decides, info(pod("b", cpu="2", labels={"odd": ""}))) == 5
    assert odd.asked == [2, 3, 4, 5]


def test_nodes_that_come_and_go() -> None:
    nodes = table(node("a", cpu="1"), node("b", cpu="8"))
    decides = decider(nodes, Room())
    waiting = info(pod("p", cpu="4"))
    assert decides.decide(waiting).row == 1
    nodes.remove("b")
    assert decides.decide(waiting).row == -1
    nodes.put(node("c", cpu="8"))
    assert nodes.name(decides.decide(waiting).row) == "c"


def test_a_what_if_leaves_nothing_behind() -> None:
    nodes = table(node("a", cpu="4"))
    decides = decider(nodes, Room())
    first, second = info(pod("p", cpu="3")), info(pod("q", cpu="3"))
    place(decides, first)
    before = nodes.requested.copy()
    with decides.accounts.what_if():
        decides.accounts.drop(first)
        assert place(decides, second) == 0
    assert (nodes.requested == before).all()
    assert first.row == 0
    assert second.row == -1
    assert decides.decide(second).row == -1
