# SPDX-License-Identifier: Apache-2.0
"""A hot spot on ten small machines: planned rounds take it off, and move nothing back."""

from __future__ import annotations

from koord.simulator.colocation.descheduling.comparison import descheduled_day, undone
from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
from koord.simulator.colocation.descheduling.service_replicas import PodMove
from tests.simulator.colocation.days import day

_NODES = [{"count": 10, "cpu": 32, "memory": "128Gi"}]
_SPOT = {"machines": 2, "every": "3h", "extra": 0.9}


def test_planned_rounds_take_the_hot_spot_off() -> None:
    scenario = day(
        nodes=_NODES, hotSpot=_SPOT, hours=1.5, step="60s", batch=[],
        servicesRequestShareOfClusterCPU=0.7,
    )  # fmt: skip
    without = descheduled_day(scenario, 1, DeschedulingMode.NONE)
    planned = descheduled_day(scenario, 1, DeschedulingMode.PLANNED)
    assert without.hot_percent[0] > 10
    assert without.moves == 0
    assert planned.hot_percent[0] < without.hot_percent[0] / 2
    assert planned.moves > 0
    assert planned.undone == 0


def test_moves_that_are_undone_within_an_hour_count() -> None:
    there, back = PodMove(0.0, 7, 1, 2), PodMove(3000.0, 7, 2, 1)
    assert undone([there, back]) == 1
    assert undone([there, back._replace(seconds=3600.0)]) == 0
    assert undone([there, back._replace(row=8)]) == 0
