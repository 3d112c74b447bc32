# SPDX-License-Identifier: Apache-2.0
"""What strategies write beside evictions: on conditions, and not at all in a dry run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.base.faults import FaultPlan, FaultRule, inject
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
from koord.controllers.descheduler.framework.object_writer import ObjectWriter
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.errors import TransportError
from koord.kube.patches import Patch
from tests.controllers.descheduler.world import NOW, node, pod
from tests.kube.harness import run_virtual

KEY = "example.com/note"
Story = Callable[[Client, ObjectWriter], Awaitable[None]]


def played(story: Story, **options: Any) -> list[Any]:
    """Runs a story against a server with node n1 and pod a; the events that were said."""
    said: list[Any] = []

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            await client.create(node("n1"))
            await client.create(pod("a"))
            recorder: Any = SimpleNamespace(event=lambda *what: said.append(what))
            views: Any = None
            access = ClusterAccess(client, views, Supervisor("descheduler"), recorder, **options)
            await story(client, ObjectWriter(access))

    clock = VirtualClock(NOW)
    run_virtual(whole(), clock)
    return said


def test_a_node_is_cordoned_and_uncordoned() -> None:
    async def story(client: Client, writer: ObjectWriter) -> None:
        found = await client.get(Node, "n1")
        assert await writer.cordon(found)
        assert (await client.get(Node, "n1")).spec.unschedulable
        # The node is another version by now, for the cordon if for nothing else.
        assert await writer.uncordon(found)
        assert not (await client.get(Node, "n1")).spec.unschedulable
        # There is nothing to take back any more.
        assert not await writer.uncordon(found)

    played(story)


def test_a_node_that_changed_meanwhile_is_not_cordoned() -> None:
    async def story(client: Client, writer: ObjectWriter) -> None:
        judged = await client.get(Node, "n1")
        await client.patch(Node, "n1", Patch.merge({"metadata": {"labels": {"x": "y"}}}))
        assert not await writer.cordon(judged)
        assert not (await client.get(Node, "n1")).spec.unschedulable

    played(story)


def test_annotations_are_set_and_removed() -> None:
    async def story(client: Client, writer: ObjectWriter) -> None:
        found = await client.get(Pod, "a", "default")
        assert await writer.annotate(found, {KEY: "1"})
        assert (await client.get(Pod, "a", "default")).metadata.annotations == {KEY: "1"}
        # Judged before it had the annotation: its removal is refused, which is no failure.
        assert await writer.annotate(found, {KEY: None}, unchanged=True)
        found = await client.get(Pod, "a", "default")
        assert found.metadata.annotations == {KEY: "1"}
        assert await writer.annotate(found, {KEY: None}, unchanged=True)
        assert (await client.get(Pod, "a", "default")).metadata.annotations == {}

    played(story)


def test_another_pod_of_the_name_is_left_alone() -> None:
    async def story(client: Client, writer: ObjectWriter) -> None:
        judged = await client.get(Pod, "a", "default")
        await client.delete(Pod, "a", "default", grace_period_seconds=0)
        assert await writer.annotate(judged, {KEY: "1"})  # gone
        await client.create(pod("a"))
        assert await writer.annotate(judged, {KEY: "1"})
        assert (await client.get(Pod, "a", "default")).metadata.annotations == {}

    played(story)


@pytest.mark.parametrize("of_the_cluster", [True, False])
def test_a_dry_run_writes_and_says_nothing(of_the_cluster: bool) -> None:
    async def story(client: Client, writer: ObjectWriter) -> None:
        if not of_the_cluster:
            writer = ObjectWriter(None)
        found, of_pod = await client.get(Node, "n1"), await client.get(Pod, "a", "default")
        assert await writer.cordon(found)
        assert await writer.uncordon(found)
        assert await writer.annotate(of_pod, {KEY: "1"})
        writer.warn(found, "Reason", "words")
        assert await client.get(Node, "n1") == found
        assert await client.get(Pod, "a", "default") == of_pod

    assert played(story, dry_run=of_the_cluster) == []


def test_what_fails_is_told() -> None:
    async def story(client: Client, writer: ObjectWriter) -> None:
        found, of_pod = await client.get(Node, "n1"), await client.get(Pod, "a", "default")
        lost = FaultRule(1.0, TransportError("lost", sent=False))
        points = ("descheduler.cordon", "descheduler.uncordon", "descheduler.annotate")
        plan = FaultPlan(1, dict.fromkeys(points, lost))
        with inject(plan):
            assert not await writer.cordon(found)
            assert not await writer.uncordon(found)
            assert not await writer.annotate(of_pod, {KEY: "1"})
        assert set(plan.failed) == set(points)
        writer.warn(found, "Reason", "words")

    ((about, kind, reason, message),) = played(story)
    assert (about.metadata.name, kind, reason, message) == ("n1", "Warning", "Reason", "words")
