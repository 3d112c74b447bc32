# SPDX-License-Identifier: Apache-2.0
"""Pods no two of which are alike: beside pods that are, and beside what came before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import pytest

from benchmarks.conftest import RETRIES, Record
from benchmarks.diverse_pods import documents
from benchmarks.ratio import Ratio
from benchmarks.scheduler_diverse import decoded, measure_shipped, place, stock_cluster
from koord.api.kinds.pod import Pod
from tests.controllers.scheduler.stock import Stock

NODES, KOORD_NODES = 500, 2_000
EARLY, LATE = 300, 30_000
PODS, ROUNDS = 100, 5


class Placed:
    """A cluster with pods of a case on it, and endlessly more of them."""

    def __init__(self, case: str, before: int) -> None:
        self.stock: Stock = stock_cluster(NODES)
        self._pods = iter(_all(case))
        # Counted where they are put: only the last ones are decided, which fills what is kept.
        for index, pod in enumerate(islice(self._pods, before - EARLY)):
            self.stock.put(pod, f"node-{index % NODES:05}")
        place(self.stock, islice(self._pods, EARLY))

    def seconds(self) -> float:
        """CPU seconds a pod of the next ones, the shapes included."""
        pods = list(islice(self._pods, PODS))
        start = time.process_time()
        place(self.stock, pods)
        return (time.process_time() - start) / PODS


@cache
def _all(case: str) -> list[Pod]:
    return decoded(documents(case, LATE + ROUNDS * (RETRIES + 1) * PODS))


def in_turn(
    ours: Callable[[], float], reference: Callable[[], float], rounds: int = ROUNDS
) -> Iterator[Ratio]:
    """The fastest rounds of both; again as often as it is asked."""
    best = reference_best = float("inf")
    for _ in range(RETRIES + 1):
        for _ in range(rounds):
            best, reference_best = min(best, ours()), min(reference_best, reference())
        yield Ratio(best, reference_best)


def gated(record: Record, name: str, ratios: Iterator[Ratio], at_least: float) -> None:
    """Records the first ratio that passes, or the last one."""
    for ratio in ratios:
        if ratio.times_faster >= at_least:
            break
    record(name, ratio, at_least)


@pytest.mark.parametrize("case", ["selectors", "in", "negative"])
def test_what_came_before_costs_nothing(record: Record, case: str) -> None:
    late, early = Placed(case, LATE), Placed(case, EARLY)
    name = f"scheduler: pod {LATE:,} with a selector of its own ({case}), beside pod {EARLY}"
    gated(record, name, in_turn(late.seconds, early.seconds), 1 / 1.3)


@pytest.mark.parametrize(
    ("case", "at_least"),
    [
        ("labels", 0.55),
        ("requests", 0.32),
        ("nodeaffinity", 0.24),
        ("selectors", 0.11),
        ("zipf", 0.25),
    ],
)
def test_pods_that_differ_beside_equal_ones(record: Record, case: str, at_least: float) -> None:
    differing, equal = Placed(case, EARLY), Placed("equal", EARLY)
    name = f"scheduler: pods of {NODES} nodes that differ ({case}), beside equal ones"
    gated(record, name, in_turn(differing.seconds, equal.seconds), at_least)


def shipped_seconds(case: str, reported: bool = False) -> float:
    """CPU seconds a pod of koord's whole profile, from the queue to the end of the binding."""
    split = measure_shipped(case, KOORD_NODES, PODS, reported=reported)
    return (sum(split.seconds.values()) - split.seconds["decode"]) / split.pods


@pytest.mark.parametrize(
    ("case", "beside", "at_least"),
    [
        ("binding", "requests", 0.30),
        ("gpushare", "equal", 0.14),
        ("reservation", "equal", 0.13),
        ("zipf", "requests", 0.38),
    ],
)
def test_pods_of_koord_that_differ_beside_those_that_ask_for_little(
    record: Record, case: str, beside: str, at_least: float
) -> None:
    name = f"scheduler: pods of {KOORD_NODES:,} nodes that differ ({case}), beside plain ones"
    ratios = in_turn(lambda: shipped_seconds(case), lambda: shipped_seconds(beside), 2)
    gated(record, name, ratios, at_least)


@pytest.mark.parametrize(("case", "at_least"), [("labels", 0.42), ("zipf", 0.18)])
def test_pods_that_differ_where_nodes_report_their_load(
    record: Record, case: str, at_least: float
) -> None:
    name = f"scheduler: {KOORD_NODES:,} nodes that report their load, {case}, beside equal pods"
    ours, reference = (lambda of=of: shipped_seconds(of, reported=True) for of in (case, "equal"))
    gated(record, name, in_turn(ours, reference, 2), at_least)
