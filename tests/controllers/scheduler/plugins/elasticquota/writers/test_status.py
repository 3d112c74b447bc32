# SPDX-License-Identifier: Apache-2.0
"""What is written to quota objects, and that nothing is where nothing changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from koord.api import crds
from koord.api.kinds.quota import ElasticQuota, GroupQuota
from koord.base import faults
from koord.base.errors import KoordError
from koord.base.metrics import registry
from koord.controllers.scheduler.plugins.elasticquota.explain.metrics import QuotaMetrics
from koord.controllers.scheduler.plugins.elasticquota.hooks import QuotaHook, attach, made
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import group_usage
from koord.controllers.scheduler.plugins.elasticquota.writers.status import (
    canonical_patch,
    guide_patch,
)
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.client import Client
from koord.kube.crds import install
from tests.controllers.scheduler.plugins.elasticquota.harness import Cluster
from tests.controllers.scheduler.plugins.elasticquota.objects import (
    PREFIX,
    cluster,
    guide,
    pod,
    quota,
)
from tests.controllers.scheduler.pods import node


def state() -> tuple[Any, Any]:
    groups, kept, _ = cluster({"cpu": 10_000, "memory": 1 << 34})
    groups.put(quota("a", min={"cpu": "2"}, max={"cpu": "4", "memory": "8Gi"}))
    kept.list_pod(pod("p", "a", cpu="1", memory="1Gi", nodeName="n"))
    kept.list_pod(pod("q", "a", cpu="5", strict=True))
    return groups, kept


def test_a_fresh_quota_gets_all_figures_that_are_not_zero() -> None:
    groups, _ = state()
    patch = canonical_patch(quota("a"), group_usage(groups.tree(""), "a"))
    assert patch is not None
    notes = {key.removeprefix(PREFIX): json.loads(text)
             for key, text in patch["metadata"]["annotations"].items()}  # fmt: skip
    assert notes == {
        "runtime": {"cpu": "4", "memory": "1Gi"},
        "request": {"cpu": "6", "memory": "1Gi"},
        "child-request": {"cpu": "6", "memory": "1Gi"},
        "non-preemptible-request": {"cpu": "5", "memory": "0"},
    }
    assert patch["status"] == {"used": {"cpu": "1", "memory": "1Gi"}}


def test_only_what_changed_is_written_and_zeros_are_no_change() -> None:
    groups, _ = state()
    now = group_usage(groups.tree(""), "a")
    notes = {
        "runtime": {"cpu": "4000m", "memory": "1024Mi", "gpu": "0"}, "request": {"cpu": "1"},
        "child-request": {"cpu": "6", "memory": "1Gi"}, "non-preemptible-request": {"cpu": "5"},
    }  # fmt: skip
    item = quota("a", notes=notes)
    item.status.used = dict(quota("x", min={"cpu": "1", "memory": "1Gi", "gpu": "0"}).spec.min)
    assert canonical_patch(item, now) == {
        "metadata": {"annotations": {PREFIX + "request": '{"cpu":"6","memory":"1Gi"}'}}
    }
    item = quota("a", notes={**notes, "request": {"cpu": "6", "memory": "1Gi"}})
    item.status.used = dict(quota("x", min={"cpu": "1", "gpu": "3"}).spec.min)
    assert canonical_patch(item, now) == {
        "status": {"used": {"gpu": None, "cpu": "1", "memory": "1Gi"}}
    }


def test_an_annotation_that_cannot_be_read_keeps_the_quota_from_being_written() -> None:
    groups, _ = state()
    with pytest.raises(KoordError, match=r"scheduling\.koordinator\.sh/request"):
        canonical_patch(quota("a", notes={"request": "{"}), group_usage(groups.tree(""), "a"))


def test_the_guides_status() -> None:
    groups, kept, _ = cluster({"cpu": 10_000})
    groups.put(guide("q", "team", min={"cpu": "1"}, hard={"cpu": "3"}))
    kept.list_pod(pod("p", cpu="2", namespace="team", nodeName="n"))
    now = group_usage(groups.tree(""), "team/q")
    item = guide("q", "team")
    assert guide_patch(item, now, {"p": {"cpu": 2000}}) == {
        "status": {
            "allocatedQuota": {"cpu": "2"}, "used": {"cpu": "2"},
            "podAllocatedQuota": {"p": {"cpu": "2"}},
        }
    }  # fmt: skip
    item.status.pod_allocated_quota = {"gone": item.spec.max}
    patch = guide_patch(item, now, {"p": {"cpu": 2000}})
    assert patch is not None
    assert patch["status"]["podAllocatedQuota"] == {"p": {"cpu": "2"}, "gone": None}


def on_a_server(test: Callable[[Client, Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with EmbeddedControlPlane(Options(seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            async for _ in install(client, crds()):
                pass
            await test(client, Cluster(client))

    asyncio.run(run())


async def refresh(client: Client, made: Cluster) -> list[Any]:
    """Shows the scheduler the objects as the server has them."""
    found: list[Any] = []
    for kind in (ElasticQuota, GroupQuota):
        found += (await client.list(kind)).items
    made.put(*found)
    return found


def test_statuses_reach_the_server_once() -> None:
    async def test(client: Client, made: Cluster) -> None:
        status = made.quota._status
        assert status is not None
        await client.create(quota("a", min={"cpu": "2"}, max={"cpu": "4"}))
        await client.create(guide("q", "default", min={"cpu": "1"}, hard={"cpu": "3"}))
        limits = {"koordinator-system-quota": {}, "koordinator-default-quota": {}}
        await status.create_builtin("default", limits)
        await status.create_builtin("default", limits)
        await refresh(client, made)
        made.put(node("n", cpu="10"), pod("p", "a", cpu="1", nodeName="n"))
        made.put(pod("g", "q", cpu="2", nodeName="n"))
        # The built-in groups, and the two quotas.
        assert await status.step() == 5
        versions = [item.metadata.resource_version for item in await refresh(client, made)]
        assert await status.step() == 0
        a = await client.get(ElasticQuota, "a", "default")
        assert str(a.status.used["cpu"]) == "1"
        assert json.loads(a.metadata.annotations[PREFIX + "runtime"]) == {"cpu": "1"}
        root = await client.get(ElasticQuota, "koordinator-root-quota", "default")
        assert root.metadata.labels[PREFIX + "is-parent"] == "true"
        flat = await client.get(GroupQuota, "q", "default")
        assert str(flat.status.allocated_quota["cpu"]) == "2"
        assert str(flat.status.pod_allocated_quota["g"]["cpu"]) == "2"
        made.put(pod("p", "a", cpu="1", nodeName="n", labels={"other": "label"}))
        assert await status.step() == 0
        assert versions == [i.metadata.resource_version for i in await refresh(client, made)]
        # What somebody else writes over it is put right.
        a.status.used = {}
        await client.update(a)
        await refresh(client, made)
        assert await status.step() == 1

    on_a_server(test)


def test_a_write_that_fails_is_tried_again() -> None:
    async def test(client: Client, made: Cluster) -> None:
        status = made.quota._status
        assert status is not None
        await client.create(quota("a", max={"cpu": "4"}))
        await client.create(quota("b", max={"cpu": "4"}, notes={"runtime": "{"}))
        await refresh(client, made)
        made.put(node("n", cpu="10"), pod("p", "a", cpu="1"), pod("q", "b", cpu="1"))
        rule = faults.FaultRule(rate=1.0, error=OSError("no"))
        with faults.inject(faults.FaultPlan(seed=1, rules={"scheduler.quota.status": rule})):
            assert await status.step() == 0
        assert await status.step() == 1
        await refresh(client, made)
        assert await status.step() == 0

    on_a_server(test)


class Strict(QuotaHook):
    """Lets only pods with a label in, writes no statuses, remembers what it is told."""

    def __init__(self, key: str, args: str) -> None:
        super().__init__(key, args)
        self.told: list[tuple[Any, ...]] = []

    def quota_changed(self, group: str, old: Any, new: Any) -> None:
        self.told.append((group, old and dict(old.max), new and dict(new.max)))

    def pod_changed(self, group: str, pod: Any, used: bool) -> None:
        self.told.append((group, pod.uid, used))

    def check_pod(self, group: str, pod: Any) -> str:
        return "" if "badge" in pod.shape.labels else f"no badge for {group}"

    def adjust_status(self, quota: Any, patch: Any) -> Any:
        return None


class Conf:
    key, factory_key, factory_args = "door", "strict", "x"


def test_hooks_have_a_say() -> None:
    (hook,) = made([Conf()], {"strict": Strict})
    assert (hook.key, hook.args) == ("door", "x")
    groups, kept, admission = cluster({"cpu": 4000})
    attach([hook], groups, kept)
    groups.put(quota("a", max={"cpu": "4"}))
    admission.hooks.append(hook)
    refusal = admission.check(pod("p", "a", cpu="1"))
    assert refusal is not None
    assert refusal.reason == "CheckPod failed for hook plugin door, no badge for a"
    badged = pod("q", "a", cpu="1", labels={"badge": "1"})
    assert admission.check(badged) is None
    kept.place_pod(badged)
    kept.withdraw(badged)
    groups.put(quota("a", max={"cpu": "2"}))
    groups.put(quota("a", max={"cpu": "2"}))
    groups.remove(quota("a"))
    four, two = {"cpu": 4000}, {"cpu": 2000}
    changes = [("a", None, four), ("a", "q", True), ("a", "q", False), ("a", four, two)]
    assert hook.told == [*changes, ("a", two, None)]


def test_series_follow_groups() -> None:
    into = registry()
    metrics = QuotaMetrics(into)
    groups, _ = state()
    metrics.update(groups)
    line = (
        'scheduler_elastic_quota_status{field="used",is_parent="false",name="a",'
        'parent="koordinator-root-quota",resource="cpu",tree=""} 1000.0'
    )
    assert line in into.expose().decode()
    groups.remove(quota("a"))
    metrics.update(groups)
    assert 'name="a"' not in into.expose().decode()
