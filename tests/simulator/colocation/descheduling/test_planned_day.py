# SPDX-License-Identifier: Apache-2.0
"""A hot spot on ten small machines: planned rounds take it off, and move nothing back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.simulator.colocation.descheduling.comparison import (
    DeschedulingResult,
    compare,
    undone,
)
from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
from koord.simulator.colocation.descheduling.service_replicas import PodMove
from koord.simulator.colocation.descheduling.service_scheduler import ServiceScheduler
from koord.simulator.colocation.inputs.scenario import Scenario
from tests.simulator.colocation.days import day

_MACHINES, _HOURS = 10, 1.5
_NODES = [{"count": _MACHINES, "cpu": 32, "memory": "128Gi"}]
_SPOT = {"machines": 2, "every": "3h", "extra": 0.9}


def _hot_day(hours: float) -> Scenario:
    return day(
        nodes=_NODES, hotSpot=_SPOT, hours=hours, step="60s", batch=[],
        servicesRequestShareOfClusterCPU=0.7,
    )  # fmt: skip


@pytest.fixture(scope="module")
def results() -> list[DeschedulingResult]:
    return compare(_hot_day(_HOURS), [1], list(DeschedulingMode))


def test_planned_rounds_take_the_hot_spot_off(results: list[DeschedulingResult]) -> None:
    without, _, planned = results
    assert without.hot_percent[0] > 10
    assert without.moves == 0
    assert planned.hot_percent[0] < without.hot_percent[0] / 2
    assert planned.moves > 0
    assert planned.undone == 0


def test_planned_rounds_move_no_more_pods_than_one_by_one(
    results: list[DeschedulingResult],
) -> None:
    _, walked, planned = results
    # Of the handful on so short a day one more or less is chance, and so is a node's minute.
    assert planned.moves <= walked.moves + 1
    minute = 100.0 / (_MACHINES * _HOURS * 60.0)
    assert planned.hot_percent[0] - walked.hot_percent[0] < 1.5 * minute


def test_an_account_of_minutes_is_that_of_the_day(results: list[DeschedulingResult]) -> None:
    for each in results:
        assert each.hot_by_minute.shape == (90, 2)
        hot = 100.0 * each.hot_by_minute.sum(axis=0) / (90 * 10)
        assert each.hot_percent == pytest.approx(hot.tolist())
        assert len(each.move_minutes) == each.moves
        assert each.cpu_batch_percent == each.batch_requested_percent == 0
        assert each.cpu_services_percent == pytest.approx(each.cpu_percent - 100 * day().system.cpu)
        # What services do not use below the line is offered.
        assert each.batch_offered_percent > 60 - each.cpu_percent
    without, _, planned = results
    # Without batch pods nobody takes what services leave: as much is in use wherever they run.
    assert planned.cpu_percent == pytest.approx(without.cpu_percent, rel=0.01)
    assert planned.above_line_percent < without.above_line_percent


def test_a_seed_gives_the_same_day_again() -> None:
    scenario = _hot_day(0.3)
    first, second = (
        compare(scenario, [2], [DeschedulingMode.PLANNED])[0]._replace(seconds=0.0)
        for _ in range(2)
    )
    assert first.moves > 0
    assert str(first) == str(second)


def test_nothing_is_decided_while_a_plan_counts_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is made over the scheduler of the day: what that decided meanwhile would be taken back
    with the plan's moves."""
    planning, decide = LandingNodes.planning, ServiceScheduler.decide
    plans, decided = list[bool](), list[bool]()

    @contextmanager
    def noted(self: LandingNodes) -> Iterator[None]:
        with planning(self):
            plans.append(True)
            yield
        plans[-1] = False

    def noting(self: ServiceScheduler) -> None:
        decided.append(bool(plans) and plans[-1])
        decide(self)

    monkeypatch.setattr(LandingNodes, "planning", noted)
    monkeypatch.setattr(ServiceScheduler, "decide", noting)
    with_jobs = replace(_hot_day(0.3), batch=day().batch)
    compare(with_jobs, [2], [DeschedulingMode.PLANNED])
    assert len(plans) == 8
    assert len(decided) > len(plans)
    assert not any(decided)


@pytest.mark.parametrize(
    ("minutes", "kept"), [(0, []), (2, []), (4, [1]), (7, [1, 1]), (10, [1, 1])]
)
def test_who_is_stopped_keeps_the_seeds_that_were_done_in_all_modes(
    minutes: int, kept: list[int]
) -> None:
    """A run has three minutes."""
    done: list[int] = []

    def stopped() -> bool:
        return sum(done) >= minutes

    modes = list(DeschedulingMode)[:2]
    results = compare(_hot_day(0.05), [1, 2], modes, progress=done.append, stopped=stopped)
    assert [each.seed for each in results] == kept


def test_a_signal_in_one_of_the_parts_leaves_no_task_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def signalled(self: ServiceScheduler) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(ServiceScheduler, "_run", signalled)
    with pytest.raises(SystemExit):
        compare(_hot_day(0.05), [1], [DeschedulingMode.NONE])
    gc.collect()
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_moves_that_are_undone_within_an_hour_count() -> None:
    there, back = PodMove(0.0, 7, 1, 2), PodMove(3000.0, 7, 2, 1)
    assert undone([there, back]) == 1
    assert undone([there, back._replace(seconds=3600.0)]) == 0
    assert undone([there, back._replace(row=8)]) == 0
