# SPDX-License-Identifier: Apache-2.0
"""A manager in a dry run, beside a cluster that lives: of all writes there is none."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from koord.api import Event, Lease, Node, NodeMetric, NodeSLO
from koord.base.errors import KoordError
from koord.controllers.manager.app import LEASE, ManagerApp
from koord.controllers.manager.options import ManagerOptions
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.election import LeaderElector
from koord.kube.events import EventRecorder
from koord.kube.transport.messages import Request
from tests.controllers.manager.cluster import Scene, add_node, perform
from tests.kube.harness import FakeTransport, answer, logged

DAY_SECONDS = 24 * 3600.0


def test_a_day_of_a_dry_run_writes_nothing() -> None:
    """Nodes come, the configuration changes, and one section of it is wrong: a day each third."""

    async def script(scene: Scene) -> None:
        app, sent, tasks = start(scene)
        await app.ready()
        await scene.configure({"enable": True})
        for hour, name in enumerate("abc"):
            await add_node(scene, name)
            burst = f'{{"clusterStrategy":{{"cpuBurstPercent":{hour or -1}}}}}'
            await scene.configure({"enable": True}, cpu_burst_config=burst)
            await asyncio.sleep(DAY_SECONDS / 3)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert set(sent) == {"GET"}
        for kind in (NodeSLO, NodeMetric, Event, Lease):
            assert not [each for each in (await scene.client.list(kind)).items if mine(each)]
        batch = (await scene.client.get(Node, "a")).status.allocatable
        assert "kubernetes.io/batch-cpu" not in batch

    with logged("koord.dryrun", logging.INFO) as told:
        perform(script)
    said = [vars(record)["koord_fields"] for record in told]
    lines = Counter(f"{each['verb']} {each['object']}" for each in said)
    assert lines["create NodeMetric a"] >= 1
    assert lines["create NodeSLO c"] >= 1
    assert any(each.get("reason") == "SLOCfgUnmarshalFailed" for each in said)
    # What repeats is told once: three configurations, and never by the hour.
    assert lines["create NodeSLO a"] <= 3
    assert len(said) < 40


def mine(thing: Any) -> bool:
    """Whether the manager would have made it: the machines have Leases of their own."""
    return not isinstance(thing, Lease) or thing.metadata.name == LEASE


def start(scene: Scene) -> tuple[ManagerApp, Counter[str], list[asyncio.Task[Any]]]:
    transport = scene.world.plane.transport()
    inner, sent = transport.send, Counter[str]()

    async def send(request: Request) -> Any:
        sent[request.method] += 1
        return await inner(request)

    transport.send = send  # type: ignore[method-assign]
    client = Client(transport, "koord-manager", requests_per_second=None, dry_run=DryRun())
    recorder = EventRecorder(client, "koord-manager", clock=scene.world.clock)
    app = ManagerApp(client, ManagerOptions(), scene.world.clock, recorder)
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(app.run()), asyncio.create_task(recorder.run())
    ]  # fmt: skip
    return app, sent, tasks


def test_nobody_stands_for_election_in_a_dry_run() -> None:
    client = Client(FakeTransport([answer({})]), dry_run=DryRun())
    with pytest.raises(KoordError, match="leader election: client: got 'a dry run'"):
        LeaderElector(client, LEASE, "koordinator-system", "one")
