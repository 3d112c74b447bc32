# SPDX-License-Identifier: Apache-2.0
"""Native calls that keep the interpreter's lock are short at the largest sizes there may be.

A Lease is renewed by a thread that needs the lock once in ten seconds. These calls keep it, since
the lock is what keeps other threads from changing their table meanwhile; so each is bounded. The
measure is NumPy's sorting of a million numbers, some tenth of a second, in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from koord.kernels import placement_board
from koord.kernels.devices import Device, DeviceTable
from koord.kernels.devices_assign import Demand, assign_rows
from koord.kernels.histogram import Buckets, Histogram
from koord.kernels.placement_board import Board
from koord.kernels.quota import Charge, QuotaTree
from koord.kernels.series import SeriesStore

ROWS, GROUPS, LEVELS = 100_000, 10_000, 3_000
# The longest, of 2,000 series of an hour, is 1 to 2 times the measure. Ten seconds are 100 times.
TIMES = 10.0


def board() -> Callable[[], object]:
    made = Board(ROWS, [(1, placement_board.DEFAULT)] * 8)
    raw, passes = np.arange(ROWS), np.ones(ROWS, np.bool_)

    def call() -> None:
        for score in range(8):
            made.rate(score, slice(None), raw)
        made.refuse(1, slice(None), passes)
        made.best()

    return call


def series() -> Callable[[], object]:
    store = SeriesStore(3_600)
    ids = np.array([store.add() for _ in range(2_000)])
    values = np.random.default_rng(1).random(len(ids))
    for second in range(3_600):
        store.append(second * 1_000, ids, np.roll(values, second))
    return lambda: store.summarize(ids, 0, 10**9)


def wide_quota() -> Callable[[], object]:
    tree = QuotaTree()
    tree.set_total({"cpu": 10**9})
    names = [f"quota-{number}" for number in range(GROUPS)]
    for name in names:
        tree.add(name, min={"cpu": 100}, max={"cpu": 10**8})
    ids, deltas = tree.ids(names), np.full(GROUPS, 1_000)

    def call() -> None:
        tree.charge_column(ids, Charge.REQUEST, "cpu", deltas)
        tree.runtime_column(ids, "cpu")
        tree.explain(names[0], "cpu")

    return call


def deep_quota() -> Callable[[], object]:
    tree, last = QuotaTree(), ""
    tree.set_total({"cpu": 10**9})
    for level in range(LEVELS):
        parent = {"parent": last} if last else {}
        last = f"quota-{level}"
        tree.add(last, max={"cpu": 10**8}, is_parent=True, **parent)

    def call() -> None:
        tree.add_request(last, {"cpu": 1})
        tree.runtime(last)

    return call


def devices() -> Callable[[], object]:
    table = DeviceTable(["core", "memory"])
    cards = [
        Device(minor=minor, total={"core": 100, "memory": 1_000}, numa_node=minor % 8, pcie=minor)
        for minor in range(64)
    ]
    rows = 5_000
    for _ in range(rows):
        table.add_row(cards)
    demand = Demand([100, 1_000], 63, grouped=True)
    return lambda: assign_rows(table, np.arange(rows), demand)


def histogram() -> Callable[[], object]:
    made = Histogram(Buckets(1.0, 1e15, 1.05), 3_600_000)
    for number in range(1_000):
        made.add(float(number), number * 1_000)
    return lambda: [made.percentile(0.5) for _ in range(100)]


@pytest.mark.parametrize("make", [board, series, wide_quota, deep_quota, devices, histogram])
def test_no_native_call_keeps_the_interpreter_for_long(
    make: Callable[[], Callable[[], object]],
) -> None:
    call = make()
    numbers = np.random.default_rng(1).random(1_000_000)
    measure = best(lambda: np.sort(numbers))
    print(f"{make.__name__}: {best(call) / measure:.2f} times the measure, {measure:.3f} s")
    assert best(call) <= TIMES * measure


def best(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        call()
        taken.append(time.thread_time() - begun)
    return min(taken)
