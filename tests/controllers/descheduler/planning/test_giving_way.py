# SPDX-License-Identifier: Apache-2.0
"""A round that is planned leaves the rest of the program its turn, and changes nothing for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from koord.base.clock import VirtualClock
from koord.controllers.descheduler.framework.handle import NODES_A_SLICE
from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.planner import PlannedRounds
from koord.controllers.descheduler.planning.planning_evictor import PODS_A_SLICE
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, make, node, pod

if TYPE_CHECKING:
    from koord.controllers.descheduler.snapshot import ClusterSnapshot

PODS = 60


def _rounds(snapshot: ClusterSnapshot, *, at_once: bool = False) -> PlannedRounds:
    registry = Registry()
    objects = [*snapshot.nodes, *snapshot.pods]
    landing = LandingNodes.of(objects, shipped(registry), registry, VirtualClock(NOW))
    old = {"maxPodLifeTimeSeconds": 100}
    strategies = make("deschedule", "PodLifeTime", old, RecordedEvictions())
    return PlannedRounds(
        strategies, lambda _: landing, {}, lambda: NOW, dry_run=True, at_once=at_once
    )


def _turns_beside_a_plan(*, at_once: bool) -> int:
    """How often others have their turn while a round is planned."""
    scheduler = {"schedulerName": "koord-scheduler"}
    pods = [pod(f"p{at:02}", age=900 - at, spec=scheduler) for at in range(PODS)]
    snapshot = cluster([node(f"n{at}", cpu="64") for at in range(1, 9)], pods)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def story() -> None:
        beside = asyncio.create_task(others())
        plan = await _rounds(snapshot, at_once=at_once).plan(snapshot)
        assert len(plan.steps) == PODS
        beside.cancel()

    asyncio.run(story())
    return turns


def test_others_have_their_turn_while_a_round_is_planned() -> None:
    assert _turns_beside_a_plan(at_once=False) >= PODS // PODS_A_SLICE


def test_nobody_has_a_turn_while_a_plan_is_made_at_once() -> None:
    """Else what the scheduler itself decides meanwhile would be taken back with the plan's."""
    assert _turns_beside_a_plan(at_once=True) == 0


def test_what_a_plan_counts_is_no_job_for_anybody_else() -> None:
    """Arbitration has its turns while a plan is made."""
    one = pod("a")
    index = JobIndex({"default/a": one}.get)
    index.assume(one)
    assert index.is_taken("default/a")
    assert not index.has_open("default/a")
    assert index.of_pod("default/a") == list(index) == index.waiting() == []
    assert index.open.nodes == {"n1": {"default/a": 1}}
    assert index.moving.nodes == {}
    index.release("default/a")
    assert not index.is_taken("default/a")
    assert index.open.nodes == {}


async def _turns_beside(nodes: int, point: str, name: str) -> int:
    """How often others have their turn in a round of one strategy over so many nodes."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    args: dict[str, object] = {"podRestartThreshold": 1} if "Restarts" in name else {}
    if "NodeAffinity" in name:
        args = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
    rounds = make(point, name, args, RecordedEvictions())
    beside = asyncio.create_task(others())
    await rounds.run(cluster([node(f"n{at}") for at in range(nodes)], []))
    beside.cancel()
    return turns


@pytest.mark.parametrize(
    ("point", "name"),
    [
        ("balance", "RemoveDuplicates"),
        ("deschedule", "RemovePodsHavingTooManyRestarts"),
        ("deschedule", "RemovePodsViolatingInterPodAntiAffinity"),
        ("deschedule", "RemovePodsViolatingNodeAffinity"),
        ("deschedule", "RemovePodsViolatingNodeTaints"),
    ],
)
def test_strategies_that_move_nothing_leave_others_their_turn(point: str, name: str) -> None:
    few = asyncio.run(_turns_beside(2, point, name))
    many = asyncio.run(_turns_beside(2 * NODES_A_SLICE, point, name))
    assert many - few >= 2
