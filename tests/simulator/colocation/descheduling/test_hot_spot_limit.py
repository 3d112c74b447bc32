# SPDX-License-Identifier: Apache-2.0
"""Relief that could not be better takes off as much as it says, and loses nobody's load."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.hot_spot_limit import (
    RelievedServices,
    cooled_to_a_level,
    cooled_to_the_bound,
    wanted,
)
from koord.simulator.colocation.descheduling.comparison import descheduled_day
from koord.simulator.colocation.descheduling.movable_services import (
    DeschedulingMode,
    MovableServices,
)
from tests.simulator.colocation.days import day

_LOAD = np.array([[50.0, 66.0], [64.0, 70.0], [65.0, 80.0], [90.0, 75.0], [40.0, 85.0]])


def test_the_mildest_hot_minutes_are_cooled_to_the_bound() -> None:
    after = _LOAD * cooled_to_the_bound("mildest", _LOAD, 0.6, 1)
    # Of 66, 70, 75, 80, 85 and 90 percent four are at most at the 0.6 quantile.
    assert sorted(after[after > 65].tolist()) == [85.0, 90.0]
    assert np.array_equal(after[_LOAD <= 65], _LOAD[_LOAD <= 65])
    assert after.max(initial=0, where=after < 85) == pytest.approx(65, abs=0.01)


def test_so_many_hot_minutes_are_cooled_as_are_asked_for() -> None:
    load = np.random.default_rng(5).uniform(50, 90, (2000, 4))
    hot = np.count_nonzero(load > 65)
    drawn = load * cooled_to_the_bound("alike", load, 0.8, 1)
    assert np.count_nonzero(drawn > 65) / hot == pytest.approx(0.2, abs=0.02)
    level = load * cooled_to_a_level(load, 0.8, 500, 30)
    assert np.count_nonzero(level > 65) / hot == pytest.approx(0.2, abs=0.01)


def test_who_knows_means_of_single_minutes_knows_them_all() -> None:
    """Nothing is above a level that is the bound at most."""
    after = _LOAD * cooled_to_a_level(_LOAD, 0.8, 5, 1)
    assert after.max() == pytest.approx(65, abs=1e-3)


def test_load_that_is_taken_off_is_served_elsewhere() -> None:
    spot = {"machines": 2, "every": "3h", "extra": 0.9}
    nodes = [{"count": 10, "cpu": 32, "memory": "128Gi"}]
    no_delay = {"schedulingDelay": {"freeCPUsBelow": 0, "lossAtZero": 0}}
    scenario = day(
        nodes=nodes, hotSpot=spot, hours=0.2, step="60s", batch=[], contention=no_delay,
        servicesRequestShareOfClusterCPU=0.7,
    )  # fmt: skip
    load = wanted(scenario, 1)
    kept = cooled_to_the_bound("alike", load, 1.0, 1)

    def relieved(*arguments: object) -> MovableServices:
        return RelievedServices(load, kept, *arguments)

    mode = DeschedulingMode.NONE
    without = descheduled_day(scenario, 1, mode)
    with_ = descheduled_day(scenario, 1, mode, services=relieved)
    assert without.hot_percent[0] == pytest.approx(100 * (load > 65).mean())
    assert without.hot_percent[0] > 5
    assert with_.hot_percent[0] == 0
    assert with_.above_line_percent < without.above_line_percent
    assert with_.cpu_services_percent == pytest.approx(without.cpu_services_percent, rel=1e-3)
