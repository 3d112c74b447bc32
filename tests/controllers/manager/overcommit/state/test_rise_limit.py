# SPDX-License-Identifier: Apache-2.0
"""Offers that may rise by a share of the node with each report."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.manager.overcommit.explain.breakdown import account
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.objects import offered
from tests.controllers.manager.overcommit.test_examples import METRICS, NODE, PODS, cores, saying
from tests.models import overcommit as model

BOUND = replace(NODE, strategy=saying(batchRisePercent=4))
LEAVING = model.Pod("p", qos_label="LS", request=cores(15, 15))


class World:
    """A ledger that is told of one node, report by report."""

    def __init__(self, case: model.Node = BOUND) -> None:
        self.ledger, self.reports = OvercommitCache(), 0
        objects.put(self.ledger, case)
        self.now()

    def report(self, case: model.Node) -> model.Pair | None:
        self.reports += 1
        self.ledger.put_metric(objects.metric(case, now=objects.NOW + self.reports))
        return self.now()

    def now(self) -> model.Pair | None:
        self.ledger.recompute(objects.NOW + self.reports)
        return offered(self.ledger, "batch")


def test_down_at_once_and_up_by_a_share_with_each_report() -> None:
    world, busy = World(), replace(BOUND, system=cores(17, 12))
    assert world.now() == cores(25, 33)
    assert world.report(busy) == cores(15, 33)
    assert [world.report(BOUND) for _ in range(4)] == [
        cores(19, 33), cores(23, 33), cores(25, 33), cores(25, 33),
    ]  # fmt: skip


def test_a_usage_that_swings_moves_the_offer_by_the_share() -> None:
    world, busy = World(), replace(BOUND, system=cores(17, 12))
    found = [world.report(case) for _ in range(3) for case in (busy, BOUND)]
    assert found == [cores(15, 33), cores(19, 33)] * 3


def test_what_a_pod_gives_back_is_offered_at_once() -> None:
    world = World()
    gone = replace(BOUND, metrics={key: METRICS[key] for key in ("b", "c")})
    world.ledger.drop_pod(objects.pod(PODS[0]))
    assert world.now() == cores(25, 33), "its usage is reported still"
    assert world.report(gone) == cores(36, 44)
    late = model.Pod("late", qos_label="LS", request=cores(20, 20))
    world.ledger.put_pod(objects.pod(late))
    assert world.now() == cores(16, 24)
    measured = replace(gone, metrics={**gone.metrics, "late": model.Metric(cores(1, 1))})
    assert world.report(measured) == cores(35, 43)


def left(policy: str) -> tuple[World, model.Node]:
    """A world that offers 30 cores and 50 GB and could offer more cores; its one pod asks for 15
    of each and uses 10."""
    rules = saying(batchRisePercent=10, cpuCalculatePolicy=policy, memoryCalculatePolicy="request")
    case = model.Node(
        cores(100, 100), cores(100, 100), rules,
        pods=[LEAVING], metrics={"p": model.Metric(cores(10, 10))},
    )  # fmt: skip
    world = World(case)
    assert world.report(replace(case, system=cores(35 if policy == "usage" else 30, 0))) == (
        cores(20, 50)
    )
    assert world.report(case) == cores(30, 50)
    return world, case


def test_what_a_pod_gives_back_counts_once() -> None:
    world, case = left("usage")
    world.ledger.drop_pod(objects.pod(LEAVING))
    assert world.now() == cores(30, 65), "its usage is reported still, its request is gone"
    assert world.report(replace(case, metrics={})) == cores(50, 65), "10 for the report, 10 its own"
    world, case = left("maxUsageRequest")
    world.ledger.drop_pod(objects.pod(LEAVING))
    assert world.now() == cores(35, 65), "what it asked for beyond its usage"
    assert world.report(replace(case, metrics={})) == cores(55, 65)


def test_a_pod_that_went_gives_nothing_back_while_reports_name_it() -> None:
    world, case = left("usage")
    world.ledger.drop_pod(objects.pod(LEAVING))
    assert world.report(case) == cores(40, 65)
    assert world.report(replace(case, metrics={})) == cores(60, 65)


def test_a_pod_that_changes_gives_back_what_it_no_longer_takes() -> None:
    world, _ = left("maxUsageRequest")
    smaller = replace(LEAVING, request=cores(12, 12))
    world.ledger.put_pod(objects.pod(smaller))
    assert world.now() == cores(33, 53)
    world.ledger.put_pod(objects.pod(replace(smaller, numa=[0])))
    assert world.now() == cores(33, 53)


def test_what_an_operator_changes_is_in_force_at_once() -> None:
    world = World(replace(BOUND, reserved=cores(20, 0)))
    assert world.now() == cores(12, 33)
    world.ledger.put_node(objects.node(BOUND), objects.strategy(BOUND.strategy))
    assert world.now() == cores(25, 33)
    world.report(replace(BOUND, system=cores(17, 12)))
    world.report(BOUND)
    assert world.now() == cores(19, 33)
    world.ledger.set_strategies(lambda _: objects.strategy(NODE.strategy))
    assert world.now() == cores(25, 33)


def test_what_is_held_back_is_told() -> None:
    world = World()
    world.report(replace(BOUND, system=cores(17, 12)))
    world.report(BOUND)
    told = account(world.ledger, 0)
    assert told.batch is not None
    assert [line.amount for line in told.batch.cpu.lines if line.what == "riseBound"] == [-6_000]
    assert sum(line.amount for line in told.batch.cpu.lines) == told.batch.cpu.offered == 19_000


def test_a_node_that_reports_again_after_it_had_expired_starts_anew() -> None:
    world = World()
    world.ledger.recompute(objects.NOW + 10_000)
    assert offered(world.ledger, "batch") is None
    assert world.report(BOUND) == cores(25, 33)


@given(
    systems=st.lists(st.integers(0, 60), min_size=1, max_size=8),
    percent=st.integers(0, 100),
)
def test_never_above_the_formula_and_never_up_by_more(systems: list[int], percent: int) -> None:
    case = replace(NODE, strategy=saying(batchRisePercent=percent))
    world = World(case)
    before = world.now()
    for system in systems:
        formula = model.batch(replace(case, system=cores(system, 12)))
        found = world.report(replace(case, system=cores(system, 12)))
        assert before is not None
        assert formula is not None
        assert found == (min(formula[0], before[0] + 1000 * percent), formula[1])
        before = found
