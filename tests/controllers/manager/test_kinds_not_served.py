# SPDX-License-Identifier: Apache-2.0
"""What the manager does while the API server lacks kinds that it writes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from koord.api import definitions
from koord.api.kinds.nodemetric import NodeMetric
from koord.kube import crds as installing
from koord.kube.patches import Patch
from tests.controllers.manager.cluster import Scene, add_node, perform, reasons
from tests.kube.harness import logged

ON = {"enable": True}
METRICS, SLOS = "nodemetrics.slo.koordinator.sh", "nodeslos.slo.koordinator.sh"
QUOTAS = "elasticquotas.scheduling.sigs.k8s.io"


async def lose(scene: Scene, *names: str) -> None:
    for name in names:
        await scene.client.delete(installing.CRD, name)


async def define(scene: Scene, *names: str) -> None:
    wanted = [each for each in definitions.crds() if each["metadata"]["name"] in names]
    async for _ in installing.install(scene.client, wanted):
        pass


def test_nothing_is_written_until_the_kinds_come_and_then_all() -> None:
    async def script(scene: Scene) -> None:
        await lose(scene, METRICS, SLOS)
        await scene.start("nodemetric,nodeslo")
        await scene.configure(ON)
        for name in "abc":
            await add_node(scene, name)
        await asyncio.sleep(600)
        assert scene.writes == []
        await define(scene, METRICS, SLOS)
        await asyncio.sleep(31)
        metrics, slos = "POST v1alpha1/nodemetrics", "POST v1alpha1/nodeslos"
        assert sorted(scene.writes) == [metrics, metrics, metrics, slos, slos, slos]

    perform(script)


def test_objects_that_went_with_their_kind_are_made_when_it_comes_back() -> None:
    async def script(scene: Scene) -> None:
        await scene.start("nodemetric")
        await scene.configure(ON)
        await add_node(scene, "a")
        await lose(scene, METRICS)
        scene.writes.clear()
        await asyncio.sleep(600)
        # In the moment before it is known that the kind went, and not again.
        assert len(scene.writes) <= 20
        scene.writes.clear()
        await asyncio.sleep(600)
        assert scene.writes == []
        await define(scene, METRICS)
        await asyncio.sleep(31)
        assert scene.writes == ["POST v1alpha1/nodemetrics"]

    perform(script)


def test_a_quota_root_waits_for_its_kind_in_silence() -> None:
    profile: dict[str, Any] = {
        "apiVersion": "quota.koordinator.sh/v1alpha1",
        "kind": "ElasticQuotaProfile",
        "metadata": {"name": "p", "namespace": "default", "labels": {}},
        "spec": {"quotaName": "root", "nodeSelector": {"matchLabels": {"pool": "a"}}},
    }

    async def script(scene: Scene) -> None:
        await lose(scene, QUOTAS)
        await scene.start("quotaprofile")
        await scene.client.create(profile)
        await asyncio.sleep(60)
        assert [each for each in scene.writes if each.startswith("POST")] == []
        assert await reasons(scene) == []
        await define(scene, QUOTAS)
        await asyncio.sleep(45)
        assert "POST elasticquotas" in [each.replace("default/", "") for each in scene.writes]

    perform(script)


def test_one_line_at_the_start_says_what_is_not_done() -> None:
    async def script(scene: Scene) -> None:
        await lose(scene, METRICS, SLOS)
        with logged("koord.manager", logging.WARNING) as records:
            await scene.start("nodemetric,nodeslo,noderesource")
        assert [record.message for record in records] == ["kinds are not served"]
        fields: Any = records[0].__dict__["koord_fields"]
        assert fields == {
            "without": "NodeMetric: no batch or mid resources are offered; "
            "NodeSLO: agents get no settings",
            "remedy": "koord crds install",
        }

    perform(script)


def test_a_definition_that_is_going_is_no_failure() -> None:
    """The server refuses to create objects of a kind while those that are there still end."""
    held = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "held", "finalizers": ["example.com/wait"]},
        "spec": {},
    }

    async def script(scene: Scene) -> None:
        await scene.client.create(held)
        await scene.start("nodemetric")
        await scene.configure(ON)
        await lose(scene, METRICS)
        with logged("koord.controller", logging.WARNING) as records:
            await add_node(scene, "a")
            await asyncio.sleep(60)
        assert [each for each in scene.writes if each.startswith("POST")]
        assert records == []
        change = Patch.merge({"metadata": {"finalizers": None}})
        await scene.client.patch(NodeMetric, "held", change)
        await asyncio.sleep(10)
        scene.writes.clear()
        await asyncio.sleep(60)
        assert scene.writes == []

    perform(script)
