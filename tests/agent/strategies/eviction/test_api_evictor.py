# SPDX-License-Identifier: Apache-2.0
"""Evictions through the API: what is asked for, what is remembered, what is told."""

from __future__ import annotations

import asyncio

import pytest

from koord.agent.strategies.eviction.api_evictor import FAILURE, RETRY_SECONDS, SUCCESS, ApiEvictor
from koord.agent.strategies.eviction.evictor import EvictionState
from koord.base import faults
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.kube.errors import ApiError, Status, TransportError
from tests.agent.strategies.nodes import pod

_POD = pod("one", qos="BE")


class Server:
    """Answers evictions with what is in ``answers``, else with success."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, str]] = []

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        self.asked.append((name, namespace, uid))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, about, event_type, reason, message) -> None:
        self.events.append((event_type, reason, message))


def _refusal(code: int) -> ApiError:
    return ApiError(Status(code=code, message="no"))


async def _asked(*answers: Exception | None) -> tuple[ApiEvictor, Server, Told, VirtualClock]:
    """An evictor that has sent its first eviction."""
    server, told, clock = Server(*answers), Told(), VirtualClock()
    evictor = ApiEvictor(server, told, clock)
    assert evictor.evict(_POD, "CPUEvict", "why") is EvictionState.STARTED
    assert server.asked == [], "evict must not wait for the server"
    assert evictor.evict(_POD, "CPUEvict", "why") is EvictionState.STARTED
    await _send(evictor)
    return evictor, server, told, clock


def _run(*answers: Exception | None) -> tuple[ApiEvictor, Server, Told, VirtualClock]:
    return asyncio.run(_asked(*answers))


async def _send(evictor: ApiEvictor) -> None:
    task = asyncio.create_task(evictor.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_uid_is_the_precondition_and_the_pod_is_remembered_two_minutes():
    evictor, server, told, clock = _run()
    assert server.asked == [("one", "default", "uid-one")]
    assert evictor.fate(_POD.uid) is EvictionState.UNDER_WAY
    assert told.events == [("Warning", SUCCESS, "why")]
    clock.advance(120.0)
    assert evictor.evict(_POD, "CPUEvict", "why") is EvictionState.UNDER_WAY
    clock.advance(0.5)
    assert evictor.fate(_POD.uid) is None
    assert evictor.fate("another") is None


@pytest.mark.parametrize("code", [404, 409])
def test_no_such_pod_any_more_is_gone(code):
    evictor, _, told, _ = _run(_refusal(code))
    assert evictor.fate(_POD.uid) is EvictionState.GONE
    assert told.events == []


@pytest.mark.parametrize(
    "answer", [_refusal(429), _refusal(500), TransportError("down"), KoordError("x", "", 1, "2")]
)
def test_a_refusal_is_told_and_asked_again_after_a_pause(answer):
    async def scene() -> None:
        evictor, server, told, clock = await _asked(answer)
        assert evictor.fate(_POD.uid) is EvictionState.REFUSED
        assert [reason for _, reason, _ in told.events] == [FAILURE]
        assert evictor.evict(_POD, "CPUEvict", "why") is EvictionState.REFUSED
        assert len(server.asked) == 1
        clock.advance(RETRY_SECONDS)
        assert evictor.evict(_POD, "CPUEvict", "why") is EvictionState.STARTED
        await _send(evictor)
        assert evictor.fate(_POD.uid) is EvictionState.UNDER_WAY
        assert len(server.asked) == 2

    asyncio.run(scene())


def test_a_pod_that_left_the_list_is_gone():
    evictor, *_ = _run()
    evictor.observe([_POD])
    assert evictor.fate(_POD.uid) is EvictionState.UNDER_WAY
    evictor.observe([pod("one", phase="Failed")])
    assert evictor.fate(_POD.uid) is EvictionState.GONE


def test_a_pod_that_left_the_list_is_forgotten_though_nobody_asks() -> None:
    evictor, _, _, clock = _run()
    for _ in range(2):
        evictor.observe([])
        clock.advance(121.0)
    assert evictor._cases == {}


def test_a_pod_not_yet_asked_for_is_not_gone_because_a_list_lacks_it():
    async def scene() -> None:
        evictor = ApiEvictor(Server(), Told(), VirtualClock())
        evictor.evict(_POD, "CPUEvict", "why")
        evictor.observe([])
        assert evictor.fate(_POD.uid) is EvictionState.STARTED

    asyncio.run(scene())


def test_more_than_can_wait_are_refused():
    async def scene() -> None:
        evictor = ApiEvictor(Server(), Told(), VirtualClock())
        fates = [evictor.evict(pod(f"p{i}"), "CPUEvict", "why") for i in range(101)]
        assert fates == [EvictionState.STARTED] * 100 + [EvictionState.REFUSED]

    asyncio.run(scene())


def test_a_fault_on_the_way_is_a_refusal():
    plan = faults.FaultPlan(
        1, {"agent.evict.api": faults.FaultRule(1.0, TransportError("injected"))}
    )
    with faults.inject(plan):
        evictor, server, _, _ = _run()
    assert evictor.fate(_POD.uid) is EvictionState.REFUSED
    assert server.asked == []
