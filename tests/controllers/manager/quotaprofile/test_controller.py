# SPDX-License-Identifier: Apache-2.0
"""Quota roots on a cluster: made, kept up to date, told of where they cannot be written."""

from __future__ import annotations

from typing import Any

from koord.api import ElasticQuota, ElasticQuotaProfile, Node
from koord.base import faults
from koord.controllers.manager.quotaprofile.quota_root import fnv1a
from koord.kube.errors import ApiError, Status
from koord.kube.patches import Patch
from tests.controllers.manager.cluster import Scene, add_node, reasons, started

TREE = "quota.scheduling.koordinator.sh/tree-id"


async def add_profile(scene: Scene, name: str = "p") -> None:
    await scene.client.create(
        {
            "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"quotaName": "root", "nodeSelector": {"matchLabels": {"pool": "x"}}},
        }
    )  # fmt: skip


async def grow(scene: Scene, name: str, cpus: int) -> None:
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    change = Patch.merge({"status": {"allocatable": amounts, "capacity": amounts}})
    await scene.client.patch(Node, name, change, subresource="status")


async def root(scene: Scene) -> ElasticQuota:
    return await scene.client.get(ElasticQuota, "root", "default")


def test_a_root_is_made_and_follows_its_nodes() -> None:
    async def script(scene: Scene) -> None:
        await add_node(scene, "a", pool="x")
        await grow(scene, "a", 8)
        await add_profile(scene)
        await scene.settle(2)
        found = await root(scene)
        tree = str(fnv1a("default/p"))
        profile = await scene.client.get(ElasticQuotaProfile, "p", "default")
        assert found.metadata.labels[TREE] == profile.metadata.labels[TREE] == tree
        assert {name: str(q) for name, q in found.spec.min.items()} == {"cpu": "8", "memory": "1Gi"}
        scene.writes.clear()
        await scene.settle(60)
        assert scene.writes == [], "nothing has changed"
        await grow(scene, "a", 12)
        await scene.settle(11)
        assert str((await root(scene)).spec.min["cpu"]) == "12"
        assert scene.writes == ["PATCH elasticquotas/root"]

    started(script, "quotaprofile")


def test_what_others_keep_in_a_root_stays() -> None:
    async def script(scene: Scene) -> None:
        mine: Any = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "root", "namespace": "default",
                         "labels": {"mine": "1"}, "annotations": {"note": "2"}},
            "spec": {"min": {"gpu": "4"}},
        }  # fmt: skip
        await scene.client.create(mine)
        await add_profile(scene)
        await scene.settle(2)
        found = await root(scene)
        assert found.metadata.labels["mine"] == "1"
        assert found.metadata.annotations["note"] == "2"
        assert set(found.spec.min) == {"cpu", "memory"}

    started(script, "quotaprofile")


def test_a_root_that_cannot_be_written_is_told_of_and_tried_again() -> None:
    async def script(scene: Scene) -> None:
        lost = faults.FaultRule(
            rate=1.0, error=ApiError(Status(code=500, reason="InternalError", message="no"))
        )
        with faults.inject(faults.FaultPlan(seed=1, rules={"manager.quotaprofile.write": lost})):
            await add_profile(scene)
            await scene.settle(5)
        assert ("CreateQuotaFailed", "p") in await reasons(scene)
        await scene.settle(3)
        assert (await root(scene)).metadata.name == "root"

    started(script, "quotaprofile")
