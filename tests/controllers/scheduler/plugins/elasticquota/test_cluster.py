# SPDX-License-Identifier: Apache-2.0
"""Quotas on an API server: what users write goes in, decisions and statuses come out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from koord.api import crds
from koord.api.kinds.cluster import PriorityClass
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.base.clock import VirtualClock, VirtualLoop
from koord.controllers.scheduler.app import App
from koord.controllers.scheduler.config.load import decode
from koord.controllers.scheduler.registry import Registry
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.crds import install
from koord.kube.patches import Patch
from tests.controllers.scheduler.plugins.elasticquota.objects import PREFIX, guide, quota
from tests.controllers.scheduler.pods import node, pod

PLUGINS = ["PrioritySort", "NodeResourcesFit", "ElasticQuota", "DefaultBinder"]
GANG = "gang.scheduling.koordinator.sh/"


def configuration(*plugins: str) -> dict[str, Any]:
    """One profile of these plugins."""
    chosen = {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in plugins]}
    own = {"name": "ElasticQuota", "args": {"quotaGroupNamespace": "default"}}
    profile = {
        "schedulerName": "koord-scheduler",
        "plugins": {"multiPoint": chosen},
        "pluginConfig": [own],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
    }


def play(story: Callable[[Client], Awaitable[None]], *plugins: str) -> None:
    """Runs a scheduler beside a story on virtual time."""
    clock = VirtualClock(1_700_000_000.0)
    loop = VirtualLoop(clock)
    chosen = configuration(*(plugins or PLUGINS))

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            async for _ in install(client, crds()):
                pass
            app = App(client, decode(chosen, "test", Registry([])), clock)
            running = asyncio.create_task(app.run())
            telling = asyncio.create_task(story(client))
            await asyncio.wait({running, telling}, return_when=asyncio.FIRST_COMPLETED)
            for task in (running, telling):
                task.cancel()
            await asyncio.wait({running, telling})
            # Whichever came to an end has the last word: a scheduler must not.
            await (telling if running.cancelled() else running)

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


async def made(client: Client, *objects: Any) -> None:
    for item in objects:
        if isinstance(item, Pod):
            item.metadata.uid, item.spec.containers[0].image = "", "busybox"
        await client.create(item)


def test_quotas_are_kept_told_and_given_back() -> None:
    async def story(client: Client) -> None:
        await made(client, node("n", cpu="16"), quota("a", min={"cpu": "4"}, max={"cpu": "4"}))
        await made(client, guide("team", "default", min={"cpu": "1"}, hard={"cpu": "2"}))
        label = {PREFIX + "name": "a"}
        pods = [pod(f"p{i}", cpu="2", labels=label) for i in range(3)]
        await made(client, *pods, pod("q", cpu="1"))
        await asyncio.sleep(5)
        found = {p.metadata.name: p for p in (await client.list(Pod)).items}
        assert [name for name in sorted(found) if found[name].spec.node_name] == ["p0", "p1", "q"]
        (condition,) = found["p2"].status.conditions
        assert condition.message.startswith(
            "0/1 nodes are available: Insufficient quotas, quotaName: a, runtime: cpu:4,memory:0, "
            "used: cpu:4, pod's request: cpu:2, exceedDimensions: [cpu]. "
        )
        kept = await client.get(ElasticQuota, "a", "default")
        assert {key: str(n) for key, n in kept.status.used.items()} == {"cpu": "4"}
        assert kept.metadata.annotations[PREFIX + "request"] == '{"cpu":"6"}'
        flat = await client.get(GroupQuota, "team", "default")
        assert {key: str(n) for key, n in flat.status.used.items()} == {"cpu": "1"}
        assert list(flat.status.pod_allocated_quota) == ["q"]
        names = [item.metadata.name for item in (await client.list(ElasticQuota)).items]
        assert {"koordinator-root-quota", "koordinator-default-quota"} < set(names)
        await client.delete(Pod, "p0", "default", grace_period_seconds=0)
        await asyncio.sleep(15)
        assert (await client.get(Pod, "p2", "default")).spec.node_name == "n"

    play(story)


def test_a_lesser_pod_of_the_quota_makes_room() -> None:
    async def story(client: Client) -> None:
        await made(client, node("n", cpu="16"), quota("a", max={"cpu": "4"}))
        meta = ObjectMeta(name="urgent")
        await client.create(PriorityClass(metadata=meta, value=9))
        label = {PREFIX + "name": "a"}
        await made(client, pod("low", cpu="3", labels=label))
        await asyncio.sleep(2)
        await made(client, pod("high", cpu="3", labels=label, priorityClassName="urgent"))
        await asyncio.sleep(40)
        pods = {p.metadata.name: p for p in (await client.list(Pod)).items}
        assert "low" not in pods or pods["low"].metadata.deletion_timestamp is not None
        if "low" in pods:
            await client.delete(Pod, "low", "default", grace_period_seconds=0)
            await asyncio.sleep(15)
        assert (await client.get(Pod, "high", "default")).spec.node_name == "n"

    play(story)


def test_a_job_gets_its_quota_whole_or_not_at_all() -> None:
    def job(name: str, count: int) -> list[Pod]:
        notes = {GANG + "name": name, GANG + "min-available": str(count)}
        label = {PREFIX + "name": "a"}
        names = [f"{name}{i}" for i in range(count)]
        return [pod(each, cpu="1", labels=label, annotations=notes) for each in names]

    async def bound(client: Client) -> list[str]:
        pods = (await client.list(Pod)).items
        return sorted(p.metadata.name for p in pods if p.spec.node_name)

    async def story(client: Client) -> None:
        await made(client, node("n", cpu="64"), quota("a", max={"cpu": "4"}))
        await made(client, *job("big", 6), *job("small", 3))
        await asyncio.sleep(20)
        small = ["small0", "small1", "small2"]
        assert await bound(client) == small
        told = (await client.get(Pod, "big0", "default")).status.conditions[0].message
        assert "Insufficient quotas, quotaName: a, runtime: cpu:4, used: cpu:4" in told
        raised = Patch.merge({"spec": {"max": {"cpu": "9"}}})
        await client.patch(ElasticQuota, "a", raised, "default")
        await asyncio.sleep(30)
        assert await bound(client) == [*(f"big{i}" for i in range(6)), *small]

    play(story, *PLUGINS, "Coscheduling")
