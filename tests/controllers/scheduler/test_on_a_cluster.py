# SPDX-License-Identifier: Apache-2.0
"""The scheduler on an embedded control plane: claims get volumes, pods make room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from koord.base.documents import Document
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config import load
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.controllers.base.objects import CLAIM, POD, VOLUME
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.controlplane.controllers.test_volumes import claim, storage_class, volume
from tests.controlplane.scene import Scene, play

NAME = "koord-scheduler"


def pod(name: str, cpu: str = "1", claims: tuple[str, ...] = (), **spec: Any) -> Document:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], "schedulerName": NAME, "volumes": volumes, **spec}
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


async def _nothing(scene: Scene) -> None:
    """A story in which nothing happens."""


def scheduled(
    story: Callable[[Scene], Awaitable[None]],
    before: Callable[[Scene], Awaitable[None]] = _nothing,
) -> Scene:
    """Plays a story with a scheduler of the stock profile, after one without any."""

    async def whole(scene: Scene) -> None:
        await before(scene)
        registry = Registry()
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": NAME}],
        }
        configuration = load.decode(document, "test", registry)
        client = Client(scene.plane.transport(), requests_per_second=None)
        app = App(client, configuration, scene.clock)
        running = asyncio.create_task(app.run())
        try:
            await app.ready()
            await story(scene)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    return play(whole, ["volumes", "nodelifecycle", "disruption"])


async def node_of(scene: Scene, name: str) -> str:
    async def bound() -> bool:
        found = await scene.get(POD, name)
        return bool(found and found["spec"].get("nodeName"))

    try:
        await scene.until(bound)
    except TimeoutError:
        raise AssertionError(f"{name} is not bound: {await scene.get(POD, name)}") from None
    found = await scene.get(POD, name)
    assert found is not None
    return str(found["spec"]["nodeName"])


def test_volumes_are_found_and_made() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(2)
        await scene.client.create(storage_class("local", "WaitForFirstConsumer",
                                                "kubernetes.io/no-provisioner"))  # fmt: skip
        await scene.client.create(storage_class("made", "WaitForFirstConsumer"))
        # A volume is Available once the volume controller has seen it.
        await scene.client.create(volume("v", cls="local"))
        await scene.client.create(claim("here", cls="local"))
        await scene.client.create(claim("there", cls="made"))
        await scene.client.create(pod("p", claims=("here", "there")))
        node = await node_of(scene, "p")
        here, there = await scene.get(CLAIM, "here"), await scene.get(CLAIM, "there")
        assert here is not None
        assert there is not None
        assert here["spec"]["volumeName"] == "v"
        annotations = there["metadata"]["annotations"]
        assert annotations["volume.kubernetes.io/selected-node"] == node
        made = await scene.get(VOLUME, there["spec"]["volumeName"])
        assert made is not None
        assert made["status"]["phase"] == "Bound"
        # The claim is taken: the next pod waits for another volume.
        await scene.client.create(claim("next", cls="local"))
        await scene.client.create(pod("q", claims=("next",)))
        await asyncio.sleep(5)
        waiting = await scene.get(POD, "q")
        assert waiting is not None
        assert not waiting["spec"].get("nodeName")
        await scene.client.create(volume("w", cls="local"))
        assert await node_of(scene, "q")

    scheduled(story)


def test_pods_make_room() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_nodes(2, cpu=2)
        for name, value in (("low", 1), ("high", 100)):
            await scene.client.create(
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                 "metadata": {"name": name}, "value": value}
            )  # fmt: skip
        for i in range(4):
            await scene.client.create(pod(f"low-{i}", priorityClassName="low"))
            await node_of(scene, f"low-{i}")
        keep = Patch.merge({"metadata": {"labels": {"app": "kept"}}})
        await scene.client.patch(POD, "low-0", keep, "default")
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "kept", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        }
        await scene.client.create(budget)
        await scene.client.create(pod("high", "2", priorityClassName="high"))
        node = await node_of(scene, "high")
        left = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in await scene.pods()}
        assert len(left) == 3
        assert left["low-0"] != node
        assert [name for name, where in left.items() if where == node] == ["high"]

    scheduled(story)
