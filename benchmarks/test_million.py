# SPDX-License-Identifier: Apache-2.0
"""The benchmark of very large clusters, on a small one."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.conftest import Record
from benchmarks.million import CASES, Progress, measure, workload
from benchmarks.ratio import Ratio

NODES, PODS, AT_LEAST = 20_000, 4_000, 0.35


@pytest.mark.parametrize("case", CASES)
def test_all_pods_are_placed(case: str) -> None:
    outcome = measure(case, nodes=60, pods=1200, progress=Progress(quiet=True))
    assert (outcome.placed, outcome.nodes, outcome.pods) == (1200, 60, 1200)
    assert outcome.deciding > 0
    assert outcome.line().split()[:4] == [case, "60", "1,200", "1,200"]


def test_the_same_workloads_come_in_bursts_and_shuffled() -> None:
    bursts, shuffled = list(workload("bursts", 3000)), list(workload("shuffled", 3000))
    assert bursts == sorted(shuffled) != shuffled
    assert set(Counter(bursts).values()) == {3}


def test_workloads_that_come_shuffled_beside_a_few_in_turn(record: Record) -> None:
    quiet = Progress(quiet=True)
    ratio = Ratio(float("inf"), float("inf"))
    for _ in range(3):
        ours, plain = (measure(case, NODES, PODS, quiet) for case in ("shuffled", "plain"))
        ratio = ratio.and_again(Ratio(ours.deciding / PODS, plain.deciding / PODS))
        if ratio.times_faster >= AT_LEAST:
            break
    name = f"scheduler: pods of 1,000 workloads shuffled on {NODES:,} nodes, beside ten in turn"
    record(name, ratio, AT_LEAST)
