# SPDX-License-Identifier: Apache-2.0
"""Soft evictions that are taken back."""

from __future__ import annotations

import asyncio

import pytest

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.protocol import eviction
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
