# SPDX-License-Identifier: Apache-2.0
"""Soft evictions that are taken back."""

from __future__ import annotations

import asyncio

import pytest

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.protocol import eviction, keys
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.kube.errors import TransportError
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration.world import World, play


@pytest.mark.parametrize("how", ["aborted", "deleted"])
def test_a_soft_eviction_is_taken_back_once_no_other_job_is_there_either(how: str) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        name = (await world.running(4))[0].metadata.name
        await world.job("demo", name)
        await world.until("demo", lambda j: "Eviction" in [c.type for c in j.status.conditions])
        await world.job("other", name)
        await asyncio.sleep(1)
        aborted = Patch.merge({"status": {"phase": "Aborted"}})
        await world.client.patch(PodMigrationJob, "demo", aborted, subresource="status")
        await asyncio.sleep(5)
        # The other one moves it.
        assert eviction.soft_eviction(await world.client.get(Pod, name, "default")) is not None
        if how == "aborted":
            await world.client.patch(PodMigrationJob, "other", aborted, subresource="status")
        else:
            await world.client.delete(PodMigrationJob, "other")
        await asyncio.sleep(5)
        assert eviction.soft_eviction(await world.client.get(Pod, name, "default")) is None

    play(story, evictionPolicy="SoftEviction")


def test_a_soft_eviction_whose_answer_was_lost_is_taken_back_too() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        name = (await world.running(4))[0].metadata.name
        lost = FaultRule(rate=1.0, error=TransportError("cut off on the way back"))
        with inject(FaultPlan(seed=1, rules={"descheduler.migration.evicted": lost})):
            await world.job("demo", name, ttl="1m")
            assert (await world.ended("demo")).status.reason == "Timeout"
            await asyncio.sleep(5)
        assert eviction.soft_eviction(await world.client.get(Pod, name, "default")) is None

    play(story, evictionPolicy="SoftEviction")


@pytest.mark.parametrize("how", ["aborted", "late"])
def test_a_soft_eviction_is_taken_back_with_its_job(how: str) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        name = (await world.running(4))[0].metadata.name
        await world.job("demo", name, ttl="1m")
        await world.until("demo", lambda j: "Eviction" in [c.type for c in j.status.conditions])
        await asyncio.sleep(1)
        assert eviction.soft_eviction(await world.client.get(Pod, name, "default")) is not None
        if how == "aborted":
            change = Patch.merge({"status": {"phase": "Aborted"}})
            await world.client.patch(PodMigrationJob, "demo", change, subresource="status")
        else:
            assert (await world.ended("demo")).status.reason == "Timeout"
        await asyncio.sleep(5)
        assert eviction.soft_eviction(await world.client.get(Pod, name, "default")) is None
        assert await world.reservations() == []

    play(story, evictionPolicy="SoftEviction")


async def _asked(world: World, name: str) -> Pod:
    """A pod once a job has asked it to go."""
    await world.until(name, lambda j: "Eviction" in [c.type for c in j.status.conditions])
    await asyncio.sleep(1)
    job = await world.client.get(PodMigrationJob, name)
    assert job.spec.pod_ref is not None
    pod = await world.client.get(Pod, job.spec.pod_ref.name, "default")
    assert eviction.soft_eviction(pod) is not None
    assert pod.metadata.annotations[keys.SOFT_EVICTION_JOB].startswith(job.metadata.uid)
    return pod


def _left(pod: Pod) -> set[str]:
    return {keys.SOFT_EVICTION, keys.SOFT_EVICTION_JOB} & pod.metadata.annotations.keys()


@pytest.mark.parametrize("how", ["seen", "while none runs", "while one comes"])
def test_a_soft_eviction_is_taken_back_when_its_job_is_deleted(how: str) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        await world.job("demo", (await world.running(4))[0].metadata.name)
        pod = await _asked(world, "demo")
        if how == "while none runs":
            await world.descheduler.stop()
        await world.client.delete(PodMigrationJob, "demo")
        if how != "seen":
            await world.restart()
        await asyncio.sleep(5)
        assert not _left(await world.client.get(Pod, pod.metadata.name, "default"))
        assert await world.reservations() == []

    play(story, evictionPolicy="SoftEviction")


def test_a_request_of_somebody_else_stays_when_the_job_is_deleted() -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        await world.job("demo", (await world.running(4))[0].metadata.name)
        name = (await _asked(world, "demo")).metadata.name
        other = '{"initiator":"an operator","reason":"its own"}'
        change = Patch.merge({"metadata": {"annotations": {keys.SOFT_EVICTION: other}}})
        await world.client.patch(Pod, name, change, "default")
        await world.client.delete(PodMigrationJob, "demo")
        await asyncio.sleep(5)
        pod = await world.client.get(Pod, name, "default")
        assert pod.metadata.annotations[keys.SOFT_EVICTION] == other
        assert _left(pod) == {keys.SOFT_EVICTION}

    play(story, evictionPolicy="SoftEviction")


@pytest.mark.parametrize("how", ["aborted", "deleted"])
def test_a_request_of_a_deleted_job_is_left_to_another_job_while_that_is_there(how: str) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        await world.job("demo", (await world.running(4))[0].metadata.name)
        name = (await _asked(world, "demo")).metadata.name
        await world.job("other", name, paused=True)
        await world.client.delete(PodMigrationJob, "demo")
        await asyncio.sleep(5)
        assert eviction.soft_eviction(await world.client.get(Pod, name, "default")) is not None
        if how == "aborted":
            change = Patch.merge({"status": {"phase": "Aborted"}})
            await world.client.patch(PodMigrationJob, "other", change, subresource="status")
        else:
            await world.client.delete(PodMigrationJob, "other")
        await asyncio.sleep(5)
        assert not _left(await world.client.get(Pod, name, "default"))

    play(story, evictionPolicy="SoftEviction")


@pytest.mark.parametrize("text", ["", "/", "a/b", "//", "a/b/c/d", "x" * 5000, "a/b/c"])
def test_what_a_tenant_writes_as_a_mark_harms_nothing(text: str) -> None:
    """A job that is not there is asked for once, and the mark alone goes."""

    async def story(world: World) -> None:
        await world.deployment("web", 4)
        name = (await world.running(4))[0].metadata.name
        written = {keys.SOFT_EVICTION: "{}", keys.SOFT_EVICTION_JOB: text}
        change = Patch.merge({"metadata": {"annotations": written}})
        await world.client.patch(Pod, name, change, "default")
        await asyncio.sleep(5)
        pod = await world.client.get(Pod, name, "default")
        assert pod.metadata.annotations[keys.SOFT_EVICTION] == "{}"
        assert _left(pod) == ({keys.SOFT_EVICTION} if text == "a/b/c" else set(written))
        await world.job("demo", name)
        assert (await _asked(world, "demo")).metadata.name == name

    play(story, evictionPolicy="SoftEviction")
