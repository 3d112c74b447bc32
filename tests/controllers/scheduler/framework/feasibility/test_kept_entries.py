# SPDX-License-Identifier: Apache-2.0
"""Answers of shapes that came once, and of those that come again, against some worked out anew."""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds.pod import Pod
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.feasibility import node_bounds
from koord.controllers.scheduler.framework.feasibility.cache import FeasibilityCache
from koord.controllers.scheduler.framework.feasibility.kept_entries import KeptEntries
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.stock import Stock

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
NODES = 70  # more than a block of rows
SHAPES, NEW = 4, 9
SEARCHES = 40  # cost more than an entry


def _cluster() -> Stock:
    stock = Stock()
    for i in range(NODES):
        stock.add(node(f"n{i:02}", cpu=f"{2 + i % 3}", pods="4", labels={ZONE: f"z{i % 3}"}))
    return stock


def _pod(number: int, kind: int) -> Pod:
    """Of one of a few kinds, or for higher numbers of a kind that nothing else is of."""
    app = f"app-{kind if kind < SHAPES else number + SHAPES}"
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    more: dict[str, Any] = {}
    if kind % 3 == 0:
        term = {**selector, "topologyKey": HOSTNAME}
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        more["affinity"] = {"podAntiAffinity": anti}
    if kind % 3 == 1:
        spread = {**selector, "maxSkew": 1, "topologyKey": ZONE}
        more["topologySpreadConstraints"] = [
            {**spread, "whenUnsatisfiable": "DoNotSchedule"},
            {**spread, "whenUnsatisfiable": "ScheduleAnyway"},
        ]
    if kind == 2:
        liked = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}
        soft = [{"weight": 3, "preference": liked}]
        more["affinity"] = {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": soft}
        }
        more["nodeSelector"] = {HOSTNAME: f"n{number % NODES:02}"} if number % 4 == 3 else {}
    # All others of the third sort ask for the same, and differ in nothing that plugins read.
    cpu = 200 if kind % 3 == 2 else 100 + 50 * kind
    return pod(f"p{number}", cpu=f"{cpu}m", labels={"app": app}, **more)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, NEW)),
        st.tuples(st.just("gone"), st.integers(0, 99)),
        st.tuples(st.just("cordon"), st.integers(0, NODES - 1)),
        st.tuples(st.just("taint"), st.integers(0, NODES - 1)),
        st.tuples(st.just("relabel"), st.integers(0, NODES - 1)),
    ),
    min_size=1,
    max_size=25,
)


@given(
    steps=STEPS,
    limit=st.integers(1, 3),
    of_entry=st.sampled_from([2, NODES + 1]),
    bounded=st.sampled_from([1, 64]),
)
def test_decisions_are_those_of_answers_worked_out_anew(
    steps: list[tuple[str, int]], limit: int, of_entry: int, bounded: int
) -> None:
    # Dear searches and cheap entries, and the opposite.
    dear = patch.object(node_bounds, "_BOUNDED", bounded)
    with dear, patch.object(node_bounds, "_OF_ENTRY", of_entry):
        _play(steps, limit)


def _play(steps: list[tuple[str, int]], limit: int) -> None:
    stock, numbers = _cluster(), itertools.count()
    made = stock.decider
    made.evaluator = FeasibilityCache(stock.table, made.plugins.filter, made.plugins.score, limit)
    placed: list[PodInfo] = []
    for what, which in steps:
        if what == "pod":
            info = stock.world.shapes.info(_pod(next(numbers), which))
            decision = made.decide(info)
            # Who asks each plugin by itself makes no use of kernels, nor of what bounds them.
            anew = Decider(stock.table, stock.world.accounts, made.plugins, together=False)
            again = anew.decide(info)
            assert decision.row == again.row
            kept, fresh = made.evaluator, anew.evaluator
            refused = kept.entry(Cycle(info, stock.table)).board.refused.tolist()
            assert refused == fresh.entry(Cycle(info, stock.table)).board.refused.tolist()
            if decision.row >= 0:
                assert made.assume(decision) is None
                placed.append(info)
        elif what == "gone" and placed:
            stock.world.accounts.drop(placed.pop(which % len(placed)))
        else:
            name, more = f"n{which:02}", _changed(what)
            stock.add(node(name, cpu="2", pods="4", **more))


def _changed(what: str) -> dict[str, Any]:
    labels = {"labels": {ZONE: "z9" if what == "relabel" else "z0"}}
    if what == "taint":
        return {**labels, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    return {**labels, "spec": {"unschedulable": True}} if what == "cordon" else labels


def _other(number: int) -> Pod:
    # A score that looks at what is feasible wants a board.
    labels = {"app": f"app-{number}"}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
              "labelSelector": {"matchLabels": labels}}  # fmt: skip
    more = {"labels": labels, "topologySpreadConstraints": [spread]}
    return pod(f"p{number}", cpu=f"{100 + number}m", **more)


def test_a_shape_gets_an_entry_of_its_own_with_its_second_pod() -> None:
    stock = _cluster()
    evaluator = stock.decider.evaluator
    first = [stock.decide(_other(number)) for number in range(3)]
    own = [evaluator.cached_entry(decision.cycle) for decision in first]
    assert own[:2] == [None, None]
    assert own[2] is not None
    # An attempt whose answers are gone does not read another's.
    assert [decision.cycle.board for decision in first] == [None, None, own[2].board]
    again = stock.decide(_other(2))
    assert evaluator.cached_entry(again.cycle) is own[2]
    other = stock.decide(_other(3))
    assert evaluator.cached_entry(other.cycle) not in (None, own[2])
    assert evaluator.cached_entry(again.cycle) is own[2]
    assert again.cycle.board is own[2].board
    one = stock.decide(_other(0))
    assert evaluator.cached_entry(one.cycle) is not None
    assert evaluator.cached_entry(other.cycle) is not None


