# SPDX-License-Identifier: Apache-2.0
"""Who is short of CPU on the live screen: as in the day that is simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.simulator.colocation.inputs import scenario_file
from koord.simulator.colocation.node_model.cpu_contention import (
    BestEffortTier,
    CoreCounts,
    CoreDemand,
    best_effort,
    free_cores,
)
from koord.simulator.live.sample import ClusterSampler
from koord.simulator.nodes.agents.usage_model import CPUAndMemory, PodLoad, PodUsageModel
from koord.simulator.nodes.demand import DemandModel, UsageDemand
from tests.simulator.nodes.agents.test_usage_model import load_of

CPUS = 32
QUIET = DemandModel(system=UsageDemand(cpu=0.0, noise=0.0, memory=0.0))


SCENARIO = scenario_file.shipped()


def _pod(cores: float, best_effort: bool) -> PodLoad:
    return load_of(
        0, f"{cores}-{best_effort}", best_effort=best_effort, tier=best_effort,
        requests=CPUAndMemory(round(1000 * cores), 1 << 30),
        demand=UsageDemand(cpu=1.0, noise=0.0, memory=0.5),
    )  # fmt: skip


def _short_pods(services: float, batch: float, allowed: float) -> int:
    """Of one service pod on a machine that has one batch pod beside it."""
    load = PodUsageModel([CPUS], [1 << 37], QUIET, seed=1)
    load.set_pods([_pod(services, False), _pod(batch, True)])
    load.hold(np.array([allowed]), np.ones(2))
    pods: Any = SimpleNamespace(on_change=lambda **_: None, items=list)
    fleet: Any = SimpleNamespace(
        machines=[SimpleNamespace(name="a", pool=SimpleNamespace(cpu=CPUS))],
        agents=SimpleNamespace(load=load), nodes={}, pods=pods,
    )  # fmt: skip
    return ClusterSampler(fleet, lambda: 0.0, SCENARIO).take().short_pods


def test_a_service_is_short_where_batch_leaves_no_cpu_free() -> None:
    assert _short_pods(20, 12, np.inf) == 1, "no CPU is free: it loses a fifth"
    assert _short_pods(20, 12, 10) == 0, "batch is held back: 6 % are free"
    assert _short_pods(40, 0.001, np.inf) == 1, "it wants more than there is"


@given(st.integers(1, 640), st.integers(1, 640), st.integers(0, 320))
def test_both_days_have_one_model_of_contention(services: int, batch: int, allowed: int) -> None:
    """In tenths of a core, beside each other on one machine."""
    nothing = np.zeros(1)
    wants = CoreDemand(np.array([services / 10]), nothing, np.array([batch / 10]), nothing)
    tier = BestEffortTier(np.array([float(CPUS)]), nothing, np.array([allowed / 10]))
    left = free_cores(CoreCounts(np.array([float(CPUS)]), nothing), wants)
    grants = best_effort(left, wants.batch, tier, SCENARIO.contention.scheduling_delay)
    share = float(grants.shared[0]) / (services / 10)
    if abs(share - SCENARIO.report.short.granted_below) > 1e-6:
        short = share < SCENARIO.report.short.granted_below
        assert _short_pods(services / 10, batch / 10, allowed / 10) == short
