# SPDX-License-Identifier: Apache-2.0
"""Whole migrations on the embedded server: the quick start, both modes, gangs, roll-backs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from koord.api import codec
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.api.protocol import eviction, keys
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.migration.arbitration.job_index import is_open
from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex
from koord.controllers.descheduler.migration.course.reservation_template import reservation_of
from koord.controllers.descheduler.options import DeschedulerOptions
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


def test_jobs_of_one_workload_move_at_once() -> None:
    """All have their reservation before the first has ended; each ends well, whichever it was that
    its new pod took."""

    async def story(world: World) -> None:
        await world.deployment("web", 8, cpu="100m")
        pods = await world.running(8)
        for pod in pods:
            await world.job(f"j-{pod.metadata.name}", pod.metadata.name, ttl="10m")
        most = 0
        async with asyncio.timeout(1200):
            while True:
                jobs = await world.jobs()
                placed = [j for j in jobs if j.status.phase == "Running" and j.status.node_name]
                most = max(most, len(placed))
                if not any(is_open(job) for job in jobs):
                    break
                await asyncio.sleep(0.02)
        assert {(job.status.phase, job.status.reason) for job in jobs} == {("Succeeded", "")}
        assert most >= 3
        fresh = await world.running(8)
        assert {p.metadata.uid for p in fresh}.isdisjoint(p.metadata.uid for p in pods)
        moved = {job.status.pod_ref.name for job in jobs if job.status.pod_ref}
        assert moved == {pod.metadata.name for pod in fresh}
        assert await world.reservations() == []

    play(story, nodes=6, **{**OPEN, "maxMigratingPerWorkload": 8, "maxUnavailablePerWorkload": 8,
                            "evictQPS": 2, "evictBurst": 1})  # fmt: skip


def test_one_after_another_strands_nobody_where_the_first_is_held_back() -> None:
    """A new pod takes the oldest reservation, whose job has not evicted yet: both go on."""

    async def story(world: World) -> None:
        await world.deployment("web", 3)
        await world.deployment("api", 1)
        pods = await world.running(4)
        web = [pod for pod in pods if pod.metadata.labels["app"] == "web"]
        cordon = Patch.merge({"spec": {"unschedulable": True}})
        await world.client.patch(Node, web[0].spec.node_name, cordon)
        # The token of the first goes to another, and it is paused before it gets one.
        other = next(pod for pod in pods if pod.metadata.labels["app"] == "api")
        await world.job("other", other.metadata.name, mode="EvictDirectly")
        await world.ended("other")
        await world.job("first", web[0].metadata.name)
        node = (await world.until("first", lambda job: job.status.node_name)).status.node_name
        held = Patch.merge({"spec": {"paused": True}})
        await world.client.patch(PodMigrationJob, "first", held)
        second = next(pod for pod in web[1:] if pod.spec.node_name != node)
        await world.job("second", second.metadata.name)
        await world.until("second", lambda job: job.status.phase == "Succeeded")
        free = Patch.merge({"spec": {"paused": False}})
        await world.client.patch(PodMigrationJob, "first", free)
        ended = await world.ended("first")
        assert (ended.status.phase, ended.status.reason) == ("Succeeded", "")
        assert await world.reservations() == []

    play(story, nodes=6, **{**OPEN, "evictQPS": 0.1, "evictBurst": 1})


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


def test_of_two_jobs_that_both_passed_one_moves_the_pod() -> None:
    """As where two deschedulers led for a while, and each let another one pass."""

    async def story(world: World) -> None:
        await world.deployment("web", 4)
        moved = (await world.running(4))[0].metadata.name
        passed = {"annotations": {keys.PASSED_ARBITRATION: "true"}}
        for name in ("first", "second"):
            await world.job(name, moved, metadata=passed, ttl="2m")
        seen: set[str] = set()
        while any(is_open(job) for job in await world.jobs()):
            run = [j.metadata.name for j in await world.jobs() if j.status.phase == "Running"]
            assert len(run) <= 1, run
            seen.update(run)
            await asyncio.sleep(0.05)
        ends = {job.metadata.name: job.status.phase for job in await world.jobs()}
        assert (seen, ends) == ({"first"}, {"first": "Succeeded", "second": "Failed"})

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


def test_the_limiter_of_objects_says_once_what_it_holds_back() -> None:
    """Default: two of four in 5 minutes, so that the second waits 150 s for its turn."""

    async def story(world: World) -> None:
        await world.deployment("web", 4)
        pods = await world.running(4)
        await world.job("first", pods[0].metadata.name)
        await world.ended("first")
        await world.job("second", pods[1].metadata.name)
        job = await world.until("second", lambda job: job.status.reason)
        owner = pods[1].metadata.owner_references[0].name
        assert (job.status.phase, job.status.reason, job.status.message) == (
            "Running",
            "ObjectLimiter",
            f"objectLimiters.workload: one eviction of ReplicaSet default/{owner} each 150 s",
        )
        ended = await world.ended("second")
        assert (ended.status.phase, ended.status.reason) == ("Succeeded", "")
        said = [e for e in await world.events("PodMigrationJob") if e.reason == "ObjectLimiter"]
        assert [(e.involved_object.name, e.count) for e in said] == [("second", 1)]

    play(story)


@pytest.mark.parametrize("without", [False, True])
def test_a_reservation_has_the_claims_of_its_pod_unless_the_gate_says_otherwise(
    without: bool,
) -> None:
    """Gate DisablePVCReservation, off by default."""
    pod = {
        "metadata": {"name": "db", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "n0", "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "work", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "config", "configMap": {"name": "c"}},
        ]},
    }  # fmt: skip
    job = {"metadata": {"name": "j", "uid": "j"}, "spec": {}}
    options = DeschedulerOptions(feature_gates=f"DisablePVCReservation={without}".lower().replace(
        "disablepvcreservation", "DisablePVCReservation"))  # fmt: skip
    found = options.configuration(PluginRegistry([]), ())
    made = reservation_of(job, pod, 0, found.without_claims)
    names = [each["name"] for each in made["spec"]["template"]["spec"]["volumes"]]
    assert names == (["config"] if without else ["data", "work", "config"])


def test_gangs_of_one_group_move_together_or_not_at_all() -> None:
    """Two gangs that name each other, one by its pods, one by its PodGroup; a third does not."""

    def named(gang: str, *group: str) -> dict[str, str]:
        return {
            "gang.scheduling.koordinator.sh/name": gang,
            "gang.scheduling.koordinator.sh/min-available": "1",
            "gang.scheduling.koordinator.sh/groups": json.dumps([f"default/{g}" for g in group]),
        }

    async def story(world: World) -> None:
        await world.deployment("a", 2, annotations=named("a", "a", "b"))
        await world.create(
            "scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "b", spec={"minMember": 1},
            metadata={"annotations": named("b", "b", "a")},
        )  # fmt: skip
        await world.deployment("b", 2, more_labels={"pod-group.scheduling.sigs.k8s.io": "b"})
        await world.deployment("c", 1, annotations=named("c"))
        pods = await world.running(5)
        pod = pods[0]
        await world.job("alone", pod.metadata.name, ttl="1m")
        job = await world.until("alone", lambda job: job.status.reason)
        assert job.status.reason == "GangIncomplete"
        assert job.status.message.startswith(
            "gangs default/a, default/b move as a whole; no job moves "
        )
        await world.client.delete(PodMigrationJob, "alone")
        await asyncio.sleep(2)
        assert await world.descheduler.plugin.evict(pod, PodEviction("Test", "by hand"))
        jobs = await world.jobs()
        assert len(jobs) == 4
        ended = [await world.ended(job.metadata.name) for job in jobs]
        assert {job.status.phase for job in ended} == {"Succeeded"}
        (group,) = {j.metadata.annotations["descheduler.koordinator.sh/job-group"] for j in ended}
        assert group.startswith("4/")
        kept = {p.metadata.uid for p in pods} & {p.metadata.uid for p in await world.running(5)}
        assert kept == {pods[4].metadata.uid}

    play(story, nodes=6, **OPEN)


def test_what_one_gang_says_of_another_is_no_word_for_both() -> None:
    def pod(name: str, gang: str, *group: str) -> Pod:
        annotations = {"gang.scheduling.koordinator.sh/name": gang,
                       "gang.scheduling.koordinator.sh/groups": json.dumps(group)}  # fmt: skip
        return Pod(metadata=ObjectMeta(name=name, namespace="ns", annotations=annotations))

    index = PodIndex()
    first, second = pod("x", "a", "ns/a", "ns/b"), pod("y", "b")
    index.put(first)
    index.put(second)
    assert (index.gangs_of(first), index.gangs_of(second)) == (("ns/a",), ("ns/b",))
    index.put(pod("y", "b", "ns/a"))
    assert index.gangs_of(first) == ("ns/a", "ns/b")
    index.remove("ns/y")
    assert index.gangs_of(first) == ("ns/a",)
    index.remove("ns/x")
    assert (index._named, index._by_gang) == ({}, {})


def test_podgroups_say_which_gangs_are_of_one_group() -> None:
    def member(name: str, gang: str) -> Pod:
        labels = {"pod-group.scheduling.sigs.k8s.io": gang}
        document = {"metadata": {"name": name, "namespace": "ns", "labels": labels}}
        return codec.convert(document, Pod, name)

    def named(gang: str, *group: str) -> PodGroup:
        annotations = {"gang.scheduling.koordinator.sh/groups": json.dumps(group)}
        metadata = {"name": gang, "namespace": "ns", "annotations": annotations}
        return codec.convert({"metadata": metadata}, PodGroup, gang)

    first, second = member("p", "a"), member("q", "b")
    index = PodIndex([first, second], [named("a", "ns/a", "ns/b")])
    assert index.gangs_of(first) == ("ns/a",)
    index.put_group(named("b", "ns/a"))
    assert index.gangs_of(first) == index.gangs_of(second) == ("ns/a", "ns/b")
    assert sorted(index.members(second)) == ["ns/p", "ns/q"]
    index.put_group(named("a"))
    assert index.gangs_of(first) == ("ns/a",)
    index.remove_group(named("b"))
    assert index._declared == {}


def test_jobs_that_wait_are_not_looked_at_while_nothing_changes() -> None:
    """What 500 of them cost is what changes of their pods and reservations cost."""

    async def story(world: World) -> None:
        await world.deployment("web", 8, cpu="100m")
        pods = await world.running(8)
        world.ready = False
        for pod in pods:
            await world.job(f"j-{pod.metadata.name}", pod.metadata.name, ttl="1h")
        await asyncio.sleep(60)
        running = [job for job in await world.jobs() if job.status.phase == "Running"]
        assert {job.status.reason for job in running} == {"WaitForBoundPodReady"}
        loops = world.descheduler.plugin.loops
        assert loops is not None
        passes: list[str] = []

        async def counted(job: PodMigrationJob) -> None:
            passes.append(job.metadata.name)

        loops.controller.one_pass = counted  # type: ignore[method-assign,assignment]
        await asyncio.sleep(300)
        assert passes == []

    play(story, nodes=6, **{**OPEN, "maxMigratingPerNode": 8, "maxMigratingPerWorkload": 8,
                            "maxUnavailablePerWorkload": 8})  # fmt: skip