def test_shapes_that_differ_in_what_no_plugin_reads_share_an_entry() -> None:
    stock = _cluster()
    evaluator = stock.decider.evaluator
    alike = [stock.decide(_pod(number, 5)) for number in range(SEARCHES)]
    assert len({decision.cycle.shape.id for decision in alike}) == SEARCHES
    shared = evaluator.cached_entry(alike[0].cycle)
    assert shared is not None
    assert [evaluator.cached_entry(each.cycle) for each in alike] == [shared] * SEARCHES
    tolerant = stock.decide(pod("t", cpu="200m", tolerations=[{"operator": "Exists"}]))
    assert evaluator.cached_entry(tolerant.cycle) is shared
    stock.add(node("n00", cpu="2", pods="4", taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert stock.decide(_pod(3, 5)).row != 0
    # Now some read tolerations, so it has answers of its own.
    again = stock.decide(pod("u", cpu="200m", tolerations=[{"operator": "Exists"}]))
    assert evaluator.cached_entry(again.cycle) is not evaluator.cached_entry(alike[0].cycle)
    apart = stock.decide(pod("s", cpu="200m", nodeSelector={ZONE: "z1"}))
    assert evaluator.cached_entry(apart.cycle) is None
    assert apart.row % 3 == 1


def test_of_kinds_that_ask_for_room_alone_most_have_no_entry() -> None:
    stock = _cluster()
    made = stock.decider
    made.evaluator = FeasibilityCache(stock.table, made.plugins.filter, made.plugins.score, 2)
    pods = [pod(f"p{number}", cpu=f"{100 + number % 5}m") for number in range(5 * 60)]
    boards = [stock.decide(each).cycle.board for each in pods]
    numbers = [number for number, board in enumerate(boards) if board is not None]
    # Once searches have cost what an entry does.
    assert 20 < numbers[0] < 80
    # The first two that come again are kept; then one in sixteen of the others takes a place.
    assert numbers[1] == numbers[0] + 1
    kept = made.evaluator._entries
    assert len(kept._by_key) == 2
    later = sum(board is not None for board in boards[numbers[0] :]) / (300 - numbers[0])
    assert 0.38 < later < 0.46


def test_what_comes_seldom_is_searched_for_without_an_entry() -> None:
    stock = _cluster()
    evaluator = stock.decider.evaluator
    rows = []
    for number in range(4 * SEARCHES):
        stock.decide(pod(f"p{number}", cpu=f"{100 + number}m"))
        # So much changes in between that an entry would be of no use.
        for row in range(NODES):
            stock.table.touch(row, Aspect.LOAD)
        seldom = stock.decide(pod(f"q{number}", cpu="90m"))
        assert seldom.cycle.board is None
        assert evaluator.cached_entry(seldom.cycle) is None
        rows.append(seldom.row)
    assert len(set(rows)) == 1
    often = [stock.decide(pod(f"r{number}", cpu="90m")) for number in range(SEARCHES)]
    assert often[-1].cycle.board is not None
    assert often[-1].row == rows[0]


def test_what_stays_with_a_node_does_not_keep_an_entry_in_use_that_lies_far_behind() -> None:
    stock = _cluster()
    often = [stock.decide(pod(f"a{number}", nodeSelector={ZONE: "z1"})) for number in range(90)]
    assert often[-1].cycle.board is not None
    for row in range(NODES):
        stock.table.touch(row, Aspect.PODS)
    seldom = stock.decide(pod("b", nodeSelector={ZONE: "z1"}))
    assert seldom.cycle.board is None
    assert seldom.row == often[-1].row


def test_of_more_kinds_of_pods_than_are_kept_some_are_found_again() -> None:
    stock = _cluster()
    made, kept = stock.decider, 16
    made.evaluator = FeasibilityCache(stock.table, made.plugins.filter, made.plugins.score, kept)
    infos = [stock.world.shapes.info(_other(number)) for number in range(kept + 4)]
    found = 0
    for turn in range(10):
        for info in infos:
            entry = made.evaluator.cached_entry(Cycle(info, stock.table))
            found += turn > 3 and entry is not None
            made.decide(info)
    # In turn, so that each is the one longest unused when it comes.
    assert found > 6 * len(infos) // 4
    assert len(made.evaluator._entries._by_key) == kept


def test_entries_are_kept_by_what_their_boards_have() -> None:
    stock = _cluster()
    kept = stock.decider.evaluator._entries = KeptEntries(512, size=0)
    infos = [stock.world.shapes.info(_other(number)) for number in range(60)]
    for info in infos[:2] * 2:
        stock.decider.decide(info)
    of_one = next(iter(kept._by_key.values())).board.bytes
    assert kept.size == of_one
    # So many stay, however little they may have.
    for info in infos * 2:
        stock.decider.decide(info)
    assert len(kept._by_key) == 16
    assert kept.size == 15 * of_one
    kept = stock.decider.evaluator._entries = KeptEntries(512, size=30 * of_one)
    for _ in range(4):
        for info in infos:
            stock.decider.decide(info)
            assert kept.size == sum(kept._sizes.values()) <= 30 * of_one
            assert kept._sizes.keys() == kept._by_key.keys()
    assert 28 <= len(kept._by_key) <= 30
    # Other columns: all are made anew, and counted once.
    stock.add(node("new", cpu="2", pods="4", allocatable={"example.com/card": "1"}))
    for info in infos * 2:
        stock.decider.decide(info)
    assert kept.size == sum(kept._sizes.values()) <= 30 * max(kept._sizes.values())
