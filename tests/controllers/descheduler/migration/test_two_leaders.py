# SPDX-License-Identifier: Apache-2.0
"""Two deschedulers that do not know of each other's jobs: of one pod one job runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from koord.api.protocol import keys
from koord.controllers.descheduler.migration.arbitration.job_index import is_open
from koord.kube.transport.messages import Request, Response
from tests.controllers.descheduler.migration.test_on_a_cluster import GANG, OPEN
from tests.controllers.descheduler.migration.world import Descheduler, World, play
from tests.controllers.scheduler.histories.weather import StormyTransport, Weather


class SlowTransport(StormyTransport):
    """Each write takes a while to get there, and its answer to come back."""

    seconds = (0.0, 0.0)

    async def send(self, request: Request) -> Response:
        there, back = (0.0, 0.0) if request.method == "GET" else self.seconds
        await asyncio.sleep(there)
        answer = await super().send(request)
        await asyncio.sleep(back)
        return answer


async def _lead(world: World, unseen: str, seconds: tuple[float, float] = (0, 0)) -> Descheduler:
    """One more that leads, and is told nothing of jobs whose names begin so."""
    weather = Weather()
    weather.swallows = lambda line: f'"name":"{unseen}'.encode() in line and b"podRef" in line
    way = SlowTransport(world.plane.transport(), weather)
    way.seconds = seconds
    made = Descheduler(way, world.clock, world.args)
    await made.start()
    return made


async def _watch(world: World) -> Counter[str]:
    """Follows all jobs to their end; how they ended."""
    async with asyncio.timeout(900):
        while any(is_open(job) for job in await world.jobs()):
            jobs = [job for job in await world.jobs() if job.status.phase == "Running"]
            uids = Counter(job.spec.pod_ref.uid for job in jobs if job.spec.pod_ref)
            assert all(number == 1 for number in uids.values()), [j.metadata.name for j in jobs]
            await asyncio.sleep(0.05)
    return Counter(job.status.phase for job in await world.jobs())


@pytest.mark.parametrize("slow", [(0.0, 0.0), (0.7, 0.0), (0.0, 0.7), (0.3, 0.3)])
@pytest.mark.parametrize("first", ["one", "two"])
def test_of_two_jobs_of_one_pod_one_runs(first: str, slow: tuple[float, float]) -> None:
    async def story(world: World) -> None:
        await world.deployment("web", 4)
        moved = (await world.running(4))[0].metadata.name
        await world.descheduler.stop()
        others = [await _lead(world, "two", slow), await _lead(world, "one")]
        for name in (first, "two" if first == "one" else "one"):
            await world.job(name, moved, ttl="5m")
        ends = await _watch(world)
        assert ends["Succeeded"] == 1, ends
        await world.running(4)
        assert await world.reservations() == []
        for each in others:
            await each.stop()

    play(story)


def test_of_two_groups_of_one_gang_one_moves_it() -> None:
    async def story(world: World) -> None:
        await world.deployment("train", 3, **GANG)
        pods = await world.running(3)
        await world.descheduler.stop()
        others = [await _lead(world, "two"), await _lead(world, "one")]
        for who in ("one", "two"):
            for number, pod in enumerate(pods):
                await world.job(f"{who}-{number}", pod.metadata.name, ttl="5m")
        ends = await _watch(world)
        assert ends == {"Succeeded": 3, "Failed": 3}
        kept = {pod.metadata.uid for pod in await world.running(3)}
        assert kept.isdisjoint(pod.metadata.uid for pod in pods)
        for each in others:
            await each.stop()

    play(story, nodes=6, **OPEN)


def test_who_is_first_takes_from_the_other_what_lets_it_begin() -> None:
    """As if both had passed, and neither process knew of the other's."""

    async def story(world: World) -> None:
        await world.deployment("web", 4)
        moved = (await world.running(4))[0].metadata.name
        await world.descheduler.stop()
        one = await _lead(world, "two")
        passed: Any = {"annotations": {keys.PASSED_ARBITRATION: "true"}}
        await world.job("two", moved, metadata=passed)
        await world.job("one", moved, metadata=passed)
        await world.until("one", lambda job: job.status.phase == "Running")
        (two,) = [job for job in await world.jobs() if job.metadata.name == "two"]
        assert (two.status.phase, two.metadata.annotations) == ("", {})
        await one.stop()

    play(story)
