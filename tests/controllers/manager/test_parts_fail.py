# SPDX-License-Identifier: Apache-2.0
"""Each loop of the manager fails in turn: the others go on, and it is tried again."""

from __future__ import annotations

import asyncio

from koord.api import Node, NodeMetric
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.manager.app import ManagerApp, supervise
from koord.controllers.manager.metrics import ManagerMetrics
from koord.controllers.manager.options import ManagerOptions
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from tests.controllers.manager.noderesource.scene import ON, Scene, perform
from tests.striking import Striking, loops_in_turn, unsupervised


def test_each_loop_fails_alone() -> None:
    async def story(scene: Scene) -> None:
        client = Client(scene.world.plane.transport(), "koord-manager", requests_per_second=None)
        clock, metrics = scene.world.clock, ManagerMetrics()
        supervisor = Striking("manager", metrics.internal, clock)
        recorder = EventRecorder(client, "koord-manager", clock=clock)
        wish = ManagerOptions(feature_gates="ColocationProfileController=true", sync_period="10m")
        app = ManagerApp(client, wish, clock, recorder, None, metrics, supervisor=supervisor)
        await scene.configure(ON)
        running = asyncio.create_task(app.run())
        before = asyncio.all_tasks()
        events = supervisor.start("events", recorder.run)
        await app.ready()
        await asyncio.sleep(5)
        assert unsupervised(supervisor, before) == []
        made = 0

        async def works() -> None:
            nonlocal made
            made += 1
            name = f"other-{made}"
            await client.create(Node(metadata=ObjectMeta(name=name)))
            await asyncio.sleep(5)
            await client.get(NodeMetric, name)

        names = await loops_in_turn(supervisor, works)
        assert {
            "events", "informers", "informer of Node", "resync of Node", "nodemetric",
            "nodemetric workers", "nodemetric sweep", "nodeslo workers", "noderesource turns",
            "noderesource workers", "quotaprofile workers", "colocationprofile workers",
        } <= set(names)  # fmt: skip
        text = metrics.internal.expose().decode()
        for name in names:
            assert f'koord_manager_failures_total{{part="{name}"}}' in text
        for task in (running, events):
            task.cancel()
        await asyncio.gather(running, events, return_exceptions=True)

    perform(story)


def test_a_manager_has_a_supervisor_of_its_own() -> None:
    metrics = ManagerMetrics()
    supervisor = supervise(metrics, Striking("x")._clock)
    supervisor.failed("nodeslo sweep", ValueError("x"))
    text = metrics.internal.expose().decode()
    assert 'koord_manager_failures_total{part="nodeslo sweep"} 1.0' in text
