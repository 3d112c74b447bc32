# SPDX-License-Identifier: Apache-2.0
"""Nodes in classes of equal state: the same decisions as from a board of all rows."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.feasibility import node_classes
from koord.controllers.scheduler.framework.feasibility.cache import FeasibilityCache
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.stock import Stock

NODES, KINDS = 96, 12


def _cluster(large: int = 0) -> Stock:
    stock = Stock()
    # Names come in another order than rows.
    for i in range(NODES):
        stock.add(node(f"n{i * 37 % NODES:02}", cpu=f"{2 + i % 2}", pods="4"))
    made = stock.decider
    made.evaluator = FeasibilityCache(
        stock.table, made.plugins.filter, made.plugins.score, limit=1, large=large
    )
    return stock


def _info(stock: Stock, number: int, kind: int, **more: Any) -> PodInfo:
    return stock.world.shapes.info(pod(f"p{number}", cpu=f"{100 + 150 * kind}m", **more))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, KINDS)),
        st.tuples(st.just("pod"), st.integers(0, KINDS)),
        st.tuples(st.just("gone"), st.integers(0, 99)),
        st.tuples(st.just("bigger"), st.integers(0, NODES - 1)),
        st.tuples(st.just("closed"), st.integers(0, NODES - 1)),
        st.tuples(st.just("new"), st.integers(0, 9)),
        st.tuples(st.just("tainted"), st.integers(0, NODES - 1)),
        st.tuples(st.just("what if"), st.integers(0, KINDS)),
    ),
    min_size=10,
    max_size=60,
)


def _step(stock: Stock, number: int, what: str, which: int, placed: list[PodInfo]) -> None:
    if what == "pod":
        info = _info(stock, number, which)
        decision = stock.decider.decide(info)
        plugins = stock.decider.plugins
        anew = Decider(stock.table, stock.world.accounts, plugins, together=False)
        assert decision.row == anew.decide(info).row
        if decision.row >= 0:
            assert stock.decider.assume(decision) is None
            placed.append(info)
    elif what == "gone" and placed:
        stock.world.accounts.drop(placed.pop(which % len(placed)))
    elif what == "what if" and placed:
        with stock.world.accounts.what_if():
            stock.world.accounts.drop(placed[which % len(placed)])
            stock.decider.decide(_info(stock, 1000 + number, which))
    elif what == "closed" and stock.table.row(f"n{which:02}") is not None:
        row = stock.table.row(f"n{which:02}")
        placed[:] = [info for info in placed if info.uid not in stock.table.pods[row]]
        for info in list(stock.table.pods[row].values()):
            stock.world.accounts.drop(info)
        stock.table.remove(f"n{which:02}")
    elif what == "new":
        stock.add(node(f"m{which}", cpu="3", pods="4"))
    elif what in ("bigger", "tainted"):
        taints = [{"key": "k", "effect": "NoSchedule"}] if what == "tainted" else []
        stock.add(node(f"n{which:02}", cpu="5", pods="4", taints=taints))


@given(
    steps=STEPS, rows_a_class=st.sampled_from([2, 2, 24]), large=st.sampled_from([0, NODES + 20])
)
def test_decisions_are_those_of_a_look_at_all_rows(
    steps: list[tuple[str, int]], rows_a_class: int, large: int
) -> None:
    stock, placed = _cluster(large), list[PodInfo]()
    with (
        patch.object(node_classes, "_ROWS_A_CLASS", rows_a_class),
        patch.object(node_classes, "_PAUSE", 3),
    ):
        for number, (what, which) in enumerate(steps):
            _step(stock, number, what, which, placed)


def test_pods_of_kinds_that_are_not_kept_make_no_board() -> None:
    stock = _cluster()
    evaluator = stock.decider.evaluator
    kinds = [_info(stock, number, number % 4) for number in range(48)]
    boards = []
    for info in kinds:
        decision = stock.decider.decide(info)
        assert stock.decider.assume(decision) is None
        boards.append(decision.cycle.board)
    # One kind has the one board that is kept, once searches have cost as much.
    assert sum(board is not None for board in boards) == 5
    assert len(evaluator._entries._by_key) == 1


def test_small_tables_have_no_classes() -> None:
    stock = _cluster(large=NODES + 1)
    stock.decider.decide(_info(stock, 0, 0))
    assert not stock.decider.evaluator._classes.is_large
    assert stock.decider.evaluator._classes._classes is None


def test_a_pod_that_somebody_else_decides_about_is_not_placed_by_classes() -> None:
    stock = _cluster()
    named = stock.decider.decide(_info(stock, 0, 0, nodeName="n07"))
    assert stock.table.name(named.row) == "n07"
    assert stock.decider.evaluator._classes._classes is None
    stock.add(node("n05", cpu="9", pods="4", taints=[{"key": "k", "effect": "NoSchedule"}]))
    kept_out = stock.decider.decide(_info(stock, 1, 1))
    assert stock.table.name(kept_out.row) == "n01"


def test_what_fits_nowhere_is_told_by_all_rows() -> None:
    stock = _cluster()
    assert "0/96 nodes are available: 96 Insufficient cpu" in stock.where(pod("p", cpu="9"))


def test_too_many_classes_are_given_up_and_tried_again() -> None:
    stock = _cluster()
    classes = stock.decider.evaluator._classes
    for i in range(NODES):
        stock.add(node(f"n{i:02}", cpu=f"{2 + i}", pods="4"))
    assert stock.decider.decide(_info(stock, 0, 0)).row >= 0
    assert classes._classes is None
    for i in range(NODES):
        stock.add(node(f"n{i:02}", cpu="4", pods="4"))
    for number in range(node_classes._PAUSE):
        assert stock.decider.decide(_info(stock, number, 20 + number)).row >= -1
    assert stock.decider.decide(_info(stock, 1000, 5)).cycle.board is None
    assert classes._classes is not None
