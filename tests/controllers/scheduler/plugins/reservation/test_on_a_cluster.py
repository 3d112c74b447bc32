# SPDX-License-Identifier: Apache-2.0
"""Whole lives of Reservations on the embedded server: the quick start, expiry, clearing away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from koord.api import crds
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs
from koord.controllers.scheduler.config.configuration_file import ClientConnection, LeaderElection
from koord.controllers.scheduler.config.load import SchedulerConfiguration
from koord.controllers.scheduler.config.profiles import Profile
from koord.controllers.scheduler.consistency.checker import drift
from koord.controllers.scheduler.feature_gates import feature_gates
from koord.controllers.scheduler.queue.options import QueueOptions
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube import crds as cluster_crds
from koord.kube.client import Client
from koord.kube.events import EventRecorder
from koord.kube.transport.messages import Request, Stream
from tests.controllers.scheduler.plugins.reservation.bench import NOW

PLUGINS = {
    "queueSort": ("PrioritySort",),
    "preFilter": ("Reservation",),
    "filter": ("NodePorts", "NodeResourcesFit", "Reservation"),
    "postFilter": ("Reservation",),
    "score": ("NodeResourcesFit", "Reservation"),
    "reserve": ("Reservation",),
    "preBind": ("Reservation",),
    "bind": ("Reservation", "DefaultBinder"),
}
NODE = {"apiVersion": "v1", "kind": "Node"}


class Cluster:
    """A server with one node, and a scheduler on it."""

    def __init__(self, plane: EmbeddedControlPlane, clock: VirtualClock, **args: Any) -> None:
        self.clock = clock
        self.client = Client(plane.transport(), "test")
        self.late_seconds = 0.0
        transport = plane.transport()
        transport.open = self._late(transport.open)  # type: ignore[method-assign]
        scheduler = Client(transport, "koord-scheduler")
        self.recorder = EventRecorder(scheduler, "koord-scheduler", clock=clock)
        profile = Profile(
            "koord-scheduler",
            PLUGINS,
            {"Reservation": 5000},
            {"Reservation": ReservationArgs(**args)},
        )
        wish = SchedulerConfiguration(
            (profile,), ClientConnection(), LeaderElection(), QueueOptions()
        )
        gates = feature_gates("CleanExpiredReservationAllocated=true")
        self.start = lambda: App(scheduler, wish, clock, self.recorder, gates)
        self.app = self.start()

    def _late(self, inner: Callable[[Request], Awaitable[Stream]]) -> Any:
        """The scheduler's watch of Reservations, which may tell of them late."""

        async def opened(request: Request) -> Stream:
            stream = await inner(request)
            return Late(stream, self) if request.path.endswith("/reservations") else stream

        return opened

    async def node(self, name: str, cpu: str = "4") -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        document = {**NODE, "metadata": {"name": name}, "status": {"allocatable": amounts}}
        await self.client.create(document)

    async def add(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            await self.client.create(document, document["metadata"].get("namespace", "default")
                                     if document["kind"] == "Pod" else "")  # fmt: skip

    async def reservation(self, name: str, phase: str, seconds: float = 60) -> Reservation:
        """The Reservation once it is in a phase."""
        async with asyncio.timeout(seconds):
            while True:
                found = await self.client.get(Reservation, name)
                if found.status.phase == phase:
                    return found
                await asyncio.sleep(0.1)

    async def bound(self, name: str, seconds: float = 60) -> Pod:
        """The pod once it has a node."""
        async with asyncio.timeout(seconds):
            while True:
                found = await self.client.get(Pod, name, namespace="default")
                if found.spec.node_name:
                    return found
                await asyncio.sleep(0.1)


class Late:
    """A watch that tells of each change only after a while."""

    def __init__(self, stream: Stream, cluster: Cluster) -> None:
        self._stream, self._cluster = stream, cluster

    async def read(self) -> list[bytes]:
        events = await self._stream.read()
        await asyncio.sleep(self._cluster.late_seconds)
        return events

    async def close(self) -> None:
        await self._stream.close()


def play(story: Callable[[Cluster], Awaitable[None]], **args: Any) -> None:
    """Runs a story; no time passes outside."""
    clock = VirtualClock(NOW)
    loop = VirtualLoop(clock)

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            cluster = Cluster(plane, clock, **args)
            names = [n async for n, _ in cluster_crds.install(cluster.client, crds(), force=True)]
            await cluster_crds.wait_established(cluster.client, names, 60.0)
            await cluster.node("n")
            tasks = [
                asyncio.create_task(each()) for each in (cluster.app.run, cluster.recorder.run)
            ]
            try:
                await story(cluster)
                await asyncio.sleep(1)
                assert not any(drift(cluster.app.scheduler).values())
            finally:
                for task in tasks:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


def manifests(reference_data: Path, name: str) -> list[dict[str, Any]]:
    text = (reference_data / "examples/releases" / name).read_text()
    return list(yaml.safe_load_all(text))


def test_quick_start(reference_data: Path) -> None:
    """Release 0.6: create, Available, the owner lands in it; deleting it leaves the pod."""

    async def story(cluster: Cluster) -> None:
        await cluster.add(*manifests(reference_data, "reservation-demo.yaml"))
        first = await cluster.reservation("reservation-demo", "Available")
        assert first.status.node_name == "n"
        assert {k: str(v) for k, v in first.status.allocatable.items()} == {
            "cpu": "500m",
            "memory": "800Mi",
        }
        reasons = [(c.type, c.status, c.reason) for c in first.status.conditions]
        assert reasons == [("Scheduled", "True", "Scheduled"), ("Ready", "True", "Available")]
        await cluster.add(manifests(reference_data, "reservation-pods.yaml")[0])
        owner = await cluster.bound("pod-demo-0")
        key = "scheduling.koordinator.sh/reservation-allocated"
        assert owner.metadata.annotations[key] == (
            f'{{"name":"reservation-demo","uid":"{first.metadata.uid}"}}'
        )
        ended = await cluster.reservation("reservation-demo", "Succeeded")
        assert {k: str(v) for k, v in ended.status.allocated.items()} == {
            "cpu": "200m",
            "memory": "400Mi",
        }
        (current,) = ended.status.current_owners
        assert (current.namespace, current.name, current.uid) == (
            "default",
            "pod-demo-0",
            owner.metadata.uid,
        )
        table = cluster.app.world.table
        await cluster.client.delete(Reservation, "reservation-demo")
        await asyncio.sleep(5)
        left = await cluster.client.get(Pod, "pod-demo-0", namespace="default")
        assert left.metadata.deletion_timestamp is None
        assert key not in left.metadata.annotations
        # The pod's, and what the other Reservation of the quick start holds.
        assert int(table.requested[0, 0]) == 200 + 500

    play(story)


def test_the_reusable_reservation_stays_available(reference_data: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(manifests(reference_data, "reservation-demo.yaml")[1])
        await cluster.reservation("reservation-demo-reusable", "Available")
        await cluster.add(manifests(reference_data, "reservation-pods.yaml")[1])
        await cluster.bound("pod-demo-1")
        await asyncio.sleep(5)
        found = await cluster.reservation("reservation-demo-reusable", "Available")
        assert [each.name for each in found.status.current_owners] == ["pod-demo-1"]
        assert str(found.status.allocated["cpu"]) == "200m"
        assert int(cluster.app.world.table.requested[0, 0]) == 500
        await cluster.client.delete(Pod, "pod-demo-1", namespace="default", grace_period_seconds=0)
        await asyncio.sleep(5)
        found = await cluster.reservation("reservation-demo-reusable", "Available")
        assert not found.status.current_owners
        assert not found.status.allocated

    play(story)


def held(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"schedulerName": "koord-scheduler", "containers": containers}},
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
            **spec,
        },
    }


