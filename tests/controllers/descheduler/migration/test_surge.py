# SPDX-License-Identifier: Apache-2.0
"""A workload's only pod moves without a gap: a second one first; undone wherever it stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.workloads import Deployment
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.migration.course.surge_state import surge_state
from koord.controllers.descheduler.migration.course.surges import AUTOSCALER
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration.world import World, play

ASKS = {"annotations": {"descheduler.koordinator.sh/surge": "true"}}
COST = "controller.kubernetes.io/pod-deletion-cost"
TEMPLATE = {"f:template": {}}


async def solo(world: World) -> Pod:
    """The only pod of a Deployment that asks for a surge."""
    await world.deployment("solo", 1, metadata=ASKS)
    (pod,) = await world.running(1)
    return pod


async def check_undone(world: World, *uids: str) -> None:
    """One replica, of these pods; nothing tells of a surge any more."""
    await asyncio.sleep(30)
    found = await world.client.get(Deployment, "solo", "default")
    assert found.spec.replicas == 1
    assert found.metadata.annotations.keys() & {"descheduler.koordinator.sh/surge-job"} == set()
    (pod,) = await world.running(1)
    assert pod.metadata.uid in uids
    assert COST not in pod.metadata.annotations
    assert await world.reservations() == []


def test_the_second_pod_is_ready_before_the_first_goes() -> None:
    async def story(world: World) -> None:
        old = await solo(world)
        await world.budget("solo", 1)
        ready = []

        async def look() -> None:
            while True:
                pods = await world.pods()
                ready.append(sum(_is_ready(pod) for pod in pods))
                await asyncio.sleep(0.05)

        looking = asyncio.create_task(look())
        assert await world.descheduler.plugin.evict(old, PodEviction("Test", "by hand"))
        (job,) = await world.jobs()
        ended = await world.ended(job.metadata.name)
        looking.cancel()
        assert (ended.status.phase, ended.status.status) == ("Succeeded", "Complete")
        assert min(ready) == 1
        (new,) = await world.running(1)
        assert ended.status.pod_ref is not None
        assert (new.metadata.name, new.spec.node_name) == (
            ended.status.pod_ref.name,
            ended.status.node_name,
        )
        assert new.spec.node_name != old.spec.node_name
        told = [event.reason for event in await world.events("PodMigrationJob")]
        assert told == [
            "ReservationCreated", "ReservationScheduled", "ScaledUp",
            "WaitForPodBindReservation", "PodBoundReservation", "WaitForBoundPodReady",
            "BoundPodReady", "Evicting", "EvictComplete", "Complete",
        ]  # fmt: skip
        await check_undone(world, new.metadata.uid)

    play(story)


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


@pytest.mark.parametrize("how", ["aborted", "deleted", "late"])
@pytest.mark.parametrize("at", ["ReservationScheduled", "Surge", "ReservationBound", "Eviction"])
def test_what_was_begun_is_undone(at: str, how: str) -> None:
    async def story(world: World) -> None:
        old = await solo(world)
        world.ready = at == "Eviction"
        if at == "Eviction":
            finalizer = Patch.merge({"metadata": {"finalizers": ["example.com/stay"]}})
            await world.client.patch(Pod, old.metadata.name, finalizer, "default")
        await world.job("demo", old.metadata.name, ttl="1m")
        await world.until("demo", lambda job: at in [c.type for c in job.status.conditions])
        if how == "aborted":
            change = Patch.merge({"status": {"phase": "Aborted"}})
            await world.client.patch(PodMigrationJob, "demo", change, subresource="status")
        elif how == "deleted":
            await world.client.delete(PodMigrationJob, "demo")
        else:
            await asyncio.sleep(70)
        await asyncio.sleep(5)
        world.ready = True
        left = {pod.metadata.uid for pod in await world.pods()}
        if at == "Eviction":
            finalizer = Patch.merge({"metadata": {"finalizers": None}})
            await world.client.patch(Pod, old.metadata.name, finalizer, "default")
        else:
            assert old.metadata.uid in left
            left = {old.metadata.uid}
        await check_undone(world, *left)

    play(story)


@pytest.mark.parametrize("at", ["Running", "ReservationScheduled", "Surge", "Eviction"])
def test_another_process_goes_on(at: str) -> None:
    async def story(world: World) -> None:
        old = await solo(world)
        await world.job("demo", old.metadata.name)
        await world.until(
            "demo", lambda j: at in (j.status.phase, *(c.type for c in j.status.conditions))
        )
        await world.restart()
        assert (await world.ended("demo")).status.phase == "Succeeded"
        (new,) = await world.running(1)
        assert new.metadata.uid != old.metadata.uid
        await check_undone(world, new.metadata.uid)

    play(story)


def test_an_autoscaler_refuses_it_before_anything_is_reserved() -> None:
    async def story(world: World) -> None:
        old = await solo(world)
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "solo"}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3}
        meta = {"name": "by-load", "namespace": "default"}
        await world.client.create({"metadata": meta, "spec": spec}, kind=AUTOSCALER)
        await world.job("demo", old.metadata.name)
        job = await world.ended("demo")
        assert job.status.reason == "SurgeRefused"
        assert job.status.message == (
            "HorizontalPodAutoscaler by-load sets its replicas; a surge would be against it"
        )
        refused = world.descheduler.plugin.refusal(old)
        assert refused is not None
        assert (refused.reason, refused.message) == ("SurgeRefused", job.status.message)
        await check_undone(world, old.metadata.uid)

    play(story)


def test_whoever_scales_it_meanwhile_has_the_last_word() -> None:
    async def story(world: World) -> None:
        old = await solo(world)
        world.ready = False
        await world.job("demo", old.metadata.name)
        await world.until("demo", lambda j: any(c.type == "Surge" for c in j.status.conditions))
        await world.client.set_scale(Deployment, "solo", 3, "default")
        world.ready = True
        job = await world.ended("demo")
        assert (job.status.phase, job.status.reason) == ("Failed", "SurgeInterrupted")
        assert "wants 3 replicas now" in job.status.message
        pods = await world.running(3)
        await asyncio.sleep(10)
        assert old.metadata.uid in {pod.metadata.uid for pod in pods}
        found = await world.client.get(Deployment, "solo", "default")
        assert (found.spec.replicas, found.metadata.annotations.keys()) == (3, {
            *ASKS["annotations"], "deployment.kubernetes.io/revision"})  # fmt: skip

    play(story)


def test_evicting_directly_is_refused() -> None:
    async def story(world: World) -> None:
        old = await solo(world)
        await world.job("demo", old.metadata.name, mode="EvictDirectly")
        assert (await world.ended("demo")).status.reason == "SurgeRefused"
        await check_undone(world, old.metadata.uid)

    play(story)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"manager": "kubectl-create", "operation": "Update", "spec": TEMPLATE}, ""),
        ({"manager": "koord-descheduler", "operation": "Update", "spec": {}}, ""),
        (
            {"manager": "kubectl", "operation": "Update", "subresource": "scale", "spec": {}},
            '"kubectl" by the subresource scale manages its replicas (metadata.managedFields)',
        ),
        (
            {"manager": "flux", "operation": "Apply", "spec": TEMPLATE},
            '"flux" by server-side apply manages its replicas (metadata.managedFields)',
        ),
        (
            {"manager": "scaler", "operation": "Update", "spec": {}},
            '"scaler" manages its replicas (metadata.managedFields)',
        ),
    ],
)
def test_who_may_manage_the_replicas_beside(entry: dict[str, Any], why: str) -> None:
    fields = {"f:spec": {"f:replicas": {}, **entry.pop("spec")}}
    meta = {"name": "solo", "namespace": "default", "uid": "u", **ASKS,
            "managedFields": [{**entry, "fieldsV1": fields}]}  # fmt: skip
    found = surge_state({"metadata": meta, "spec": {"replicas": 1}}, "job", [])
    assert (found.refusal, found.is_begun) == (why, False)
