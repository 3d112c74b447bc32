# SPDX-License-Identifier: Apache-2.0
"""The benchmark of very large clusters, on a small one."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.million import CASES, Progress, measure, workload


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