def asks(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": "koord-scheduler", "containers": containers},
    }


def test_what_does_not_fit_says_why_and_is_tried_again() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(asks("first", "3"))
        await cluster.bound("first")
        await cluster.add(held("late", "2"))
        await asyncio.sleep(5)
        pending = await cluster.reservation("late", "Pending")
        (condition,) = pending.status.conditions
        assert (condition.type, condition.status, condition.reason, condition.message) == (
            "Scheduled",
            "False",
            "Unschedulable",
            "0/1 nodes are available: 1 Insufficient cpu.",
        )
        await cluster.client.delete(Pod, "first", namespace="default", grace_period_seconds=0)
        found = await cluster.reservation("late", "Available")
        assert [each.status for each in found.status.conditions] == ["True", "True"]

    play(story)


def test_owners_wait_for_their_reservation() -> None:
    async def story(cluster: Cluster) -> None:
        waiting = asks("p", "1", app="later")
        waiting["metadata"]["annotations"] = {
            "scheduling.koordinator.sh/reservation-affinity": '{"name": "later"}'
        }
        await cluster.add(waiting)
        await asyncio.sleep(30)
        await cluster.add(held("later", "2", allocateOnce=False))
        await cluster.reservation("later", "Available")
        pod = await cluster.bound("p", 5)
        assert "reservation-allocated" in " ".join(pod.metadata.annotations)

    play(story)


def test_who_sees_it_available_can_use_it_although_the_watch_is_late() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.late_seconds = 5.0
        await cluster.add(held("late", "2"))
        await cluster.reservation("late", "Available")
        await cluster.add(asks("p", "1", app="late"))
        pod = await cluster.bound("p")
        assert "reservation-allocated" in " ".join(pod.metadata.annotations)
        await cluster.reservation("late", "Succeeded")

    play(story)


def test_reservations_end_and_are_cleared_away() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(held("short", "2", ttl="1m"), held("never", "64", ttl="1m"))
        await cluster.reservation("short", "Available")
        for name in ("short", "never"):
            found = await cluster.reservation(name, "Failed", 120)
            assert found.status.conditions[-1].reason == "Expired"
        await asyncio.sleep(1)
        assert int(cluster.app.world.table.requested[0, 0]) == 0
        await asyncio.sleep(400)
        left = await cluster.client.list(Reservation)
        assert not left.items

    play(story, gc_duration_seconds=300)


def test_it_goes_when_its_node_goes() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(held("gone", "2"))
        await cluster.reservation("gone", "Available")
        await cluster.client.delete(Node, "n")
        await cluster.reservation("gone", "Failed")

    play(story)


def test_a_malformed_reservation_is_told_why() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(held("bad", "-1"))
        await asyncio.sleep(5)
        found = await cluster.reservation("bad", "Pending")
        (condition,) = found.status.conditions
        assert condition.message == (
            "Reservation bad: spec.template.spec.containers[0].resources.requests[cpu]: "
            "got '-1', expected an amount of 0 or more"
        )

    play(story)


def test_a_restart_finds_all_again() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(held("kept", "3", allocateOnce=False), asks("owner", "2", app="kept"))
        await cluster.reservation("kept", "Available")
        await cluster.bound("owner")
        await asyncio.sleep(5)
        again = cluster.start()
        task = asyncio.create_task(again.run())
        await again.ready()
        await asyncio.sleep(1)
        before, after = cluster.app.world, again.world
        assert int(after.table.requested[0, 0]) == int(before.table.requested[0, 0]) == 3000
        sits = after.accounts.pods()
        owner = await cluster.bound("owner")
        assert sits[owner.metadata.uid].allocations["Reservation"].name == "kept"
        assert not any(drift(again.scheduler).values())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    play(story)
