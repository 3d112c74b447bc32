# SPDX-License-Identifier: Apache-2.0
"""Kernels that answer together say what their plugins say one by one, whoever takes part."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.node_table import CPU, PODS, Aspect, NodeTable
from koord.controllers.cluster.pods import PodInfo, PodShape
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.noderesources.request_columns import evaluate_rows
from koord.kernels.placement_board import LEAST, RoomCheck, RoomScore
from tests.controllers.scheduler.pods import info, node, pod, table


class Room:
    """CPU and pods, by kernels."""

    name = "Room"
    depends = Aspect.NODE | Aspect.PODS
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self) -> None:
        self.calls = 0

    def generation(self, cycle: Cycle) -> object:
        return cycle.overlay_generation

    def fit_kernel(self, shape: PodShape) -> RoomCheck:
        return RoomCheck([(CPU, shape.request["cpu"]), (PODS, 1)])

    def score_kernel(self, shape: PodShape) -> RoomScore:
        return RoomScore(LEAST, [(CPU, shape.request["cpu"], 1, False)], [])

    def applies(self, cycle: Cycle) -> bool:
        return True

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        self.calls += 1
        return evaluate_rows(cycle, rows, self.fit_kernel(cycle.shape).check)

    def score(self, cycle: Cycle, rows: Any) -> Any:
        self.calls += 1
        return evaluate_rows(cycle, rows, self.score_kernel(cycle.shape).score)

    def diagnose(self, cycle: Cycle, rows: Any) -> list[Rejection]:
        return [Rejection(self.name, ("full",))] * len(rows)


class Moody:
    """Refuses even rows, and rates the others by number, while in the mood."""

    name = "Moody"
    depends = Aspect.NODE
    normalization: ClassVar[Normalization] = Normalization.MIN_MAX

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._mood = False

    def swing(self) -> None:
        self._mood = not self._mood
        self._nodes.advance_generation()

    def idle_points(self, shape: PodShape) -> Collection[str]:
        return () if self._mood else ("filter", "score")

    def applies(self, cycle: Cycle) -> bool:
        return True

    def generation(self, cycle: Cycle) -> int:
        return 0

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        return np.arange(cycle.table.size)[rows] % 2 == 1

    def score(self, cycle: Cycle, rows: Any) -> Any:
        return np.arange(cycle.table.size)[rows]

    def diagnose(self, cycle: Cycle, rows: Any) -> list[Rejection]:
        return [Rejection(self.name, ("even",))] * len(rows)


class World:
    """One table, decided about by two deciders that differ in how kernels are asked."""

    def __init__(self) -> None:
        self.table = table(*(node(f"n{i}", cpu="4", pods=5) for i in range(5)))
        self.moody, self.room = Moody(self.table), Room()
        self.accounts = Accounts(self.table)
        plugins = [self.moody, self.room]
        made = ProfilePlugins(filter=plugins, score=[(self.moody, 1), (self.room, 2)])
        self.deciders = [
            Decider(self.table, self.accounts, made, together=t) for t in (True, False)
        ]
        self.placed: list[PodInfo] = []

    def place(self, number: int, cpu: int, given_rows: Sequence[int]) -> None:
        pods = [info(pod(f"p{number}", cpu=str(cpu))) for _ in self.deciders]
        decisions = []
        for decider, each in zip(self.deciders, pods, strict=True):
            cycle = Cycle(each, self.table)
            if given_rows:
                cycle.set_overlay(
                    lambda row: _CPU if row in given_rows else None, tuple(given_rows)
                )
            decisions.append(decider.attempt(cycle))
        mine, plain = decisions
        assert mine.row == plain.row
        if mine.row < 0:
            assert mine.diagnosis is not None
            assert plain.diagnosis is not None
            assert mine.diagnosis.message() == plain.diagnosis.message()
            return
        # Where room alone decides there is no board until somebody asks for the answers.
        board = mine.cycle.board or self.deciders[0].evaluator.entry(mine.cycle).board
        assert plain.cycle.board is not None
        assert (board.refused == plain.cycle.board.refused).all()
        assert self.deciders[0].assume(mine) is None
        self.placed.append(pods[0])


_CPU = np.array([1000, 0, 0, 0], np.int64)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(1, 2), st.sets(st.integers(0, 4), max_size=2)),
        st.tuples(st.sampled_from(["drop", "swing", "node"]), st.integers(0, 6), st.just(set())),
    ),
    max_size=25,
)


@given(steps=_STEPS)
def test_together_and_one_by_one(steps: list[tuple[str, int, set[int]]]) -> None:
    world = World()
    for number, (what, choice, given_rows) in enumerate(steps):
        if what == "place":
            world.place(number, choice, sorted(given_rows))
        elif what == "drop" and world.placed:
            world.accounts.drop(world.placed.pop(choice % len(world.placed)))
        elif what == "swing":
            world.moody.swing()
        elif what == "node":
            world.table.put(node(f"n{choice}", cpu="4", pods=5))


def test_kernels_answer_in_their_plugins_stead() -> None:
    world = World()
    world.deciders.pop()
    decider, pods = world.deciders[0], [info(pod(f"p{i}", cpu="1")) for i in range(6)]
    rows = [decider.decide(each).row for each in pods[:1]]
    world.accounts.add(rows[0], pods[0])
    assert decider.decide(pods[1]).row == 1
    assert world.room.calls == 0


def test_who_has_nothing_to_say_any_more_takes_it_back() -> None:
    world = World()
    decider, waiting = world.deciders[0], info(pod("p", cpu="1"))
    assert decider.decide(waiting).row == 0
    world.moody.swing()
    assert decider.decide(waiting).row == 3
    world.moody.swing()
    assert decider.decide(waiting).row == 0
