# SPDX-License-Identifier: Apache-2.0
"""Requests of one tenant queue behind its own.

Rule: docs/controlplane.md#who-else-is-on-the-loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from koord.base.loop_share import loop_share
from koord.controlplane.authorization.identity import ADMINISTRATOR, Identity
from koord.controlplane.frontends.fair_queue import MOST_ITERATIONS, FairQueue, Tenant, tenant_of

ALICE, MALLORY = ("user", "alice"), ("user", "mallory")
ACCOUNTS_OF_MALLORY = ("system:serviceaccount:", "mallory")


class Begun:
    """Requests as they begin, and the turn of the loop in which each does."""

    def __init__(self) -> None:
        self.queue = FairQueue()
        self.order: list[tuple[Tenant, int]] = []
        self.number = 0
        self._counting = True
        asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self.number += 1
        if self._counting:
            asyncio.get_running_loop().call_soon(self._count)

    async def ask(self, tenant: Tenant) -> None:
        await self.queue.wait(tenant)
        self.order.append((tenant, self.number))

    def stop(self) -> None:
        self._counting = False


def story(test: Callable[[Begun], Awaitable[None]]) -> None:
    async def run() -> None:
        begun = Begun()
        try:
            async with asyncio.timeout(60):
                await test(begun)
        finally:
            begun.stop()

    asyncio.run(run())


def test_who_asks_alone_waits_for_nothing() -> None:
    async def test(begun: Begun) -> None:
        for _ in range(100):
            await begun.ask(MALLORY)
        assert {turn for _, turn in begun.order} == {begun.number}

    story(test)


def test_many_of_one_tenant_begin_one_in_a_turn_and_another_tenant_goes_at_once() -> None:
    async def test(begun: Begun) -> None:
        await begun.ask(ALICE)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(50):
                tasks.create_task(begun.ask(MALLORY))
            await asyncio.sleep(0)
            for _ in range(3):
                await tasks.create_task(begun.ask(ALICE))
                for _ in range(MOST_ITERATIONS + 1):
                    await asyncio.sleep(0)
        theirs = [turn for tenant, turn in begun.order if tenant == MALLORY]
        assert len(theirs) == len(set(theirs)) == 50
        last = max(place for place, (tenant, _) in enumerate(begun.order) if tenant == ALICE)
        assert last <= 3 * (MOST_ITERATIONS + 4), begun.order[: last + 1]

    story(test)


def test_a_busy_loop_ends_a_round_too() -> None:
    """Something that is done in every turn keeps nobody waiting for ever."""

    async def test(begun: Begun) -> None:
        async def work() -> None:
            while True:
                sum(range(20_000))
                await asyncio.sleep(0)

        task = asyncio.create_task(work())
        await begun.ask(ALICE)
        before = begun.number
        await asyncio.gather(*(begun.ask(MALLORY) for _ in range(20)))
        task.cancel()
        assert begun.number - before <= 20 * (MOST_ITERATIONS + 1)

    story(test)


def test_who_goes_away_takes_nobody_s_turn() -> None:
    async def test(begun: Begun) -> None:
        await begun.ask(ALICE)
        waiting = [asyncio.create_task(begun.ask(MALLORY)) for _ in range(10)]
        await asyncio.sleep(0)
        for each in waiting[1:9]:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [tenant for tenant, _ in begun.order] == [ALICE, MALLORY, MALLORY]
        assert not begun.queue._waiting

    story(test)


def test_large_work_takes_less_of_the_loop_while_several_ask() -> None:
    async def test(begun: Begun) -> None:
        share = loop_share()
        await begun.ask(MALLORY)
        assert share.others == 2.0
        await begun.ask(ALICE)
        assert share.others == 8.0

    story(test)


def test_tenants_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(begun: Begun) -> None:
        now = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        for number in range(1000):
            now += 0.1
            begun.queue._has_others(("user", f"namespace-{number}"), now)
        assert len(begun.queue._recent) <= 11
        now += 2.0
        assert not begun.queue._has_others(ALICE, now)

    story(test)


@pytest.mark.parametrize(
    ("name", "path", "tenant"),
    [
        ("system:serviceaccount:mallory:one", "/api/v1/pods", ACCOUNTS_OF_MALLORY),
        ("system:serviceaccount:mallory:two", "/api/v1/namespaces/alice/pods", ACCOUNTS_OF_MALLORY),
        ("bob", "/api/v1/namespaces/alice/pods/x", ("bob", "")),
        ("bob", "/api/v1/namespaces/any-other/pods/x", ("bob", "")),
    ],
)
def test_whose_a_request_is(name: str, path: str, tenant: Tenant) -> None:
    assert tenant_of(Identity(name), path) == tenant


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/api/v1/namespaces/alice/pods/x", "alice"),
        ("/apis/apps/v1/namespaces/alice/deployments", "alice"),
        ("/api/v1/namespaces/alice", "alice"),
        ("/api/v1/namespaces", ""),
        ("/api/v1/nodes", ""),
        ("/api", ""),
    ],
)
def test_administrators_are_told_apart_by_namespace(path: str, namespace: str) -> None:
    assert tenant_of(ADMINISTRATOR, path) == ("system:admin", namespace)
