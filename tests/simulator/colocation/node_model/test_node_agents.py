# SPDX-License-Identifier: Apache-2.0
"""Suppression within steps, against an agent at a time and a second at a time in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.simulator.colocation.inputs import slo_config
from koord.simulator.colocation.inputs.scenario import Scenario
from koord.simulator.colocation.node_model.cpu_contention import CoreCounts, CoreDemand
from koord.simulator.colocation.node_model.node_agents import NodeAgents
from koord.simulator.colocation.workload.services import MachineCapacities
from tests.models import colocation as plain
from tests.simulator.colocation.days import day

_BOUND = (0, 8, 20)
_CPUS = 32


def agents(scenario: Scenario) -> NodeAgents:
    """Three machines of 32 CPUs; LSR pods have none, some and most of them."""
    bound = np.array(_BOUND, np.int64)
    fleet = MachineCapacities(np.full(3, _CPUS, np.int64), np.full(3, 1 << 37, np.int64), bound)
    cores = CoreCounts(fleet.cpus - bound.astype(float), bound.astype(float))
    return NodeAgents(scenario, fleet, cores, slo_config.of(scenario).slo)


def wants(rows: list[tuple[float, float, float]]) -> CoreDemand:
    """Of each machine what shared services, bound ones (as a share) and batch pods want."""
    shared, part, batch = (np.array(column) for column in zip(*rows, strict=True))
    return CoreDemand(shared, part * np.array(_BOUND), batch, np.full(3, 0.5))


_ROW = st.tuples(st.floats(0, 30), st.floats(0, 1), st.floats(0, 40))


@given(st.lists(st.lists(_ROW, min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_step_is_ten_seconds_of_each_agent(steps: list[list[tuple[float, float, float]]]) -> None:
    scenario = day()
    delay = scenario.contention.scheduling_delay
    bounds = delay.free_cpus_below, delay.loss_at_zero
    found = agents(scenario)
    models = [plain.Agent(_CPUS, bound, 65) for bound in _BOUND]
    for rows in steps:
        wanted = wants(rows)
        turn = found.step(wanted)
        for row, model in enumerate(models):
            mine = tuple(float(column[row]) for column in wanted)
            seconds = [model.second(mine, bounds) for _ in range(10)]  # type: ignore[arg-type]
            means = [sum(column) / 10 for column in zip(*seconds, strict=True)]
            got = [float(column[row]) for column in turn.grants]
            assert got == pytest.approx(means, abs=1e-6)
            held = sum(second[2] < 0.99 * mine[2] for second in seconds) / 10
            assert turn.suppressed[row] == pytest.approx(held)


def test_a_jump_of_services_is_answered_in_the_third_second() -> None:
    """Seen after a second, obeyed half in the one after that, wholly in the next."""
    scenario = day(step="1s")
    found = agents(scenario)
    calm, busy = wants([(2.0, 0.2, 30.0)] * 3), wants([(18.0, 0.2, 30.0)] * 3)
    for _ in range(20):
        before = found.step(calm).grants.batch
    batch = [found.step(busy).grants.batch for _ in range(5)]
    # What the kernel leaves to batch pods falls at once, what the agent leaves later.
    tiers = [np.minimum(each, before) for each in batch]
    assert (tiers[0] >= tiers[2]).all()
    assert (tiers[3] < tiers[1]).any()
    assert np.array_equal(tiers[3], tiers[4])


def test_without_the_gate_nothing_is_held_down() -> None:
    scenario = day(agents={"featureGates": {"BECPUSuppress": False}})
    turn = agents(scenario).step(wants([(2.0, 0.0, 25.0)] * 3))
    assert turn.grants.batch.tolist() == [25.0] * 3


def test_a_quota_holds_batch_pods_together() -> None:
    text = '{"clusterStrategy": {"enable": true, "cpuSuppressPolicy": "cfsQuota"}}'
    found = agents(day(sloControllerConfig={"resource-threshold-config": text}))
    for _ in range(6):
        turn = found.step(wants([(4.0, 0.0, 40.0)] * 3))
    # 65 % of 32 CPUs less what services and system use.
    assert turn.grants.batch.tolist() == pytest.approx([32 * 0.65 - 4.5] * 3)
