# SPDX-License-Identifier: Apache-2.0
"""Planned rounds in the program, over the embedded server: from the plan to the pod that moved."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.base.clock import VirtualClock
from tests.controllers.descheduler.planned_program import BY_LOAD, NOW, configuration, play
from tests.kube.harness import logged

if TYPE_CHECKING:
    from tests.controllers.descheduler.planned_program import PlannedWorld

GANG = {
    "gang.scheduling.koordinator.sh/name": "web",
    "gang.scheduling.koordinator.sh/min-available": "3",
}


async def _hot(world: PlannedWorld, replicas: int = 4, gang: Any = None) -> str:
    """Pods of one Deployment, and a node that its pods keep at 90 %; the node's name."""
    for number in range(3):
        await world.node(f"n{number}", cpu="4")
    await world.deployment("web", replicas, cpu="500m", **({"annotations": gang} if gang else {}))
    pods = await world.running(replicas)
    by_node = Counter(pod.spec.node_name for pod in pods)
    hot = min(by_node, key=lambda name: (-by_node[name], name))
    for name in sorted(node for node in ("n0", "n1", "n2")):
        own = [pod.metadata.name for pod in pods if pod.spec.node_name == name]
        use = dict.fromkeys(own, 1000) if name == hot else dict.fromkeys(own, 100)
        busy = "2200m" if gang else "1600m"
        await world.load(name, use, system=busy if name == hot else "100m")
    return hot


def test_a_pod_leaves_a_busy_node_for_the_place_that_the_plan_gave_it() -> None:
    clock = VirtualClock(NOW)

    async def story(world: PlannedWorld) -> None:
        hot = await _hot(world)
        before = {pod.metadata.uid for pod in await world.pods()}
        await asyncio.sleep(120)
        (job,) = await world.jobs()
        assert job.status.phase == "Succeeded"
        planned = job.metadata.annotations[keys.PLANNED_NODE]
        assert planned == job.status.node_name != hot
        pods = await world.running(4)
        (new,) = [pod for pod in pods if pod.metadata.uid not in before]
        assert new.spec.node_name == planned
        app = world.program.app
        (past,) = [each for each in app.history.newest_first() if each.counts.get("evicted")]
        assert past.plan is not None
        (step,) = past.plan.steps
        assert (step.node, step.target) == (hot, planned)
        assert {node.name for node in past.plan.nodes} == {hot, planned}
        assert past.plan.overload_after < past.plan.overload_before
        gone = app.explainer.pod("default", step.name)
        assert [each.target for each in gone.outcomes if each.result == "evicted"] == [planned]
        assert app.explainer.node(planned).outcomes[-1].target == planned
        # The node's report is as old as before the move: its load has left all the same.
        assert app.plan is not None
        assert (app.plan.steps, app.plan.overload_before) == ([], 0.0)

    play(story, configuration(BY_LOAD), clock)


def test_all_of_a_gang_go_where_the_plan_has_them() -> None:
    clock = VirtualClock(NOW)

    async def story(world: PlannedWorld) -> None:
        await _hot(world, 3, GANG)
        await asyncio.sleep(60)
        jobs = await world.jobs()
        assert [job.status.phase for job in jobs] == ["Succeeded"] * 3
        planned = [job.metadata.annotations[keys.PLANNED_NODE] for job in jobs]
        assert planned == [job.status.node_name for job in jobs]
        why = Counter(job.metadata.annotations[keys.EVICT_REASON].split()[0] for job in jobs)
        assert why == {"node": 1, "moves": 2}
        history = world.program.app.history.newest_first()
        (past,) = [each for each in history if each.counts.get("evicted")]
        assert past.counts == {"evicted": 3}

    limits = {"maxMigratingPerNode": 3, "maxMigratingPerWorkload": 3, "evictBurst": 3,
              "maxUnavailablePerWorkload": 3, "skipCheckExpectedReplicas": True,
              "objectLimiters": {"workload": {"duration": "10s", "burst": 3}}}  # fmt: skip
    play(story, configuration(BY_LOAD, migration=limits), clock)


def test_a_dry_run_prints_the_plan_and_moves_nothing() -> None:
    clock = VirtualClock(NOW)

    async def story(world: PlannedWorld) -> None:
        await _hot(world)
        await asyncio.sleep(60)
        assert await world.jobs() == []
        past = next(world.program.app.history.newest_first())
        assert past.dry_run
        assert past.plan is not None
        assert [each.result for each in past.outcomes if each.target] == ["evicted"]

    with logged("koord.descheduler", logging.INFO) as told:
        play(story, configuration(BY_LOAD, dryRun=True), clock)
    lines = [record for record in told if record.message == "would move a pod"]
    assert lines


def test_what_waits_for_room_comes_once_the_room_is_there() -> None:
    clock = VirtualClock(NOW)

    async def story(world: PlannedWorld) -> None:
        await world.node("n1", cpu="2")
        await world.deployment("small", 1, cpu="1")
        await world.running(1)
        await world.node("n0", cpu="2")
        await world.deployment("big", 1, cpu="1500m")
        await world.running(2)
        # Both are old, and neither has a place: then small has one, and big only after it.
        await asyncio.sleep(120)
        assert await world.jobs() == []
        await world.node("n2", cpu="1")
        await asyncio.sleep(45)
        jobs = await world.jobs()
        assert [job.status.phase for job in jobs] == ["Succeeded", "Succeeded"]
        pods = {pod.metadata.labels["app"]: pod.spec.node_name for pod in await world.pods()}
        assert pods == {"small": "n2", "big": "n1"}
        history = list(world.program.app.history.newest_first())
        waits = [each for past in history for each in past.outcomes if each.result == "refused"]
        assert waits[-1].message == "step 1, which makes room on n1, is under way"

    life = {"PodLifeTime": {"maxPodLifeTimeSeconds": 60}}
    limits = {"maxMigratingPerWorkload": 1, "maxUnavailablePerWorkload": 1,
              "skipCheckExpectedReplicas": True}  # fmt: skip
    play(story, configuration({}, life, limits), clock)


def test_where_the_schedulers_file_cannot_be_read_nothing_is_planned() -> None:
    from pathlib import Path

    from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary
    from tests.controllers.descheduler.planned_program import PlannedProgram

    clock = VirtualClock(NOW)

    async def story(world: PlannedWorld) -> None:
        await world.program.stop()
        wish = configuration(BY_LOAD)
        library = SchedulerLibrary.read(Path("absent.yaml"))
        program = PlannedProgram(world.plane.transport(), clock, wish, library)
        world.descheduler = program  # type: ignore[assignment]
        await program.start()
        await _hot(world)
        await asyncio.sleep(60)
        past = next(program.app.history.newest_first())
        assert past.errors[0].startswith("absent.yaml: ")
        assert past.outcomes == []
        assert await world.jobs() == []
        # What each round fails of keeps nothing of it.
        assert library.problem is not None
        assert library.problem.__traceback__ is None
        # What people ask for is carried out all the same.
        (pod, *_) = await world.pods()
        await world.job("by-hand", pod.metadata.name)
        assert (await world.ended("by-hand")).status.phase == "Succeeded"

    play(story, configuration(BY_LOAD), clock)
