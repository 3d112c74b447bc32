# SPDX-License-Identifier: Apache-2.0
"""Whole migrations on the embedded server: the quick start, both modes, gangs, roll-backs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.api.protocol import eviction
from koord.controllers.descheduler.framework.points import PodEviction
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration.world import Descheduler, World, play

IN_ORDER = ["ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete"]


def test_quick_start(reference_data: Path) -> None:
    """Release 0.6: the pod of a Deployment comes back in its reservation."""
    text = (reference_data / "examples/releases/podmigrationjob-demo.yaml").read_text()
    document = yaml.safe_load(text)

    async def story(world: World) -> None:
        await world.deployment("pod-demo", 4)
        before = await world.running(4)
        moved = before[0]
        document["spec"]["podRef"]["name"] = moved.metadata.name
        await world.client.create(document)
        job = await world.ended("migrationjob-demo")
        assert (job.status.phase, job.status.status) == ("Succeeded", "Complete")
        after = await world.running(4)
        fresh = [p for p in after if p.metadata.uid not in {q.metadata.uid for q in before}]
        assert len(fresh) == 1
        assert fresh[0].spec.node_name == job.status.node_name != moved.spec.node_name
        assert job.status.pod_ref is not None
        assert job.status.pod_ref.name == fresh[0].metadata.name
        options = job.spec.reservation_options
        assert options is not None
        assert options.reservation_ref is not None
        assert options.reservation_ref.name == job.metadata.uid
        told = [event.reason for event in await world.events("PodMigrationJob")]
        assert [reason for reason in told if reason in IN_ORDER] == IN_ORDER
        assert await world.reservations() == []

    play(story)


def test_evict_directly_reserves_nothing() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        moved = (await world.running(4))[0]
        await world.job("direct", moved.metadata.name, mode="EvictDirectly")
        job = await world.ended("direct")
        assert (job.status.phase, job.status.message) == (
            "Succeeded",
            f'Pod "default/{moved.metadata.name}" has been evicted',
        )
        assert (await world.client.list(Reservation)).items == []
        await world.running(4)

    play(story)


@pytest.mark.parametrize("phase", ["arbitration", "pending", "evicting", "unready"])
def test_a_job_that_takes_too_long_leaves_nothing(phase: str) -> None:
    """Timeout in each phase: no reservation is held, and the workload is whole again."""

    async def story(world: World) -> None:
        await world.deployment("web", 4)
        moved = (await world.running(4))[0]
        name = moved.metadata.name
        if phase == "arbitration":
            await world.budget("web", 4)
        elif phase == "pending":
            for number in range(3):
                if f"n{number}" != moved.spec.node_name:
                    cordon = Patch.merge({"spec": {"unschedulable": True}})
                    await world.client.patch(Node, f"n{number}", cordon)
        elif phase == "evicting":
            finalizer = {"metadata": {"finalizers": ["example.com/stay"]}}
            await world.client.patch(Pod, name, Patch.merge(finalizer), "default")
        else:
            world.ready = False
        await world.job("late", name, ttl="1m")
        job = await world.ended("late")
        assert (job.status.phase, job.status.reason) == ("Failed", "Timeout")
        await asyncio.sleep(5)
        held = await world.reservations()
        assert [each.metadata.name for each in held if not each.status.current_owners] == []

    play(story)


def test_a_budget_that_allows_nothing_is_known_before_anything_is_reserved() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        moved = (await world.running(4))[0]
        await world.budget("web", 4)
        await world.job("kept", moved.metadata.name)
        job = await world.until("kept", lambda job: job.status.reason)
        assert (job.status.phase, job.status.reason) == ("", "PodDisruptionBudget")
        assert job.status.message == "PodDisruptionBudget default/web allows 0 disruptions"
        await asyncio.sleep(30)
        assert (await world.client.list(Reservation)).items == []
        more = Patch.merge({"spec": {"minAvailable": 3}})
        await world.client.patch(PodDisruptionBudget, "web", more, "default")
        assert (await world.ended("kept")).status.phase == "Succeeded"

    play(story)


def test_a_workload_of_one_is_refused_with_the_reason() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 1)
        (only,) = await world.running(1)
        await world.job("one", only.metadata.name)
        job = await world.ended("one")
        assert job.status.reason == "ForbiddenMigratePod"
        assert "ExpectedReplicas: Deployment default/web wants 1 replicas" in job.status.message
        assert [p.metadata.uid for p in await world.running(1)] == [only.metadata.uid]

    play(story)


def test_limits_hold_while_ten_jobs_wait() -> None:
    """Two of a node at a time by default; all ten are moved in the end."""

    async def story(world: World) -> None:
        await world.deployment("web", 10, cpu="100m")
        pods = await world.running(10)
        node = pods[0].spec.node_name
        here = [pod for pod in pods if pod.spec.node_name == node]
        most = 0
        for pod in here:
            await world.job(f"j-{pod.metadata.name}", pod.metadata.name, ttl="1h")
        async with asyncio.timeout(3600):
            while True:
                jobs = await world.jobs()
                running = [job for job in jobs if job.status.phase == "Running"]
                most = max(most, len(running))
                if all(job.status.phase == "Succeeded" for job in jobs):
                    break
                await asyncio.sleep(0.1)
        assert 1 <= most <= 2

    play(
        story,
        maxMigratingPerWorkload=10,
        maxUnavailablePerWorkload=9,
        skipCheckExpectedReplicas=True,
        objectLimiters={"workload": {"duration": "0s"}},
    )


GANG = {
    "annotations": {
        "gang.scheduling.koordinator.sh/name": "train",
        "gang.scheduling.koordinator.sh/min-available": "3",
    }
}
OPEN = {
    "maxMigratingPerWorkload": 3, "maxUnavailablePerWorkload": 3, "maxMigratingPerNode": 5,
    "skipCheckExpectedReplicas": True, "objectLimiters": {"workload": {"duration": "0s"}},
    "evictBurst": 5, "evictQPS": 100,
}  # fmt: skip


def test_a_gang_moves_together() -> None:
    async def story(world: World) -> None:
        await world.deployment("train", 3, **GANG)
        pods = await world.running(3)
        plugin = world.descheduler.plugin
        assert await plugin.evict(pods[0], PodEviction("Test", "by hand"))
        jobs = await world.jobs()
        assert len(jobs) == 3
        ended = [await world.ended(job.metadata.name) for job in jobs]
        assert [job.status.phase for job in ended] == ["Succeeded"] * 3
        key = "descheduler.koordinator.sh/job-group"
        groups = {job.metadata.annotations[key] for job in ended}
        assert len(groups) == 1
        assert groups.pop().startswith("3/")
        after = {pod.metadata.uid for pod in await world.running(3)}
        assert after.isdisjoint(pod.metadata.uid for pod in pods)

    play(story, nodes=6, **OPEN)


def test_one_of_a_gang_does_not_move_alone() -> None:
    async def story(world: World) -> None:
        await world.deployment("train", 3, **GANG)
        pods = await world.running(3)
        await world.job("alone", pods[0].metadata.name, ttl="1m")
        job = await world.until("alone", lambda job: job.status.reason)
        assert job.status.reason == "GangIncomplete"
        assert job.status.message.startswith("gang default/train moves as a whole; no job moves ")
        assert (await world.ended("alone")).status.reason == "Timeout"
        kept = {pod.metadata.uid for pod in await world.running(3)}
        assert kept == {pod.metadata.uid for pod in pods}

    play(story, nodes=6, **OPEN)


def test_a_gang_that_finds_no_room_stays_whole() -> None:
    """Three nodes, each with one pod of it and room for one more: two fit elsewhere at most."""

    async def story(world: World) -> None:
        await world.deployment("train", 3, **GANG)
        pods = await world.running(3)
        for number in range(1, 3):
            cordon = Patch.merge({"spec": {"unschedulable": True}})
            await world.client.patch(Node, f"n{number}", cordon)
        for pod in pods:
            await world.job(f"j-{pod.metadata.name}", pod.metadata.name, ttl="2m")
        ended = [await world.ended(f"j-{pod.metadata.name}") for pod in pods]
        assert {job.status.phase for job in ended} == {"Failed"}
        assert {job.status.reason for job in ended} <= {"Timeout", "JobGroupFailed"}
        await asyncio.sleep(5)
        assert await world.reservations() == []
        kept = {pod.metadata.uid for pod in await world.running(3)}
        assert kept == {pod.metadata.uid for pod in pods}

    play(story, **OPEN)


@pytest.mark.parametrize(
    "at", ["", "Running", "ReservationCreated", "ReservationScheduled", "Eviction"]
)
def test_another_process_goes_on_where_one_ended(at: str) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        await world.descheduler.plugin.evict(pods[0], PodEviction("Test", "by hand"))
        (job,) = await world.jobs()

        def reached(job: PodMigrationJob) -> bool:
            kinds = [c.type for c in job.status.conditions]
            return not at or at in (job.status.phase, *kinds)

        await world.until(job.metadata.name, reached)
        await world.restart()
        ended = await world.ended(job.metadata.name)
        assert ended.status.phase == "Succeeded"
        after = {pod.metadata.uid for pod in await world.running(4)}
        assert len(after - {pod.metadata.uid for pod in pods}) == 1
        assert await world.reservations() == []

    play(story)


def test_old_jobs_are_collected_with_their_reservations() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        await world.job("demo", pods[0].metadata.name, ttl="1m")
        await world.ended("demo")
        await asyncio.sleep(600)
        assert await world.jobs() == []
        assert (await world.client.list(Reservation)).items == []

    play(story)


def test_a_paused_job_does_nothing() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        await world.job("later", pods[0].metadata.name, paused=True)
        await asyncio.sleep(400)
        (job,) = await world.jobs()
        assert (job.status.phase, job.metadata.annotations) == ("", {})
        await world.client.patch(
            PodMigrationJob, "later", Patch.merge({"spec": {"paused": False, "ttl": "1h"}})
        )
        assert (await world.ended("later")).status.phase == "Succeeded"

    play(story)


def test_a_dry_run_writes_nothing() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        await world.descheduler.stop()
        world.descheduler = Descheduler(world.plane.transport(), world.clock, world.args, True)
        await world.descheduler.start()
        assert await world.descheduler.plugin.evict(pods[0], PodEviction("Test", "by hand"))
        await world.job("demo", pods[1].metadata.name)
        before = await world.jobs()
        await asyncio.sleep(60)
        assert await world.jobs() == before
        assert {p.metadata.uid for p in await world.running(4)} == {p.metadata.uid for p in pods}

    play(story)


def test_a_job_that_is_deleted_takes_its_reservation_with_it() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        await world.job("demo", pods[0].metadata.name)
        await world.until("demo", lambda job: job.spec.reservation_options)
        await world.client.delete(PodMigrationJob, "demo")
        await asyncio.sleep(10)
        assert await world.reservations() == []

    play(story)


@pytest.mark.parametrize("policy", ["Delete", "SoftEviction"])
def test_other_policies(policy: str) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        name = pods[0].metadata.name
        await world.job("demo", name)
        if policy == "SoftEviction":
            await world.until(
                "demo", lambda j: any(c.type == "Eviction" for c in j.status.conditions)
            )
            await asyncio.sleep(10)
            pod = await world.client.get(Pod, name, "default")
            asked = eviction.soft_eviction(pod)
            assert asked is not None
            assert (asked.initiator, asked.reason) == ("", "NotSet")
            await world.client.delete(Pod, name, "default")
        assert (await world.ended("demo")).status.phase == "Succeeded"

    play(story, evictionPolicy=policy)


def test_a_reservation_that_has_ended_draws_no_further_pods() -> None:
    """One pod after the other of a workload goes to its own reservation, on many nodes too."""

    async def story(world: World) -> None:
        await world.deployment("web", 8)
        for number in range(3):
            moved = (await world.running(8))[0]
            await world.job(f"j{number}", moved.metadata.name, ttl="1m")
            job = await world.ended(f"j{number}")
            assert (job.status.phase, job.status.reason) == ("Succeeded", "")
            await asyncio.sleep(400)  # The limit of evictions of a workload.

    play(story, nodes=20)
