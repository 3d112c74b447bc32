# SPDX-License-Identifier: Apache-2.0
"""Many pods on one node."""

from __future__ import annotations

import asyncio

from koord.agent.states.cluster_informers import ClusterStates
from koord.agent.states.snapshot import SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Container, Pod
from koord.base.clock import VirtualClock
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.agent.hooks.build import LAYOUT
from tests.kube.harness import run_virtual


def test_pods_that_change_at_once_are_looked_at_together():
    clock = VirtualClock(0.0)
    puts = 0

    class Store(StateStore):
        def put(self, part, value):
            nonlocal puts
            puts += part is SnapshotPart.PODS
            super().put(part, value)

    async def story():
        nonlocal puts
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            await client.create(Node(metadata=ObjectMeta(name="n1")))
            store = Store(clock)
            states = ClusterStates(client, "n1", store, LAYOUT)
            running = asyncio.create_task(states.run())
            await states.ready()
            for at in range(200):
                made = Pod(metadata=ObjectMeta(name=f"p{at}", namespace="default"))
                made.metadata.uid = f"u{at}"
                made.spec.node_name = "n1"
                made.spec.containers = [Container(name="main", image="i")]
                await client.create(made)
            await asyncio.sleep(1)
            assert len(store.snapshot().pods.value) == 200
            puts = 0
            for at in range(200):
                change = Patch.merge({"metadata": {"labels": {"a": "b"}}})
                await client.patch(Pod, f"p{at}", change, "default")
            await asyncio.sleep(1)
            assert all(pod.pod.metadata.labels for pod in store.snapshot().pods.value)
            assert puts < 20
            running.cancel()
            await asyncio.wait({running})

    run_virtual(story(), clock)
