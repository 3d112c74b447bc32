# SPDX-License-Identifier: Apache-2.0
"""Who gets which CPU and whom the kernel kills, against a machine at a time in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.simulator.colocation.execution.day import overfull
from koord.simulator.colocation.inputs.scenario import SchedulingDelay
from koord.simulator.colocation.node_model.cpu_contention import (
    BestEffortTier,
    CoreCounts,
    CoreDemand,
    CoreGrants,
    best_effort,
    free_cores,
    loss,
    native,
)
from tests.models import colocation as plain

_CORES = st.sampled_from([0.0, 1.0, 7.5, 24.0, 64.0])
_AMOUNT = st.floats(0, 80, allow_subnormal=False)
_DELAYS = st.builds(SchedulingDelay, st.floats(0, 0.5), st.floats(0, 1))


@st.composite
def machines(draw: st.DrawFn) -> list[tuple[tuple[float, ...], ...]]:
    """CPUs, wants and tiers of a few machines; LSR pods want no more than they are bound to."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        cpus = draw(_CORES) + 2.0, draw(_CORES)
        wants = (draw(_AMOUNT), cpus[1] * draw(st.floats(0, 1)), draw(_AMOUNT), draw(_AMOUNT))
        quota = draw(st.sampled_from([float("inf"), 0.02, 10.0]))
        tier = float(draw(st.integers(0, 64))), float(draw(st.integers(0, 64))), quota
        found.append((cpus, wants, tier))
    return found


def _columns(rows: list[tuple[float, ...]]) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return [np.array(column, np.float64) for column in zip(*rows, strict=True)]


def _check(found: CoreGrants, want: list[tuple[float, ...]]) -> None:
    for row, expected in enumerate(want):
        got = tuple(float(column[row]) for column in found)
        assert got == pytest.approx(expected, abs=1e-9), row


@given(machines(), _DELAYS)
def test_grants_are_those_of_one_machine_after_the_other(
    cases: list[tuple[tuple[float, ...], ...]], delay: SchedulingDelay
) -> None:
    cores = CoreCounts(*_columns([case[0] for case in cases]))
    wants = CoreDemand(*_columns([case[1] for case in cases]))
    tier = BestEffortTier(*_columns([case[2] for case in cases]))
    bounds = delay.free_cpus_below, delay.loss_at_zero
    _check(
        best_effort(free_cores(cores, wants), wants.batch, tier, delay),
        [plain.grants(c, w, t, bounds) for c, w, t in cases],  # type: ignore[arg-type]
    )
    _check(
        native(cores, wants, delay),
        [plain.grants(c, w, None, bounds) for c, w, _ in cases],  # type: ignore[arg-type]
    )


@given(machines(), _DELAYS)
def test_nobody_gets_more_than_there_is_or_than_is_wanted(
    cases: list[tuple[tuple[float, ...], ...]], delay: SchedulingDelay
) -> None:
    cores = CoreCounts(*_columns([case[0] for case in cases]))
    wants = CoreDemand(*_columns([case[1] for case in cases]))
    tier = BestEffortTier(*_columns([case[2] for case in cases]))
    for found in (
        best_effort(free_cores(cores, wants), wants.batch, tier, delay),
        native(cores, wants, delay),
    ):
        assert (found.used + found.free <= cores.shared + cores.bound + 1e-9).all()
        for name in CoreDemand._fields:
            granted, wanted = getattr(found, name), getattr(wants, name)
            assert ((granted >= 0) & (granted <= wanted + 1e-9)).all()


@given(machines())
def test_without_loss_services_get_the_same_whatever_batch_does(
    cases: list[tuple[tuple[float, ...], ...]],
) -> None:
    delay = SchedulingDelay(0.05, 0.0)
    cores = CoreCounts(*_columns([case[0] for case in cases]))
    wants = CoreDemand(*_columns([case[1] for case in cases]))
    tier = BestEffortTier(*_columns([case[2] for case in cases]))
    left = free_cores(cores, wants)
    with_ = best_effort(left, wants.batch, tier, delay)
    alone = best_effort(left, 0 * wants.batch, tier, delay)
    assert np.array_equal(with_.shared, alone.shared)
    assert np.array_equal(with_.bound, alone.bound)


def test_the_loss_grows_from_the_bound_to_zero_free() -> None:
    found = loss(np.array([1.0, 0.05, 0.025, 0.0]), SchedulingDelay(0.05, 0.2))
    assert found.tolist() == pytest.approx([0, 0, 0.1, 0.2])


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 20)), max_size=10),
)
def test_the_largest_tasks_go_until_memory_fits(
    capacity: list[int], tasks: list[tuple[int, int]]
) -> None:
    tasks = [(machine % len(capacity), bytes_) for machine, bytes_ in tasks]
    held = [
        float(sum(bytes_ for machine, bytes_ in tasks if machine == row) + 10)
        for row in range(len(capacity))
    ]
    found = overfull(
        np.array(held),
        np.array(capacity),
        np.array([machine for machine, _ in tasks], np.int64),
        np.array([bytes_ for _, bytes_ in tasks], np.int64),
    )
    assert set(found.tolist()) == plain.overfull(held, capacity, tasks)
