# SPDX-License-Identifier: Apache-2.0
"""Whole runs: what is conserved, what both runs share, and that a seed replays them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

from koord.simulator.colocation.execution import paired_runs
from koord.simulator.colocation.execution.paired_runs import StoppedError
from koord.simulator.colocation.execution.run import run, simulate
from koord.simulator.colocation.inputs import scenario_file
from koord.simulator.colocation.inputs.scenario import Scenario
from koord.simulator.colocation.results.result import DayResult
from tests.simulator.colocation.days import day
from tests.simulator.colocation.inputs.test_scenario import SHIPPED


@cache
def shipped() -> Scenario:
    """The shipped day on 20 machines, its first two hours."""
    return scenario_file.varied(scenario_file.load(SHIPPED), nodes=20, hours=2.0)


@cache
def both() -> tuple[DayResult, DayResult]:
    """Without and with."""
    found = simulate(shipped(), 1)
    return found.without, found.with_


def test_work_done_is_the_sum_of_what_was_granted() -> None:
    for found in both():
        granted = float(found.series.cpu_batch.sum()) / 60
        assert granted == pytest.approx(found.batch_core_hours + found.wasted_core_hours)
        done = sum(kind.core_hours for kind in found.batch)
        assert done == pytest.approx(found.batch_core_hours)


def test_machines_give_no_more_than_they_have() -> None:
    cores = shipped().cluster_cores
    for found in both():
        series = found.series
        assert (series.cpu_used <= cores).all()
        assert (found.machines.cpu_share <= 1 + 1e-6).all()
        parts = series.cpu_services + series.cpu_batch + series.cpu_system
        assert series.cpu_used == pytest.approx(parts)
        assert found.cpu_utilisation_percent == pytest.approx(100 * series.cpu_used.mean() / cores)


def test_both_runs_have_the_same_services_and_the_same_jobs() -> None:
    without, with_ = both()
    for name in ("jobs", "tasks"):
        ours = [getattr(kind, name) for kind in with_.batch]
        assert ours == [getattr(kind, name) for kind in without.batch]
    # Nobody was short, so that services used the same.
    assert without.series.cpu_services == pytest.approx(with_.series.cpu_services, rel=1e-6)
    # Without, batch pods may ask for what is not requested, and no more.
    assert (without.series.batch_requested_cores <= without.series.batch_offered_cores + 1e-6).all()


def test_co_location_lets_more_work_be_done() -> None:
    without, with_ = both()
    assert with_.batch_core_hours > without.batch_core_hours
    assert with_.node_updates > 0
    assert without.node_updates == 0


def test_a_seed_replays_a_run_and_processes_change_nothing() -> None:
    scenario = day()
    one, again = simulate(scenario, 3), simulate(scenario, 3, processes=2)
    for ours, theirs in ((one.without, again.without), (one.with_, again.with_)):
        for column, same in zip(ours.series, theirs.series, strict=True):
            assert np.array_equal(column, same)
        assert ours.batch == theirs.batch
    other = run(scenario, 4, colocated=True)
    assert not np.array_equal(other.series.cpu_used, one.with_.series.cpu_used)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_day_that_is_stopped_is_that_of_the_minutes_so_far(processes: int) -> None:
    """Twelve steps of ten seconds a side after the 17th minute: of what both kept, 15 minutes."""
    steps = 0

    def progress(done: int) -> None:
        nonlocal steps
        steps += done

    def stopped() -> bool:
        return steps >= 2 * 17 * 6

    scenario = shipped()
    found = simulate(scenario, 1, processes=processes, progress=progress, stopped=stopped)
    assert (found.partial, found.scenario.hours, found.requested_hours) == (True, 0.25, 2.0)
    for ours, whole in zip((found.without, found.with_), both(), strict=True):
        assert len(ours.series.cpu_used) == 15
        assert ours.machines.cpu_share.shape == (20, 15)
        for column, same in zip(ours.series, whole.series, strict=True):
            assert np.array_equal(column, same[:15])
        # Jobs that come later are none of it.
        assert sum(kind.tasks for kind in ours.batch) < sum(kind.tasks for kind in whole.batch)
        done = float(ours.series.cpu_batch.sum()) / 60
        assert done == pytest.approx(ours.batch_core_hours + ours.wasted_core_hours)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_day_that_is_stopped_at_once_is_none(processes: int) -> None:
    with pytest.raises(StoppedError):
        simulate(day(), 1, processes=processes, stopped=lambda: True)


def test_who_is_asked_before_the_first_step_of_a_minute_answers() -> None:
    """The question comes between the look for one and the minute."""
    asked: Iterator[bool] = iter(())
    sent: list[object] = []
    told: list[bool] = []

    class Pipe:
        def poll(self) -> bool:
            return next(asked, False)

        def recv(self) -> object:
            nonlocal asked
            assert not told, "nobody says anything more"
            told.append(True)
            asked = iter(())
            return paired_runs._RunResults(0)

        def send(self, message: object) -> None:
            sent.append(message)

    class Side:
        minutes = 0

        def minute(self, stopped: Callable[[], bool]) -> int:
            steps = 0
            while steps < 6 and not stopped():
                steps += 1
            self.minutes += steps == 6
            return steps

        def results(self, minutes: int | None) -> str:
            return f"found at {minutes}"

    for number in range(1, 9):
        asked = iter([False] * number + [True])
        sent.clear()
        told.clear()
        follower = paired_runs._Follower(Pipe(), Side())  # type: ignore[arg-type]
        follower._limit = 3
        follower.run()
        # Never a part of a minute, and the answer last.
        assert sent[-1] == "found at 0"
        assert set(sent[:-1]) <= {6}


def test_pods_that_crowd_each_other_are_short() -> None:
    """Next to nothing is held back, nothing is suppressed, and contention is harsh."""
    data = {
        "colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 100}',
        "resource-threshold-config": '{"clusterStrategy": {"enable": false}}',
    }
    harsh = {"schedulingDelay": {"freeCPUsBelow": 0.3, "lossAtZero": 0.9}}
    crowded = day(batchRequestShareOfClusterCPU=3.0, sloControllerConfig=data, contention=harsh)
    found = run(crowded, 1, colocated=True)
    assert found.short_pod_minutes_percent > 0
    shortage = found.shortage
    short = sum(service.short_pod_minutes for service in shortage.services)
    assert short == shortage.minutes_by_grant.sum() == found.series.short_pods.sum()
    total = sum(service.pod_minutes for service in shortage.services)
    assert found.short_pod_minutes_percent == pytest.approx(100 * short / total)
    assert shortage.worst[0].short_minutes == max(pod.short_minutes for pod in shortage.worst)
    held = {
        "resource-threshold-config": '{"clusterStrategy": {"enable": true,'
        ' "cpuSuppressThresholdPercent": 45}}'
    }
    calm = day(batchRequestShareOfClusterCPU=3.0, contention=harsh, sloControllerConfig=held)
    kept = run(calm, 1, colocated=True)
    assert kept.short_pod_minutes_percent < found.short_pod_minutes_percent
    assert kept.suppressions > 0


def test_agents_evict_where_their_gates_let_them() -> None:
    threshold = (
        '{"clusterStrategy": {"enable": true, "memoryEvictThresholdPercent": 20,'
        ' "memoryEvictLowerPercent": 16}}'
    )
    changes = {
        "batchRequestShareOfClusterCPU": 2.0,
        "sloControllerConfig": {"resource-threshold-config": threshold},
    }
    found = run(day(**changes, agents={"featureGates": {"BEMemoryEvict": True}}), 1, colocated=True)
    assert found.evictions > 0
    assert found.wasted_core_hours > 0
    assert found.evictions == sum(kind.evicted for kind in found.batch)
    granted = float(found.series.cpu_batch.sum()) / 60
    assert granted == pytest.approx(found.batch_core_hours + found.wasted_core_hours)
    assert run(day(**changes), 1, colocated=True).evictions == 0


def test_gpu_jobs_get_whole_gpus() -> None:
    batch = {
        "name": "render",
        "arrivalsPerHour": 100,
        "request": {"cpu": "1", "memory": "1Gi", "gpu": 1},
        "durationSeconds": {"median": 900},
    }
    nodes = [{"count": 4, "cpu": 32, "memory": "128Gi"}]
    nodes.append({"count": 1, "cpu": 32, "memory": "128Gi", "gpus": {"count": 4}})
    scenario = day(batch=[batch], nodes=nodes, batchRequestShareOfClusterCPU=0.2)
    found = run(scenario, 1, colocated=True)
    assert found.batch[0].started > 4
    assert found.series.batch_running_pods.max() == 4
    assert 0 < found.batch[0].gpu_hours <= 4 * 0.5
