# SPDX-License-Identifier: Apache-2.0
"""A row's number passes to another node: what was known of the first does not count for it."""

from __future__ import annotations

from typing import Any

from koord.api import Node, NodeMetric
from koord.api.timestamps import seconds_text
from koord.kube.patches import Patch
from tests.controllers.manager.noderesource.scene import ON, Scene, perform

GI = 1 << 30
# 60 % of 32 cores and 65 % of 128Gi, of which nothing is in use.
OFFERS = (19_200, 128 * GI - 128 * GI * 35 // 100)


async def joins(scene: Scene, name: str) -> None:
    """A node of 32 cores and 128Gi, whose agent says that nothing is in use."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    status: dict[str, Any] = {"capacity": amounts, "allocatable": amounts}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    await scene.client.create(node)
    api = "slo.koordinator.sh/v1alpha1"
    metric = {"apiVersion": api, "kind": "NodeMetric", "metadata": {"name": name}, "spec": {}}
    await scene.client.create(metric)
    usage = {"resources": {"cpu": "0", "memory": "0"}}
    status = {
        "updateTime": seconds_text(int(scene.world.clock.wall_seconds())),
        "nodeMetric": {"systemUsage": usage, "nodeUsage": usage},
        "podsMetric": [],
    }
    change = Patch.merge({"status": status})
    await scene.client.patch(NodeMetric, name, change, subresource="status")


async def leaves(scene: Scene, name: str) -> None:
    await scene.client.delete(Node, name)
    await scene.client.delete(NodeMetric, name)


async def first_passes_its_row_to_second(scene: Scene, row: int | None) -> None:
    await leaves(scene, "first")
    await scene.settle(5)
    assert scene.controller.ledger.row("first") is None
    await joins(scene, "second")
    await scene.settle(5)
    assert scene.controller.ledger.row("second") == row is not None


def test_a_node_in_the_row_of_a_reconciled_one_that_went() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await joins(scene, "first")
        await scene.settle(5)
        row = scene.controller.ledger.row("first")
        assert await scene.offers("first") == OFFERS
        await first_passes_its_row_to_second(scene, row)
        # The same offers: who took the row for the first node's would write nothing.
        assert await scene.offers("second") == OFFERS

    perform(script)


def test_a_node_that_went_while_it_was_written() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()

        async def patched(_: Node, after: Node) -> None:
            scene.patched = None
            assert after.metadata.name == "first"
            row = scene.controller.ledger.row("first")
            await leaves(scene, "first")
            await scene.settle(5)
            await joins(scene, "second")
            assert scene.controller.ledger.row("first") is None
            await scene.settle(0.15)
            assert scene.controller.ledger.row("second") == row is not None

        scene.patched = patched
        await joins(scene, "first")
        await scene.settle(30)
        assert scene.patched is None
        assert await scene.offers("second") == OFFERS
        # What the first was written with says nothing of the second's next offers.
        await scene.annotate("second", labels={"example.com/seen": "1"})
        await scene.settle(5)
        assert await scene.offers("second") == OFFERS

    perform(script)
