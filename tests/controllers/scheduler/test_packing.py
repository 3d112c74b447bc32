# SPDX-License-Identifier: Apache-2.0
"""The shipped profile packs batch pods, so that large ones find room, and spreads all others."""

from __future__ import annotations

import asyncio
from collections import Counter

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.protocol.resources import BATCH_CPU
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.pods import node, pod

NODES = ("a", "b", "c")


def placed(*requests: dict[str, str]) -> list[str | None]:
    """Where pods go that come one after the other, to nodes that offer ten cores of batch each."""

    async def run() -> list[str | None]:
        registry, views = Registry(outside=[]), LocalViews()
        world = ClusterState(views, VirtualClock(1_700_000_000.0))
        scheduler = Scheduler(world, shipped(registry).profiles, registry)
        for name in NODES:
            views.view(Node).put(node(name, allocatable={BATCH_CPU: "10000"}))
        found: list[str | None] = []
        for number, amounts in enumerate(requests):
            name = f"pod-{number}"
            views.view(Pod).put(pod(name, requests=amounts))
            scheduler.queue.tick()
            scheduler.loop.schedule(1.0, most=1)
            at = world.accounts.get(f"uid-{name}")
            found.append(None if at is None else world.table.name(at.row))
        await scheduler.loop.binder.close()
        await scheduler.loop.failures.close()
        return found

    return asyncio.run(run())


def test_small_batch_pods_leave_room_for_large_ones() -> None:
    small, large = {BATCH_CPU: "2000"}, {BATCH_CPU: "8000"}
    found = placed(*[small] * 6, large, large)
    assert None not in found
    # Spread, two on each node, they would leave six cores everywhere.
    assert sorted(Counter(found[:6]).values()) == [1, 5]
    assert len({*found[5:]}) == 2


def test_pods_of_services_are_spread() -> None:
    found = placed(*[{"cpu": "2", "memory": "2Gi"}] * 3)
    assert sorted(str(each) for each in found) == list(NODES)
