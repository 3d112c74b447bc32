# SPDX-License-Identifier: Apache-2.0
"""Each loop of the scheduler fails in turn: the others go on, and it is tried again."""

from __future__ import annotations

import asyncio

from koord.api.kinds.pod import Pod
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.metrics import SchedulerMetrics
from koord.controllers.scheduler.registry import Registry
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import pod
from tests.controllers.scheduler.test_leaders import bound
from tests.striking import Striking, UnforeseenError, loops_in_turn, unsupervised


def test_each_loop_fails_alone() -> None:
    async def story(history: History) -> None:
        await history.stop()
        await history.add_node(False)
        client = Client(history.plane.transport(), "koord-scheduler", requests_per_second=None)
        registry, metrics, clock = Registry(outside=[]), SchedulerMetrics(), history.clock
        supervisor = Striking("scheduler", metrics.registry, clock)
        recorder = EventRecorder(client, "koord-scheduler", clock=clock)
        app = App(
            client, shipped(registry, "koord-scheduler"), clock, recorder, metrics=metrics,
            registry=registry, supervisor=supervisor,
        )  # fmt: skip
        running = asyncio.create_task(app.run())
        before = asyncio.all_tasks()
        events = supervisor.start("events", recorder.run)
        await app.ready()
        await asyncio.sleep(5)
        assert unsupervised(supervisor, before) == []
        made = 0

        async def works() -> None:
            """A pod gets a node."""
            nonlocal made
            made += 1
            name = f"p{made}"
            await history.client.create(pod(name, "plain", 0, {}))
            await asyncio.sleep(40)
            assert name in await bound(history)
            await history.client.delete(Pod, name, "default", grace_period_seconds=0)

        await works()
        names = await loops_in_turn(supervisor, works)
        assert {
            "events", "informers", "informer of Pod", "scheduling loop", "consistency checker",
            "spot check", "reservation controller", "reservation workers", "quota upkeep",
            "podgroup-controller", "podgroup workers", "network-topology", "overdue-gangs",
        } <= set(names)  # fmt: skip
        for name in ("bindings", "conditions of pods"):
            rule = FaultRule(1.0, UnforeseenError("struck"))
            with inject(FaultPlan(1, {f"supervised.{name}": rule})):
                await history.client.create(pod(f"for-{name[0]}", "plain", 0, {}))
                await history.client.create(pod(f"no-{name[0]}", "plain", 99, {}))
                await asyncio.sleep(5)
                assert supervisor.part(name).error == "UnforeseenError: struck"
            await asyncio.sleep(40)
            assert f"for-{name[0]}" in await bound(history)
        text = metrics.registry.expose().decode()
        for name in names:
            assert f'koord_scheduler_failures_total{{part="{name}"}}' in text
        for task in (running, events):
            task.cancel()
        await asyncio.gather(running, events, return_exceptions=True)

    live(story)
