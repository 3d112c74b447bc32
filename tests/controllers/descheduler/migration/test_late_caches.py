# SPDX-License-Identifier: Apache-2.0
"""Jobs of pods that caches have not heard of: nothing passes that no check has seen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.api.protocol.eviction import NEVER_EVICT
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration.world import Descheduler, World, play
from tests.controllers.scheduler.histories.weather import StormyTransport, Weather

POD = b'"kind":"Pod"'
KEPT = {"annotations": {keys.EVICTION_COST: str(NEVER_EVICT)}}


def _behind(story: Callable[[World, Weather], Awaitable[None]], **args: Any) -> None:
    """Plays a story with a descheduler whose watches may be kept from it."""

    async def whole(world: World) -> None:
        weather = Weather()
        way = StormyTransport(world.plane.transport(), weather)
        await world.descheduler.stop()
        world.descheduler = Descheduler(way, world.clock, world.args)
        await world.descheduler.start()
        await world.deployment("web", 4)
        await world.running(4)
        await story(world, weather)

    play(whole, **args)


def test_a_job_of_a_pod_that_the_cache_lacks_waits_for_the_checks() -> None:
    async def story(world: World, weather: Weather) -> None:
        weather.swallows = lambda line: POD in line
        await world.deployment("kept", 4, **KEPT)
        kept = (await world.running(8))[0]
        assert kept.metadata.labels["app"] == "kept"
        await world.job("late", kept.metadata.name, ttl="10m")
        await asyncio.sleep(60)
        (job,) = await world.jobs()
        assert (job.status.phase, job.metadata.annotations) == ("", {})
        weather.swallows = lambda line: False
        weather.strike(gone=True)
        assert (await world.ended("late")).status.reason == "ForbiddenMigratePod"

    _behind(story)


def test_a_job_of_a_pod_whose_node_the_cache_lacks_waits_for_the_limits() -> None:
    """Of a node one pod may move; of another one of it only the server knows that it is there."""

    async def story(world: World, weather: Weather) -> None:
        weather.swallows = lambda line: POD in line and b'"nodeName"' in line
        await world.deployment("new", 4)
        pods = await world.running(8)
        new = next(pod for pod in pods if pod.metadata.labels["app"] == "new")
        there = [pod for pod in pods if pod.metadata.labels["app"] == "web"]
        first = next(pod for pod in there if pod.spec.node_name == new.spec.node_name)
        stay = Patch.merge({"metadata": {"finalizers": ["example.com/stay"]}})
        await world.client.patch(Pod, first.metadata.name, stay, "default")
        await world.job("first", first.metadata.name, ttl="1h")
        await world.until("first", lambda job: job.status.phase == "Running")
        await world.job("late", new.metadata.name, ttl="1h")
        await asyncio.sleep(60)
        assert (await world.until("late", bool)).metadata.annotations == {}
        weather.swallows = lambda line: False
        weather.strike(gone=True)
        late = await world.until("late", lambda job: job.status.reason)
        assert late.status.reason == "MaxMigratingPerNode"

    _behind(story, maxMigratingPerNode=1, skipEvictionGates=["MaxUnavailablePerWorkload"])


def test_a_job_of_a_pod_that_is_nowhere_ends_without_passing() -> None:
    """Else one of the same name that comes a moment later would go unseen."""

    async def story(world: World, weather: Weather) -> None:
        await world.job("none", "web-0")
        job = await world.ended("none")
        assert (job.status.phase, job.status.reason) == ("Failed", "MissingPod")
        assert job.status.message == 'Abort job caused by missing Pod "default/web-0"'
        assert job.metadata.annotations == {}

    _behind(story)


def test_a_gang_of_which_the_cache_lacks_a_pod_waits_for_it() -> None:
    async def story(world: World, weather: Weather) -> None:
        least = {"gang.scheduling.koordinator.sh/min-available": "2"}
        gang = {"annotations": {"gang.scheduling.koordinator.sh/name": "train", **least}}
        await world.deployment("train", 2, **gang)
        first, second = [
            pod.metadata.name
            for pod in await world.running(6)
            if pod.metadata.labels["app"] == "train"
        ]
        await asyncio.sleep(5)
        weather.swallows = lambda line: POD in line and second.encode() not in line
        await world.client.delete(Pod, second, "default")
        await world.running(6)
        await world.job("first", first, ttl="10m")
        await asyncio.sleep(60)
        job = await world.until("first", bool)
        assert (job.status.phase, job.status.reason) == ("", "GangIncomplete")
        assert job.status.message.endswith("of default/train: it needs 2 pods, and 1 are there")
        assert job.metadata.annotations == {}

    _behind(story)
