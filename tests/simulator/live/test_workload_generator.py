# SPDX-License-Identifier: Apache-2.0
"""Jobs reach the server at their time, whatever fails on the way."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from koord.base import faults
from koord.base.clock import VirtualClock, VirtualLoop
from koord.kube.errors import ApiError, Status, TransportError
from koord.simulator.live import workload
from koord.simulator.live.workload_generator import WorkloadGenerator

HOURS = 3


class _Server:
    """Keeps names and times; refuses a name that it has."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.jobs: dict[str, float] = {}

    async def create(self, document: dict[str, Any], **_: object) -> None:
        name = document["metadata"]["name"]
        if name in self.jobs:
            raise ApiError(Status(code=409, reason="AlreadyExists"))
        self.jobs[name] = self._clock.monotonic_seconds()


def _run(plan: faults.FaultPlan, known: tuple[str, ...] = ()) -> tuple[_Server, WorkloadGenerator]:
    clock = VirtualClock()
    server = _Server(clock)
    server.jobs.update(dict.fromkeys(known, 0.0))
    generator = WorkloadGenerator(server, clock, 4, 7)  # type: ignore[arg-type]

    async def run() -> None:
        with faults.inject(plan):
            async with asyncio.timeout(3600 * HOURS):
                await generator.run()

    loop = VirtualLoop(clock)
    with pytest.raises(TimeoutError):
        loop.run_until_complete(run())
    loop.close()
    return server, generator


def _expected() -> list[workload.Arrival]:
    found = workload.arrivals(7, 4)
    return list(itertools.takewhile(lambda each: each.seconds < 3600 * HOURS, found))


def test_jobs_come_at_their_time() -> None:
    server, generator = _run(faults.FaultPlan(seed=0, rules={}))
    expected = _expected()
    assert server.jobs == pytest.approx({each.name: each.seconds for each in expected})
    assert generator.submitted == sum(each.tasks for each in expected)


def test_what_fails_is_tried_again_and_nothing_is_lost() -> None:
    lost = TransportError("connection reset")
    rules = {"simulator.live.submit": faults.FaultRule(rate=0.3, error=lost)}
    server, _ = _run(faults.FaultPlan(seed=1, rules=rules))
    expected = _expected()
    # The last ones may still be tried.
    assert list(server.jobs) == [each.name for each in expected][: len(server.jobs)]
    assert len(server.jobs) > 0.9 * len(expected)


def test_a_job_that_is_there_is_taken_as_submitted() -> None:
    first = _expected()[0]
    server, generator = _run(faults.FaultPlan(seed=0, rules={}), (first.name,))
    assert len(server.jobs) == len(_expected())
    assert generator.submitted == sum(each.tasks for each in _expected())
