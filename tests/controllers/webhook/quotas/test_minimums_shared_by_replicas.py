# SPDX-License-Identifier: Apache-2.0
"""Two replicas that see each other's writes late never share out more than a parent's minimum."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol import keys, quotas
from koord.controllers.webhook.elasticquotas import HANDLERS
from koord.controllers.webhook.framework.webhook_table import VALIDATE_QUOTA
from tests.controllers.webhook.api_server import Server, asked, on_virtual_time, quota, request

PARENTS = ("p", "q")
MOST = {"cpu": 100}
_step = st.tuples(
    st.sampled_from(["create", "update", "update", "delete", "parent"]),
    st.integers(0, 1),
    st.sampled_from("abcd"),
    st.sampled_from(PARENTS),
    st.integers(0, 8),
    st.booleans(),
)


class World:
    """A server, two replicas, and what API servers do with an admitted request."""

    def __init__(self, seed: int) -> None:
        self.server = Server()
        self.server.draw = random.Random(seed)
        for name in PARENTS:
            self.server.put(quota(name, is_parent="true", min={"cpu": 10}, max=MOST))
        self.replicas = [self.server.replica(), self.server.replica()]
        self.handlers = [HANDLERS[VALIDATE_QUOTA](each.given) for each in self.replicas]
        self.answers = 0

    async def run(self, steps: list[Any]) -> None:
        for at in range(0, len(steps), 3):
            together = [self.step(each) for each in steps[at : at + 3]]
            await asyncio.gather(*together, self.server.deliver(12, 0.2))
            self.check()

    async def step(self, step: Any) -> None:
        verb, replica, name, parent, cpu, kept = step
        handler, server = self.handlers[replica], self.server
        if verb == "parent":
            old = server.get(ElasticQuota, parent, "default")
            new = quota(parent, is_parent="true", min={"cpu": cpu + 4}, max=MOST)
            new.metadata.annotations = dict(old.metadata.annotations)
            await self.update(handler, old, new, kept)
            return
        old = server.get(ElasticQuota, name, "default")
        new = quota(name, parent, min={"cpu": cpu}, max=MOST)
        if verb == "create" and old is None:
            answer = await asked(handler, request("CREATE", new))
            self.answers += answer.allowed
            await server.pause()
            # Another webhook may refuse what this one allowed.
            if answer.allowed and kept and server.get(ElasticQuota, name, "default") is None:
                server.put(new)
        elif verb == "update" and old is not None:
            await self.update(handler, old, new, kept)
        elif verb == "delete" and old is not None:
            answer = await asked(handler, request("DELETE", None, old))
            if answer.allowed and server.get(ElasticQuota, name, "default") is not None:
                server.remove(old)

    async def update(self, handler: Any, old: Any, new: Any, kept: bool) -> None:
        server, name = self.server, new.metadata.name
        answer = await asked(handler, request("UPDATE", new, old))
        self.answers += answer.allowed
        await server.pause()
        there = server.get(ElasticQuota, name, "default")
        version = old.metadata.resource_version
        if answer.allowed and kept and there and there.metadata.resource_version == version:
            server.put(new)

    def check(self) -> None:
        stored = [v for (kind, _), v in self.server.objects.items() if kind is ElasticQuota]
        for name in PARENTS:
            children = [each for each in stored if quotas.parent(each) == name]
            together = sum(each.spec.min["cpu"].value() for each in children)
            parent = self.server.get(ElasticQuota, name, "default")
            assert together <= parent.spec.min["cpu"].value(), (name, together)


@given(st.integers(0, 10_000), st.lists(_step, min_size=6, max_size=40))
@settings(max_examples=150, deadline=None)
def test_sums_hold(seed: int, steps: list[Any]) -> None:
    world = World(seed)
    on_virtual_time(world.server.clock, lambda: world.run(steps))


def race(wide: bool) -> tuple[int, int]:
    """Two replicas are asked for all that is left at once; how many say yes, how many write."""
    world = World(3)
    server = world.server
    server.draw = None
    asks = [quota(name, "p", min={"cpu": 6}, max=MOST) for name in "ab"]

    async def both() -> list[bool]:
        async def one(at: int) -> bool:
            answer = await asked(world.handlers[at if wide else 0], request("CREATE", asks[at]))
            return answer.allowed

        async def news() -> None:
            for _ in range(40):
                await asyncio.sleep(0.1)
                for each in world.replicas:
                    each.catch_up()

        *found, _ = await asyncio.gather(one(0), one(1), news())
        return [bool(each) for each in found]

    return sum(on_virtual_time(server.clock, both)), server.writes


@pytest.mark.parametrize("wide", [True, False])
def test_of_two_that_do_not_fit_together_one_is_admitted(wide: bool) -> None:
    assert race(wide) == (1, 1)


def test_a_dry_run_judges_and_writes_nothing() -> None:
    world = World(1)
    world.server.draw = None
    handler = world.handlers[0]
    for cpu, good in ((6, True), (11, False)):
        new = quota("a", "p", min={"cpu": cpu}, max=MOST)
        assert asyncio.run(asked(handler, request("CREATE", new, dry_run=True))).allowed is good
    assert world.server.writes == 0


def test_a_claim_ends_with_its_child_seen_or_its_time() -> None:
    world = World(1)
    server, handler, replica = world.server, world.handlers[0], world.replicas[0]
    server.draw, replica.prompt = None, True

    def create(name: str) -> bool:
        new = quota(name, "p", min={"cpu": 6}, max=MOST)
        ask = lambda: asked(handler, request("CREATE", new))  # noqa: E731
        return bool(on_virtual_time(server.clock, ask).allowed)

    assert create("a")
    assert not create("b")  # the first may still come
    made = server.put(quota("a", "p", min={"cpu": 6}, max=MOST))
    replica.catch_up()
    server.remove(made)
    replica.catch_up()
    assert create("b")  # the first came and went
    server.clock.advance(89)
    assert not create("c")
    server.clock.advance(2)
    assert create("c")  # the second cannot come any more


def test_a_write_whose_answer_is_lost_is_known_by_its_claim() -> None:
    world = World(1)
    server, handler, replica = world.server, world.handlers[0], world.replicas[0]
    server.draw, replica.prompt = None, True
    new, given_now = (
        quota("a", "p", min={"cpu": 6}, max=MOST),
        server.get(ElasticQuota, "p", "default"),
    )
    ask = request("CREATE", new)
    assert on_virtual_time(server.clock, lambda: asked(handler, ask)).allowed
    # The client sends a conditional write again where its answer is lost, and is refused then.
    assert on_virtual_time(server.clock, lambda: asked(handler, ask)).allowed
    assert server.writes == 1
    claimed = server.get(ElasticQuota, "p", "default")
    assert msgspec.json.decode(claimed.metadata.annotations[keys.QUOTA_CLAIMS])[0]["min"] == {
        "cpu": 6000
    }
    assert keys.QUOTA_CLAIMS not in given_now.metadata.annotations
