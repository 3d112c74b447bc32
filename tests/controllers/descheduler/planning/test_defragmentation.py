# SPDX-License-Identifier: Apache-2.0
"""Planned moves against fragmentation: literal examples, and a model of what must hold."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.controllers.descheduler.planning.defragmentation import (
    Defragmentation,
    DefragmentingMove,
    MovablePod,
    PodKind,
)
from koord.kernels.devices import Fragmentation, PodShape, TypicalPods
from koord.kernels.placement import NodeTable, Placement
from tests.profiles import examples

WHOLE, HALF, PLAIN = PodShape(4000, 1000, 1), PodShape(4000, 500, 1), PodShape(8000)
ASKS = (WHOLE, HALF, PLAIN)


class Cluster:
    """Nodes of two GPUs, with pods put on them by hand."""

    def __init__(self, *cores: int, typical: dict[PodShape, float] | None = None) -> None:
        self.table = NodeTable(["cpu"])
        for at, count in enumerate(cores):
            self.table.add_node(f"n{at}", {"cpu": count * 1000}, gpus=2, model="T4")
        self.models = ["T4"] * len(cores)
        self.kinds = [
            PodKind(
                self.table.shape(
                    {"cpu": asks.cpu_milli}, gpus=asks.gpu_count, gpu_milli=asks.gpu_milli or 1000
                ),
                asks,
            )
            for asks in ASKS
        ]
        self.pods: list[MovablePod] = []
        self.fragmentation = Fragmentation(TypicalPods(typical or {WHOLE: 0.5, HALF: 0.5}))

    def put(self, kind: int, row: int, *gpus: int) -> None:
        place = Placement(row, self.kinds[kind].shape, gpus)
        self.table.commit(place)
        self.pods.append(MovablePod(kind, place))

    def plan(self, count: int) -> list[DefragmentingMove]:
        planner = Defragmentation(
            self.table, self.models, self.kinds, self.pods, self.fragmentation
        )
        planner.plan(count)
        return planner.moves

    def amount(self) -> float:
        free = self.table.free("cpu")
        return sum(
            self.fragmentation.amount(int(free[row]), self.table.gpus_free(row), "T4")
            for row in range(len(self.table))
        )


def test_a_half_joins_another_so_that_a_whole_gpu_is_free() -> None:
    # Only whole GPUs are asked for: two halves on two nodes waste two halves, together none.
    cluster = Cluster(16, 16, typical={WHOLE: 1.0})
    cluster.put(1, 0, 0)
    cluster.put(1, 1, 1)
    (move,) = cluster.plan(5)
    assert (move.pod, move.source.row, move.target) == (
        0, 0, Placement(1, cluster.kinds[1].shape, (1,)),
    )  # fmt: skip
    assert move.gain_milli == pytest.approx(1000.0)
    assert cluster.amount() == 0.0


def test_a_pod_without_gpu_leaves_the_cpu_that_idle_gpus_need() -> None:
    # n0 has two idle GPUs and no CPU left for them; n1 has CPU to spare and no idle GPU.
    cluster = Cluster(8, 32, typical={WHOLE: 1.0})
    cluster.put(2, 0)
    cluster.put(0, 1, 0)
    cluster.put(0, 1, 1)
    (move,) = cluster.plan(5)
    assert (move.pod, move.target.row) == (0, 1)
    assert move.gain_milli == pytest.approx(2000.0)


def test_nothing_moves_where_nothing_gains() -> None:
    cluster = Cluster(16, 16, typical={WHOLE: 1.0})
    cluster.put(0, 0, 0)
    assert cluster.plan(5) == []
    assert Cluster(16, 16).plan(5) == []


@st.composite
def filled(draw: st.DrawFn) -> Cluster:
    """Pods wherever they fit."""
    cluster = Cluster(*draw(st.lists(st.integers(8, 40), min_size=2, max_size=5)))
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.integers(0, 2))
        row = draw(st.integers(0, len(cluster.table) - 1))
        if not cluster.table.filter(cluster.kinds[kind].shape)[row]:
            continue
        free, asks = cluster.table.gpus_free(row), ASKS[kind]
        fits = [gpu for gpu, milli in enumerate(free) if milli >= asks.gpu_milli]
        cluster.put(kind, row, *([draw(st.sampled_from(fits))] if asks.gpu_count else []))
    return cluster


@settings(max_examples=examples(0.5))
@given(filled())
def test_moves_are_possible_in_turn_and_gains_add_up(cluster: Cluster) -> None:
    before = cluster.amount()
    free = [(int(cluster.table.free("cpu")[row]), cluster.table.gpus_free(row))
            for row in range(len(cluster.table))]  # fmt: skip
    moves = cluster.plan(6)
    for number, move in enumerate(moves):
        asks = ASKS[cluster.pods[move.pod].kind]
        for place, sign in ((move.source, 1), (move.target, -1)):
            cpu, gpus = free[place.row]
            for minor in place.gpus:
                gpus[minor] += sign * asks.gpu_milli
            free[place.row] = cpu + sign * asks.cpu_milli, gpus
            assert free[place.row][0] >= 0
            assert all(0 <= milli <= 1000 for milli in gpus)
        assert len(move.target.gpus) == asks.gpu_count
        assert move.source.row != move.target.row
        earlier = {at for at in range(number) if moves[at].source.row == move.target.row}
        assert set(move.requires) == earlier
    assert max(Counter(move.pod for move in moves).values(), default=1) == 1
    assert before - cluster.amount() == pytest.approx(sum(move.gain_milli for move in moves))
    assert sum(move.gain_milli for move in moves) >= 0
