# SPDX-License-Identifier: Apache-2.0
"""What services want and when jobs come: seeded, and as the scenario's figures say."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from koord.base.errors import KoordError
from koord.simulator.colocation.inputs.scenario import (
    BurstSpec,
    CPUDemand,
    Diurnal,
    MemoryDemand,
    NoiseSpec,
    TaskCountSpec,
)
from koord.simulator.colocation.workload.batch_arrivals import (
    arrivals,
    load_factor,
    mean_tasks,
    offered_cores,
)
from koord.simulator.colocation.workload.services import ServiceDemands, placed
from tests.simulator.colocation.days import day, with_service


def test_services_are_spread_evenly_and_within_the_machines() -> None:
    scenario = day()
    fleet, pods = placed(scenario, 1)
    requested = np.bincount(pods.machine, pods.request_milli, 4)
    assert (requested <= 1000 * fleet.cpus).all()
    assert np.ptp(requested) <= pods.request_milli.max()
    total = 1000 * scenario.cluster_cores * scenario.services_request_share
    assert total - 8000 < requested.sum() <= total
    bound = [4 * int(((pods.machine == row) & pods.bound).sum()) for row in range(4)]
    assert fleet.bound_cpus.tolist() == bound


def test_without_chance_demand_is_the_daily_swing() -> None:
    demand = CPUDemand(0.3, Diurnal(0.5, 14.0))
    scenario = with_service(day(), cpu_demand=demand)
    _, pods = placed(scenario, 1)
    demands = ServiceDemands(scenario, pods, 1)
    for hour in (0.0, 2.0, 14.0, 20.5):
        demands.step(hour * 3600)
        level = 0.3 * (1 + 0.5 * math.cos(2 * math.pi * (hour - 14) / 24))
        assert demands.cpu[pods.service == 0] == pytest.approx(2 * level, rel=1e-6)


def test_noise_has_the_spread_and_the_correlation_that_are_asked_for() -> None:
    noise = NoiseSpec(0.3, "1m")
    scenario = with_service(day(), cpu_demand=CPUDemand(0.5, noise=noise))
    scenario = msgspec.structs.replace(
        scenario, nodes=[msgspec.structs.replace(scenario.nodes[0], count=100)]
    )
    _, pods = placed(scenario, 1)
    demands = ServiceDemands(scenario, pods, 1)
    seen = []
    for step in range(60):
        demands.step(10.0 * step)
        seen.append(np.log(demands.cpu[pods.service == 0]))
    logs = np.array(seen)
    assert logs.std() == pytest.approx(0.3, rel=0.1)
    assert np.exp(logs).mean() == pytest.approx(1.0, rel=0.05)
    ours = np.corrcoef(logs[:-6].ravel(), logs[6:].ravel())[0, 1]
    assert ours == pytest.approx(math.exp(-1), abs=0.1)


def test_bursts_take_the_share_of_time_that_is_asked_for() -> None:
    demand = CPUDemand(0.3, bursts=BurstSpec(6.0, 3.0, 45.0))
    scenario = with_service(day(), cpu_demand=demand)
    scenario = msgspec.structs.replace(
        scenario, nodes=[msgspec.structs.replace(scenario.nodes[0], count=100)]
    )
    _, pods = placed(scenario, 1)
    demands = ServiceDemands(scenario, pods, 1)
    high = []
    for step in range(360):
        demands.step(10.0 * step)
        cpu = demands.cpu[pods.service == 0]
        assert (np.isclose(cpu, 0.6) | np.isclose(cpu, 1.8)).all()
        assert (demands.capped <= pods.limit_milli / 1000).all()
        high.append((cpu > 1).mean())
    # Six bursts of 45 s an hour, less what overlaps.
    assert np.mean(high) == pytest.approx(1 - math.exp(-6 * 45 / 3600), rel=0.1)


def test_a_leak_ends_in_a_restart() -> None:
    memory = MemoryDemand(0.5, leak_per_hour="2Gi")
    scenario = with_service(day(), memory_demand=memory)
    _, pods = placed(scenario, 1)
    demands = ServiceDemands(scenario, pods, 1)
    held = []
    for _ in range(300):
        demands.minute()
        held.append(float(demands.memory_bytes[0]))
    # From 1 to 4 GiB in an hour and a half.
    assert demands.restarts[0] == 3
    assert max(held) <= 4 << 30
    assert held[90] == pytest.approx(1 << 30)


def test_the_same_seed_makes_the_same_day_and_another_seed_another() -> None:
    one, same, other = (arrivals(day(), seed) for seed in (1, 1, 2))
    for column, again in zip(one, same, strict=True):
        assert np.array_equal(column, again)
    assert one.rows != other.rows or not np.array_equal(one.seconds, other.seconds)
    assert (np.diff(one.seconds) >= 0).all()


def test_arrivals_have_the_means_that_are_asked_for() -> None:
    scenario = day(hours=200.0)
    kind = scenario.batch[0]
    found = arrivals(scenario, 1)
    jobs = len(np.unique(found.job))
    assert jobs == pytest.approx(200 * kind.arrivals_per_hour * load_factor(scenario), rel=0.05)
    assert found.rows / jobs == pytest.approx(mean_tasks(kind.tasks), rel=0.05)
    assert found.cpu_cores.mean() == pytest.approx(0.9, rel=0.05)
    seconds = found.work / found.cpu_cores
    assert np.median(seconds) == pytest.approx(200, rel=0.05)
    asked = seconds.sum() / (200 * 3600)
    assert asked == pytest.approx(scenario.batch_request_share * scenario.cluster_cores, rel=0.1)


def test_expected_tasks_and_offered_cores_by_hand() -> None:
    # Two or three tasks: at least 3 with the chance (2/3 - 2/3 cut) over its own truncation.
    assert mean_tasks(TaskCountSpec(2, 3, 1.0)) == pytest.approx(2.0)
    assert mean_tasks(TaskCountSpec(4, 4, 1.0)) == 4.0
    kind = msgspec.structs.replace(day().batch[0], tasks=TaskCountSpec(4, 4, 1.0))
    seconds = 200 * math.exp(0.5**2 / 2)
    assert offered_cores(kind) == pytest.approx(100 / 3600 * 4 * seconds)


def test_arrivals_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "seconds,tasks,duration_seconds\n60,2,100\n5,1,30\n99999,5,1\n"
    )
    kind = msgspec.structs.replace(day().batch[0], arrivals_per_hour=0.0, arrivals_file="jobs.csv")
    found = arrivals(msgspec.structs.replace(day(), batch=[kind]), 1, tmp_path)
    assert found.seconds.tolist() == [5, 60, 60]
    assert (found.work / found.cpu_cores).tolist() == pytest.approx([30, 100, 100])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,tasks\n", "expected the columns seconds,tasks,duration_seconds"),
        ("seconds,tasks,duration_seconds\n1,2\n", r"jobs.csv:2: got '1,2'"),
        ("seconds,tasks,duration_seconds\n1,x,3\n", r"jobs.csv:2: tasks: got 'x'"),
        ("seconds,tasks,duration_seconds\n1,1.5,3\n", "expected a whole number"),
    ],
)
def test_a_wrong_file_of_arrivals_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    kind = msgspec.structs.replace(day().batch[0], arrivals_per_hour=0.0, arrivals_file="jobs.csv")
    with pytest.raises(KoordError, match=said):
        arrivals(msgspec.structs.replace(day(), batch=[kind]), 1, tmp_path)
