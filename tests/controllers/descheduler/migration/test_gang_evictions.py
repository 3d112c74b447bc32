# SPDX-License-Identifier: Apache-2.0
"""A gang beside the limiter of objects: it goes as a whole, and what moves next waits."""

from __future__ import annotations

import asyncio

from koord.controllers.descheduler.framework.points import PodEviction
from tests.controllers.descheduler.migration.test_on_a_cluster import GANG, OPEN
from tests.controllers.descheduler.migration.world import World, play


def test_a_gang_larger_than_its_bucket_of_evictions_moves_together() -> None:
    """Two tokens come back in 60 s, one fits: what moves after the three waits for all of them."""

    async def story(world: World) -> None:
        await world.deployment("train", 3, **GANG)
        pods = await world.running(3)
        plugin = world.descheduler.plugin
        began = world.clock.monotonic_seconds()
        assert await plugin.evict(pods[0], PodEviction("Test", "by hand"))
        jobs = [await world.ended(job.metadata.name) for job in await world.jobs()]
        assert [job.status.phase for job in jobs] == ["Succeeded"] * 3
        seconds = world.clock.monotonic_seconds() - began
        assert seconds < 30, "one after the other"
        fresh = await world.running(3)
        assert not await plugin.evict(fresh[0], PodEviction("Test", "again"))
        assert plugin.why.startswith("objectLimiters.workload: one eviction of ReplicaSet default/")
        assert plugin.why.endswith("each 30 s; 3 go at once, as one gang")
        # Three were taken, of which one was there.
        await asyncio.sleep(90 - seconds - 1)
        assert not await plugin.evict(fresh[0], PodEviction("Test", "too early"))
        await asyncio.sleep(seconds + 1)
        assert await plugin.evict(fresh[0], PodEviction("Test", "at last"))

    limit = {"workload": {"duration": "60s", "maxMigrating": 2}}
    play(story, nodes=6, **{**OPEN, "objectLimiters": limit})
