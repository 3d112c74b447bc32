# SPDX-License-Identifier: Apache-2.0
"""Flows take turns for tokens; rule: docs/kube.md#client."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube.requests.pipeline import namespace_of_path
from koord.kube.requests.rate_limiter import RateLimiter
from tests.base.test_turn_queue import PlainTurns
from tests.kube.harness import run_virtual


def passed(flows: list[str], per_second: float, burst: int) -> list[tuple[float, str, int]]:
    """When which request of which flow went, all of which came at once."""
    gone: list[tuple[float, str, int]] = []

    async def one(limiter: RateLimiter, flow: str, number: int) -> None:
        await limiter.acquire(None, flow)
        gone.append((asyncio.get_running_loop().time(), flow, number))

    async def story() -> None:
        limiter = RateLimiter(per_second, burst)
        tasks = [asyncio.create_task(one(limiter, *each[::-1])) for each in enumerate(flows)]
        await asyncio.gather(*tasks)

    run_virtual(story())
    return gone


def test_one_of_each_flow_a_round() -> None:
    gone = passed(["a", "a", "a", "a", "b"], 10.0, 1)
    assert [number for _, _, number in gone] == [0, 1, 4, 2, 3]
    assert [time for time, _, _ in gone] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=30), st.integers(1, 4))
def test_against_the_model(flows: list[str], burst: int) -> None:
    model = PlainTurns()
    for number, flow in list(enumerate(flows))[burst:]:
        model.push(flow, number)
    waited = [model.pop() for _ in flows[burst:]]
    gone = passed(flows, 50.0, burst)
    assert [number for _, _, number in gone] == [*range(min(burst, len(flows))), *waited]
    for place, (time, _, _) in enumerate(gone):
        assert time == pytest.approx(max(0, place + 1 - burst) / 50.0)


def test_a_flow_with_thousands_before_it_makes_no_other_give_up() -> None:
    async def story() -> None:
        limiter = RateLimiter(1.0, 1)
        await limiter.acquire()
        crowd = [asyncio.create_task(limiter.acquire(None, "many")) for _ in range(1000)]
        await asyncio.sleep(0.5)
        assert await limiter.acquire(3.0, "few") == pytest.approx(1.5)
        # Of its own flow as many stand before it as it would wait seconds, and more.
        assert await limiter.acquire(900.0, "many") is None
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        # Those that gave up hold up nobody, and leave nothing behind.
        assert await limiter.acquire(2.0, "few") == pytest.approx(1.0)
        assert not limiter._of_flow

    run_virtual(story())


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/api/v1/namespaces/alice/pods/web/binding", "alice"),
        ("/apis/apps/v1/namespaces/bob/deployments", "bob"),
        ("/api/v1/nodes/n1/status", ""),
        ("/api/v1/namespaces/alice", "alice"),
        ("/api/v1/namespaces", ""),
    ],
)
def test_requests_are_told_apart_by_the_namespace_that_they_name(path: str, namespace: str) -> None:
    assert namespace_of_path(path) == namespace
