# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from koord.api import ConfigMap
from koord.api.kinds.meta import ObjectMeta
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.controlplane.storage.collection import HistoryLimits
from koord.kube.client import Client
from koord.kube.informers.informer import Informer


def test_who_writes_in_a_loop_leaves_no_watch_behind() -> None:
    """What is written between two turns of the loop is no more than a watch reads in one."""

    async def run() -> tuple[int, int]:
        limits = HistoryLimits(changes=200)
        async with EmbeddedControlPlane(Options(limits=limits)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            informer = Informer(client, ConfigMap)
            following = asyncio.create_task(informer.run())
            await informer.synced()
            furthest = 0
            for number in range(1_500):
                meta = ObjectMeta(name=f"c-{number}", namespace="default")
                data = {"text": "x" * (4_000 if number % 2 else 100)}
                await client.post(ConfigMap(metadata=meta, data=data))
                furthest = max(furthest, number + 1 - len(informer))
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            return furthest, len(informer)

    furthest, seen = asyncio.run(run())
    assert seen > 1_300
    assert furthest < 150
