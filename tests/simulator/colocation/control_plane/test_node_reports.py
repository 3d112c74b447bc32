# SPDX-License-Identifier: Apache-2.0
"""Reports, offers, tasks and shortages, against plain Python."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.simulator.colocation.control_plane.node_reports import (
    NodeReporter,
    OvercommitManager,
    ReportedUsage,
    SlidingMean,
)
from koord.simulator.colocation.inputs import slo_config
from koord.simulator.colocation.results.recorder import ShortageRecorder
from koord.simulator.colocation.workload.batch_arrivals import BatchArrivals
from koord.simulator.colocation.workload.batch_tasks import NOWHERE, BatchTasks
from koord.simulator.colocation.workload.services import placed
from tests.models import colocation as plain
from tests.simulator.colocation.days import GI, day

_STRATEGY = slo_config.of(day()).colocation


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12), st.integers(1, 5))
def test_a_window_is_the_mean_of_its_last_samples(values: list[int], samples: int) -> None:
    window = SlidingMean(1, samples)
    for value in values:
        window.append(np.array([float(value)]))
    last = values[-samples:]
    assert window.mean()[0] == pytest.approx(sum(last) / len(last))


def test_every_machine_reports_once_a_minute_and_not_all_at_once() -> None:
    reporting = NodeReporter(10, 1, _STRATEGY, 10.0)
    seen: dict[int, list[float]] = {row: [] for row in range(10)}
    for step in range(1, 37):
        for row in reporting.due(10.0 * step).tolist():
            seen[row].append(10.0 * step)
    assert {tuple(np.diff(times)) for times in seen.values()} == {(60.0,) * 4, (60.0,) * 5}
    assert len({times[0] for times in seen.values()}) == 6
    assert min(times[0] for times in seen.values()) == 60


@given(st.integers(0, 2**32 - 1))
def test_offers_are_those_of_one_machine_after_the_other(seed: int) -> None:
    fleet, pods = placed(day(), 1)
    draws = np.random.default_rng(seed)
    rows = len(fleet.cpus)
    found = ReportedUsage(
        np.zeros((2, rows), np.int64),
        np.stack([draws.integers(0, 3000, rows), draws.integers(0, GI, rows)]),
        np.stack([draws.integers(0, 2500, pods.rows), draws.integers(0, 2 * GI, pods.rows)]),
    )
    manager = OvercommitManager(fleet, pods, _STRATEGY)
    offers = manager.reported(np.arange(rows), found, 60.0)
    assert offers.rows.tolist() == list(range(rows))
    for row in range(rows):
        mine = np.flatnonzero(pods.machine == row)
        want = plain.offered(
            (1000 * int(fleet.cpus[row]), int(fleet.memory_bytes[row])),
            (int(found.system[0, row]), int(found.system[1, row])),
            [(int(found.services[0, pod]), int(found.services[1, pod])) for pod in mine],
            (60, 65),
        )
        assert (int(offers.cpu_milli[row]), int(offers.memory_bytes[row])) == want


def test_an_offer_is_written_when_it_has_moved_or_is_old() -> None:
    fleet, pods = placed(day(), 1)
    manager, rows = OvercommitManager(fleet, pods, _STRATEGY), np.arange(2)

    def report(used_milli: int, now: float) -> list[int]:
        services = np.zeros((2, pods.rows), np.int64)
        services[0] = used_milli
        zeros = np.zeros((2, len(fleet.cpus)), np.int64)
        return manager.reported(rows, ReportedUsage(zeros, zeros, services), now).rows.tolist()

    assert report(500, 60.0) == [0, 1]
    assert report(510, 120.0) == []
    assert report(800, 180.0) == [0, 1]
    assert report(800, 480.0) == []
    assert report(800, 481.0) == [0, 1]
    assert manager.writes == 6
    assert (manager.offered[:, 2:] == -1).all()


def tasks() -> BatchTasks:
    """Five tasks that come a second apart, of 100 core-seconds each, two cores wide."""
    count = 5
    found = BatchArrivals(
        np.zeros(count, np.int64),
        np.arange(count),
        np.arange(count, dtype=float),
        np.full(count, 2.0),
        np.full(count, GI),
        np.full(count, 100.0),
    )
    return BatchTasks(found, [msgspec.structs.replace(day().batch[0], most_pending=2)], 3)


def test_tasks_wait_in_order_and_half_the_cpu_takes_twice_as_long() -> None:
    found = tasks()
    found.arrive(2.0)
    assert (found.due(), found.due(), found.waiting) == ([0, 1], [], 3)
    found.begin([(0, 1)], 5.0)
    assert (found.due(), found.waiting, found.waited[0]) == ([2], 2, 5.0)
    ones = np.ones(3)
    for step in range(1, 11):
        wanted = found.wanted(10.0)
        assert wanted.tolist() == ([2.0] if step < 10 else [1.0])
        asked = found.by_machine(wanted)
        # A core for all of the machine's tasks, while each could use two.
        granted = found.granted(wanted, np.minimum(asked, 0.5) * 2, asked)
        assert granted.tolist() == pytest.approx([1.0])
        finished = found.work(granted, ones, 5 + 10.0 * step, 10.0)
        assert finished.tolist() == ([0] if step == 10 else [])
    assert (found.ended[0], len(found.running)) == (105.0, 0)
    assert found.done[0] == pytest.approx(100.0)


def test_the_last_step_wants_what_is_left() -> None:
    found = tasks()
    found.arrive(0.0)
    found.due()
    found.begin([(0, 0)], 0.0)
    for _ in range(3):
        found.work(found.wanted(30.0), np.ones(3), 0.0, 30.0)
    assert found.done[0] == pytest.approx(100.0)
    assert found.left[0] == pytest.approx(0.0)


def test_an_evicted_task_begins_anew_at_the_end_of_the_line() -> None:
    found = tasks()
    found.arrive(10.0)
    found.due()
    found.begin([(0, 0), (1, 2)], 10.0)
    found.work(found.wanted(10.0), np.ones(3), 20.0, 10.0)
    found.evict([0])
    assert (found.wasted[0], found.left[0], found.machine[0]) == (20.0, 100.0, NOWHERE)
    assert found.running.tolist() == [1]
    assert found.due() == [2, 3]
    found.begin([(2, 1), (3, 1)], 20.0)
    assert found.due() == [4, 0]
    found.begin([(0, 1)], 50.0)
    assert found.waited[0] == 10.0


@given(st.lists(st.lists(st.floats(0, 1), min_size=12, max_size=12), min_size=1, max_size=3))
def test_shortages_are_counted_minute_by_minute(shares: list[list[float]]) -> None:
    """Pods that want a core and get a share of it, over two minutes of six steps."""
    scenario = day()
    _, pods = placed(scenario, 1)
    found = ShortageRecorder(scenario, pods)
    wanted = np.ones(pods.rows, np.float32)
    for step in range(12):
        granted = wanted.copy()
        granted[: len(shares)] = [pod[step] for pod in shares]
        found.step(wanted, granted)
    below = np.float32(0.95)
    short = runs = 0
    for pod in shares:
        minutes = [np.float32(sum(np.float32(x) for x in pod[at : at + 6])) for at in (0, 6)]
        flags = [bool(minute / np.float32(6) < below) for minute in minutes]
        short += sum(flags)
        runs += int(any(flags))
    shortage = found.results(np.zeros(pods.rows, np.int64))
    assert found.percent() == pytest.approx(100 * short / (2 * pods.rows))
    assert shortage.minutes_by_grant.sum() == short
    # Two short minutes in a row are one shortage; here no pod has two of them apart.
    assert shortage.shortages_by_length.sum() == runs
