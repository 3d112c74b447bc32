# SPDX-License-Identifier: Apache-2.0
"""Thousands of small pods of one tenant: another's pod waits for hardly any of them.

Counted are attempts and tokens, in virtual time. Rules:
docs/reference/scheduling.md#turns-of-namespaces, docs/kube.md#client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.cycles import scheduling_loop
from koord.controllers.scheduler.framework.rejection import Wait
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kube.client import Client
from koord.kube.patches import Patch
from tests.controllers.scheduler.cycles.test_scheduling_loop import Gate, bound, points, settle
from tests.controllers.scheduler.histories import documents
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import scheduler
from tests.kube.harness import run_virtual

CPUS = 64
CROWD = 200
# client-go's, and kube-scheduler's.
RATE, BURST = 50.0, 100


class Scene:
    """A scheduler of koord's own configuration on two nodes, and the order of its attempts."""

    def __init__(self, fairness: str) -> None:
        self.views, clock = LocalViews(), VirtualClock(1_700_000_000.0)
        registry = Registry(outside=[])
        configuration = shipped(registry, "koord-scheduler").scoped("", "", fairness)
        world = ClusterState(self.views, clock, None, lambda *_: None)
        self.scheduler = Scheduler(world, configuration.profiles, registry)
        self.clock, self.order = clock, list[str]()
        self.scheduler.loop.observe(lambda decision, _: self.order.append(decision.cycle.pod.key))
        for name in ("a", "b"):
            self.views.view(Node).put(node(name, cpu=str(CPUS), pods="5000"))
            self.views.view(Pod).put(pod(f"on-{name}", cpu="1", namespace="mallory", nodeName=name))

    def create(self, namespace: str, name: str, cpu: str) -> None:
        self.views.view(Pod).put(pod(name, cpu=cpu, namespace=namespace))

    def attempts_before(self, name: str) -> int:
        """How many there are until a pod has had its own."""
        self.order.clear()
        self.scheduler.loop.schedule(1.0, CROWD + 1)
        return self.order.index(name)


def placeable(scene: Scene) -> None:
    for number in range(CROWD):
        scene.create("mallory", f"m{number}", f"{1 + number % 20}m")


def unplaceable(scene: Scene) -> None:
    for number in range(CROWD):
        scene.create("mallory", f"m{number}", f"{1000 + number}")


def woken(scene: Scene) -> None:
    """All of them have failed before, and the tenant ends a pod of its own, which wakes them."""
    for number in range(CROWD):
        scene.create("mallory", f"m{number}", f"{CPUS * 1000 - number}m")
    scene.scheduler.loop.schedule(1.0, CROWD)
    scene.clock.advance(2.0)
    scene.views.view(Pod).remove("mallory/on-a")
    assert scene.scheduler.queue.pending()["active"] == CROWD


def flushed(scene: Scene) -> None:
    """Nothing has woken them for five minutes."""
    unplaceable(scene)
    scene.scheduler.loop.schedule(1.0, CROWD)
    scene.clock.advance(331.0)
    scene.scheduler.queue.tick()
    assert scene.scheduler.queue.pending()["active"] == CROWD


CROWDS = [placeable, unplaceable, woken, flushed]


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize(("fairness", "before"), [("namespace", 1), ("none", CROWD)])
def test_a_crowd_of_pods_of_equal_priority(
    crowd: Callable[[Scene], None], fairness: str, before: int
) -> None:
    async def story() -> None:
        scene = Scene(fairness)
        crowd(scene)
        scene.create("alice", "web", "100m")
        assert scene.attempts_before("alice/web") == before
        await settle()
        await scene.scheduler.loop.close()

    run_virtual(story())


async def _wait_until_told(history: History, name: str, namespace: str) -> float:
    """Seconds of virtual time until it is said why a pod has no node."""
    began = history.clock.monotonic_seconds()
    while not (await history.client.get(Pod, name, namespace)).status.conditions:
        assert history.clock.monotonic_seconds() < began + 2 * CROWD / RATE
        await asyncio.sleep(0.25 / RATE)
    return history.clock.monotonic_seconds() - began


async def _wait_until_bound(history: History, name: str, namespace: str) -> float:
    """Seconds of virtual time."""
    began = history.clock.monotonic_seconds()
    while not (await history.client.get(Pod, name, namespace)).spec.node_name:
        assert history.clock.monotonic_seconds() < began + 2 * CROWD / RATE
        await asyncio.sleep(0.25 / RATE)
    return history.clock.monotonic_seconds() - began


@pytest.mark.parametrize("cpu", ["1m", "1000"])
def test_the_rate_limit_is_not_one_tenants(cpu: str) -> None:
    """Bindings and conditions of a tenant's pods take a token each, and there are 50 a second."""

    async def story(history: History) -> None:
        await history.stop()
        for number in range(8):
            machine = documents.node(f"machine-{number}", number, False)
            machine["status"]["allocatable"] |= {"pods": "500"}
            await history.client.create(machine)
            untainted = Patch.merge({"spec": {"taints": None}})
            await history.client.patch(Node, f"machine-{number}", untainted)
        client = Client(
            history.plane.transport(), "koord-scheduler", requests_per_second=RATE, burst=BURST
        )
        registry = Registry(outside=[])
        app = App(client, shipped(registry, "koord-scheduler"), history.clock, registry=registry)
        running = asyncio.create_task(app.run())
        await app.ready()
        for name in ("mallory", "alice"):
            await history.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        for number in range(CROWD):
            await history.client.create(_pod("mallory", f"m{number}", cpu))
        await history.client.create(_pod("alice", "web", "1m"))
        await history.client.create(_pod("alice", "large", "1000"))
        assert await _wait_until_bound(history, "web", "alice") <= 4 / RATE
        assert await _wait_until_told(history, "large", "alice") <= 4 / RATE
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    live(story)


def _pod(namespace: str, name: str, cpu: str) -> dict[str, Any]:
    requests = {"cpu": cpu}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "koord-scheduler", "containers": [container]},
    }


class TenantGate(Gate):
    """Makes pods of one namespace wait, as those of a gang that is not whole."""

    def permit(self, cycle: Any, row: int) -> Wait | None:  # type: ignore[override]
        return super().permit(cycle, row) if cycle.pod.key.startswith("mallory/") else None


def test_pods_that_wait_on_permit_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang that keeps what it found has as many of them as it likes, for minutes."""
    monkeypatch.setattr(scheduling_loop, "MOST_WRITING", 10)

    async def story() -> None:
        crowd = [pod(f"m{number}", cpu="1m", namespace="mallory") for number in range(30)]
        made, views, _, _ = scheduler(points(TenantGate()), [node("a", pods="500")], crowd)
        running = asyncio.create_task(made.loop.run())
        await settle()
        assert len(made.world.waiting()) == len(crowd)
        web = pod("web", cpu="1m", namespace="alice")
        views.view(Pod).put(web)
        await asyncio.sleep(1.0)
        assert "uid-web" in made.feed.assumed
        views.view(Pod).put(bound(web, "a"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(story())
