# SPDX-License-Identifier: Apache-2.0
"""Cards, CPU speed and plugins that are switched off, on a cluster with simulated agents."""

from __future__ import annotations

import json
from typing import Any

from koord.api import Device, Node, NodeResourceTopology
from koord.kube.patches import Patch
from koord.simulator.nodes.pools import PoolGPUs
from tests.controllers.manager.noderesource.scene import BATCH, MID, ON, Scene, perform, pools

MODEL, MODEL_OLD = "node.koordinator.sh/gpu-model", "kubernetes.io/gpu-model"
SPEED = "node.koordinator.sh/cpu-normalization-ratio"
AMPLIFIED = "node.koordinator.sh/resource-amplification-ratio"
INFO = "node.koordinator.sh/cpu-basic-info"


def amounts(node: Node, prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): amount.value()
        for name, amount in node.status.allocatable.items()
        if name.startswith(prefix)
    }


def test_gpus_become_resources_and_labels_and_go_with_their_device() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start(feature_gates="EnableSyncGPUSharedResource=true")
        task = await scene.world.run(scene.world.fleet(pools(1, gpus=PoolGPUs(count=2))))
        await scene.settle(30)
        node = await scene.node()
        assert amounts(node, "koordinator.sh/") == {
            "gpu": 200, "gpu-core": 200, "gpu-memory": 160 << 30, "gpu-memory-ratio": 200,
            "gpu.shared": 200,
        }  # fmt: skip
        assert node.metadata.labels[MODEL] == node.metadata.labels[MODEL_OLD] == "A100-SXM4-80GB"
        task.cancel()
        await scene.settle(1)
        await break_cards(scene)
        node = await scene.node()
        assert amounts(node, "koordinator.sh/") == {}
        assert MODEL in node.metadata.labels
        # The manager that sees the Device go is another one than saw it last.
        await scene.client.delete(Device, "node-001")
        await scene.settle(2)
        assert {MODEL, MODEL_OLD}.isdisjoint((await scene.node()).metadata.labels)

    perform(script)


async def break_cards(scene: Scene) -> None:
    device = await scene.client.get(Device, "node-001")
    cards = [{"type": card.type, "minor": card.minor, "health": False,
              "resources": {k: str(v) for k, v in card.resources.items()}}
             for card in device.spec.devices]  # fmt: skip
    await scene.client.patch(Device, "node-001", Patch.merge({"spec": {"devices": cards}}))
    await scene.settle(2)


def test_older_labels_go_with_their_gate() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await scene.world.run(scene.world.fleet(pools(1, gpus=PoolGPUs(count=1))))
        await scene.settle(30)
        await scene.stop()
        await scene.start(feature_gates="SyncOldGPULabels=false")
        await scene.settle(5)
        labels = (await scene.node()).metadata.labels
        assert MODEL in labels
        assert MODEL_OLD not in labels

    perform(script)


def test_fast_cpus_offer_more_and_are_amplified() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await scene.world.run(scene.world.fleet(pools(1)))
        await scene.settle(90)
        before = await scene.offers()
        await say(scene, {INFO: json.dumps({"cpuModel": "x", "hyperThreadEnabled": True})})
        models: dict[str, Any] = {"x": {"hyperThreadEnabledRatio": 1.5}}
        await scene.configure(ON, cpu_normalization_config={"enable": True, "ratioModel": models})
        await scene.settle(2)
        node = await scene.node()
        assert node.metadata.annotations[SPEED] == "1.50"
        assert json.loads(node.metadata.annotations[AMPLIFIED]) == {"cpu": 1.5}
        assert abs((await scene.offers())[0] - before[0] * 1.5) < 1000
        # Off again: no faster than others, which is not amplified.
        await scene.configure(ON, cpu_normalization_config={"enable": False})
        await scene.settle(2)
        node = await scene.node()
        assert node.metadata.annotations[SPEED] == "1.00"
        assert AMPLIFIED not in node.metadata.annotations
        assert abs((await scene.offers())[0] - before[0]) < 1000

    perform(script)


async def say(scene: Scene, annotations: dict[str, str]) -> None:
    change = Patch.merge({"metadata": {"annotations": annotations}})
    await scene.client.patch(NodeResourceTopology, "node-001", change)
    await scene.settle(1)


def test_a_plugin_that_is_off_leaves_its_resources_alone() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start(noderesource_plugins="*,-BatchResource")
        await scene.world.run(scene.world.fleet(pools(1)))
        own = {"status": {"capacity": {BATCH[0]: "7"}, "allocatable": {BATCH[0]: "7"}}}
        await scene.client.patch(Node, "node-001", Patch.merge(own), subresource="status")
        await scene.settle(90)
        assert await scene.offers() == (7,)
        assert await scene.offers(names=MID) is not None

    perform(script)


def test_who_is_faster_wins_and_nothing_is_lost() -> None:
    """Others change the node all the time: every change of theirs and of the manager's is there."""

    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await scene.world.run(scene.world.fleet(pools(1)))
        await scene.settle(30)
        for number in range(40):
            await scene.annotate("node-001", labels={f"n{number}": "x"})
            await scene.configure({**ON, "cpuReclaimThresholdPercent": 30 + number})
            await scene.settle(0.2)
        await scene.settle(5)
        node = await scene.node()
        assert {f"n{number}" for number in range(40)} <= node.metadata.labels.keys()
        assert abs((await scene.offers())[0] - 32_000 * 0.69) < 0.1 * 32_000

    perform(script)
