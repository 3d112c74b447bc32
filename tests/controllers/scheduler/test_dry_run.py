# SPDX-License-Identifier: Apache-2.0
"""A scheduler in a dry run: it decides, counts its own decisions, tells them, writes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config import load
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.controllers.base.objects import CLAIM, LEASE, NODE, POD
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.dry_run import DryRun
from koord.kube.events import EventRecorder
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request
from tests.controllers.scheduler.test_on_a_cluster import NAME, pod
from tests.controlplane.controllers.test_volumes import claim, storage_class
from tests.controlplane.scene import START, Scene
from tests.kube.harness import logged, run_virtual

DAY_SECONDS = 24 * 3600.0
Said = list[dict[str, Any]]
Story = Callable[[Scene, App, Callable[[], Said]], Awaitable[None]]


def dry(story: Story) -> tuple[Counter[str], Said]:
    """Plays a story with a scheduler in a dry run; what it sent, by verb, and what it said."""
    sent = Counter[str]()

    async def whole(scene: Scene) -> None:
        transport = scene.plane.transport()
        inner = transport.send

        async def send(request: Request) -> Any:
            sent[request.method] += 1
            return await inner(request)

        transport.send = send  # type: ignore[method-assign]
        registry = Registry()
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": NAME}],
        }
        client = Client(transport, NAME, requests_per_second=None, dry_run=DryRun())
        recorder = EventRecorder(client, NAME, clock=scene.clock)
        app = App(client, load.decode(document, "test", registry), scene.clock, recorder)
        tasks = [asyncio.create_task(app.run()), asyncio.create_task(recorder.run())]
        await app.ready()
        try:
            await story(scene, app, lambda: told(records))
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def alone() -> None:
        """Without kubelets, whose every beat would be played."""
        async with EmbeddedControlPlane(Options(clock=clock)) as plane:
            await whole(Scene(plane, clock))

    clock = VirtualClock(START)
    with logged("koord.dryrun", logging.INFO) as records:
        run_virtual(alone(), clock)
    return sent, told(records)


async def ready_nodes(scene: Scene, count: int, cpu: int = 8) -> None:
    """Nodes that are taken for ready, as the node controller would take them."""
    await scene.add_nodes(count, cpu)
    for number in range(count):
        await scene.client.patch(NODE, f"n{number}", Patch.merge({"spec": {"taints": None}}))


def told(records: list[logging.LogRecord]) -> Said:
    return [vars(record)["koord_fields"] for record in records]


def bindings(said: Said) -> dict[str, str]:
    """Node by pod, of the bindings that were told."""
    return {e["object"].rpartition("/")[2]: e["node"] for e in said if e["verb"] == "bind"}


def test_a_day_of_a_dry_run_writes_nothing_and_counts_what_it_decided() -> None:
    """Two nodes of two CPUs: of three pods that want one each whole, two would be bound."""

    async def story(scene: Scene, app: App, said: Callable[[], Said]) -> None:
        await ready_nodes(scene, 2, cpu=2)
        for name in ("a", "b", "c"):
            await scene.client.create(pod(name, "2"))
            await asyncio.sleep(1)
        first = bindings(said())
        assert sorted(first) == ["a", "b"]
        assert len(set(first.values())) == 2
        await asyncio.sleep(DAY_SECONDS)
        assert bindings(said()) == first
        # One goes: the third would have its place.
        await scene.client.delete(POD, "a", "default", grace_period_seconds=0)
        await asyncio.sleep(DAY_SECONDS / 24)
        assert bindings(said()) == {**first, "c": first["a"]}
        for each in await scene.pods():
            assert not each["spec"].get("nodeName")
            assert not each["status"].get("conditions")
            assert not each["metadata"].get("annotations")
        leases = (await scene.client.list(LEASE, namespace="koordinator-system")).items
        assert leases == []

    sent, said = dry(story)
    assert set(sent) == {"GET"}
    # Each binding and each event once, however often the third was tried in vain.
    lines = Counter(f"{e['verb']} {e['object']} {e.get('reason', '')}".rstrip() for e in said)
    assert lines["bind Pod default/c"] == 1
    assert lines["create Event about Pod default/c FailedScheduling"] == 1
    assert lines["patch Pod default/c"] <= 2


def test_what_another_scheduler_binds_is_believed() -> None:
    async def story(scene: Scene, app: App, said: Callable[[], Said]) -> None:
        await ready_nodes(scene, 2, cpu=2)
        await scene.client.create(pod("a", "2"))
        await asyncio.sleep(1)
        (mine,) = bindings(said()).values()
        (other,) = {"n0", "n1"} - {mine}
        await scene.client.bind(await scene.client.get(Pod, "a", "default"), other)
        await scene.client.create(pod("b", "2"))
        await asyncio.sleep(5)
        assert bindings(said())["b"] == mine

    sent, _ = dry(story)
    assert set(sent) == {"GET"}


def test_a_claim_that_would_be_provisioned_holds_nobody_up() -> None:
    async def story(scene: Scene, app: App, said: Callable[[], Said]) -> None:
        await ready_nodes(scene, 1)
        await scene.client.create(storage_class("made", "WaitForFirstConsumer"))
        await scene.client.create(claim("data", cls="made"))
        await scene.client.create(pod("p", claims=("data",)))
        await asyncio.sleep(1)
        assert list(bindings(said())) == ["p"]
        found = await scene.get(CLAIM, "data")
        assert found is not None
        assert "volume.kubernetes.io/selected-node" not in found["metadata"].get("annotations", {})

    sent, said = dry(story)
    assert set(sent) == {"GET"}
    assert "patch PersistentVolumeClaim default/data" in [
        f"{each['verb']} {each['object']}" for each in said
    ]


def test_who_would_be_preempted_stays_and_is_told_once() -> None:
    async def story(scene: Scene, app: App, said: Callable[[], Said]) -> None:
        await ready_nodes(scene, 1, cpu=2)
        for name, value in (("low", 1), ("high", 100)):
            await scene.client.create(
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                 "metadata": {"name": name}, "value": value}
            )  # fmt: skip
        await scene.client.create(pod("low", "2", priorityClassName="low", nodeName="n0"))
        await asyncio.sleep(1)
        await scene.client.create(pod("high", "2", priorityClassName="high"))
        await asyncio.sleep(DAY_SECONDS / 12)
        left = {each["metadata"]["name"] for each in await scene.pods()}
        assert left == {"low", "high"}

    sent, said = dry(story)
    assert set(sent) == {"GET"}
    lines = Counter(f"{each['verb']} {each['object']}" for each in said)
    assert lines["delete Pod default/low"] == 1
    assert lines["create Event about Pod default/low"] == 1
    assert not bindings(said)
