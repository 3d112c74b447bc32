# SPDX-License-Identifier: Apache-2.0
"""The node-resource controller with simulated agents: what they report becomes batch resources."""

from __future__ import annotations

import asyncio
import json

from koord.api import NodeMetric, NodeResourceTopology, Pod
from koord.api.timestamps import seconds_text
from koord.kernels.quantity import Quantity
from koord.kube.patches import Patch
from koord.simulator.nodes.fleet import Fleet
from tests.controllers.manager.noderesource.scene import BATCH, MID, ON, Scene, perform, pools

ORIGIN = "node.koordinator.sh/originExtendedAllocatable"
HELD = "node.koordinator.sh/thirdPartyAllocations"
STRATEGY = "node.koordinator.sh/colocation-strategy"
AMPLIFIED = "node.koordinator.sh/resource-amplification-ratio"


async def reporting(scene: Scene, count: int = 1) -> tuple[Fleet, asyncio.Task[None]]:
    """A fleet whose agents have reported."""
    fleet = scene.world.fleet(pools(count))
    task = await scene.world.run(fleet)
    await scene.settle(90)
    return fleet, task


def test_batch_follows_load_goes_when_reports_stop_and_comes_back() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({**ON, "degradeTimeMinutes": 3})
        await scene.start()
        _, task = await reporting(scene)
        idle = await scene.offers()
        # 32 cores, of which 60 % may be used, less what the system takes.
        assert 18_000 < idle[0] < 19_200
        for number in range(4):
            await scene.world.pod(f"web-{number}", "node-001")
        await scene.settle(600)
        busy = await scene.offers()
        assert busy[0] < idle[0] - 1000
        for number in range(4):
            await scene.client.delete(Pod, f"web-{number}", "default", grace_period_seconds=0)
        await scene.settle(600)
        assert (await scene.offers())[0] > busy[0] + 1000
        assert await scene.offers(names=MID) is not None
        # Agents and kubelets stop; nobody says anything from now on.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        told = (await scene.report("node-001")).status.update_time
        assert told is not None
        stale = told.timestamp() + 180
        await scene.settle(stale - scene.world.clock.wall_seconds())
        assert await scene.offers() is not None
        await scene.settle(2)
        assert await scene.offers() is None
        assert await scene.offers(names=MID) is None
        await scene.world.run(scene.world.fleet(pools(1)))
        await scene.settle(90)
        assert await scene.offers() is not None

    perform(script)


def test_a_second_start_writes_nothing() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await reporting(scene, 3)
        await scene.settle(120)
        await scene.stop()
        assert "PATCH node-003/status" in scene.writes
        scene.writes.clear()
        await scene.start()
        await scene.settle(20)
        assert scene.writes == []

    perform(script)


def test_small_moves_are_written_once_in_a_while_and_large_ones_at_once() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({**ON, "updateTimeThresholdSeconds": 300})
        await scene.start()
        _, task = await reporting(scene)
        await scene.settle(600)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await scene.settle(301)
        scene.writes.clear()
        before = await scene.offers()
        await use(scene, cores=0.5)
        await scene.settle(5)
        assert (await scene.offers(), scene.writes) == (before, [])
        await scene.settle(301)
        assert (await scene.offers())[0] != before[0]
        assert scene.writes.count("PATCH node-001/status") == 1
        await use(scene, cores=10)
        await scene.settle(2)
        assert (await scene.offers())[0] < before[0] - 8000

    perform(script)


async def use(scene: Scene, cores: float, name: str = "node-001") -> None:
    """The system of a machine uses so much from now on, as its agent tells."""
    metric = await scene.report(name)
    assert metric.status.node_metric is not None
    usage = metric.status.node_metric.system_usage
    assert usage is not None
    used = {"resources": {"cpu": str(cores), "memory": str(usage.resources["memory"])}}
    now = scene.world.clock.wall_seconds()
    change = {"nodeMetric": {"systemUsage": used}, "updateTime": seconds_text(now)}
    await scene.client.patch(
        NodeMetric, name, Patch.merge({"status": change}), subresource="status"
    )


def test_what_third_parties_hold_comes_off() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await reporting(scene)
        before = await scene.offers()
        held = {"name": "yarn", "priority": "koord-batch",
                "resources": {BATCH[0]: "5000", BATCH[1]: "10Gi"}}  # fmt: skip
        await scene.annotate("node-001", annotations={HELD: json.dumps({"allocations": [held]})})
        await scene.settle(2)
        cpu, memory = await scene.offers()
        origin = json.loads((await scene.node()).metadata.annotations[ORIGIN])["resources"]
        assert Quantity.parse(origin[BATCH[0]]).value() == cpu + 5000
        assert Quantity.parse(origin[BATCH[1]]).value() == memory + (10 << 30)
        assert cpu < before[0] - 4000

    perform(script)


def test_colocation_is_switched_by_the_configmap_for_all_or_some() -> None:
    async def script(scene: Scene) -> None:
        await scene.start()
        await reporting(scene, 2)
        assert await scene.offers() is None
        await scene.configure(ON)
        await scene.settle(2)
        assert await scene.offers("node-001") is not None
        await scene.annotate("node-001", labels={"batch": "no"})
        selector = {"matchLabels": {"batch": "no"}}
        some = {"nodeSelector": selector, "enable": False, "name": "some"}
        await scene.configure({**ON, "nodeConfigs": [some]})
        await scene.settle(2)
        assert await scene.offers("node-001") is None
        assert await scene.offers("node-002") is not None
        # A node cannot switch on what is off for all.
        await scene.annotate("node-002", annotations={STRATEGY: '{"enable":true}'})
        await scene.configure({"enable": False})
        await scene.settle(2)
        assert await scene.offers("node-002") is None
        await scene.configure(ON)
        await scene.settle(2)
        assert await scene.offers("node-001") is not None

    perform(script)


def test_a_wrong_section_is_told_of_and_changes_nothing() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await reporting(scene)
        before = await scene.offers()
        await scene.configure("{", cpu_normalization_config='{"enable": "perhaps"}')
        await scene.settle(5)
        assert await scene.offers() == before
        assert len(await scene.events("ColocationCfgUnmarshalFailed")) == 1
        assert len(await scene.events("CPUNormalizationCfgUnmarshalFailed")) == 1
        await scene.configure({**ON, "cpuReclaimThresholdPercent": 30})
        await scene.settle(2)
        assert (await scene.offers())[0] < before[0] * 0.6

    perform(script)


def test_a_section_that_was_wrong_at_the_start_keeps_offers_until_reports_are_old() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({**ON, "degradeTimeMinutes": 3})
        await scene.start()
        _, task = await reporting(scene)
        await scene.annotate("node-001", annotations={AMPLIFIED: '{"cpu":"1.50"}'})
        await scene.configure("{")
        await scene.stop()
        before, zones = await scene.offers(), await zone_cpu(scene)
        assert before is not None
        assert sum(zones) > 0
        await scene.start()
        # Agents go on: their reports count, but nobody knows what to make of them.
        await use(scene, cores=10)
        await scene.settle(1800)
        assert (await scene.offers(), await zone_cpu(scene)) == (before, zones)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        told = (await scene.report("node-001")).status.update_time
        assert told is not None
        await scene.settle(told.timestamp() + 900 - scene.world.clock.wall_seconds())
        assert (await scene.offers(), await zone_cpu(scene)) == (before, zones)
        await scene.settle(2)
        assert (await scene.offers(), await scene.offers(names=MID)) == (None, None)
        assert await zone_cpu(scene) == [0, 0]
        # What no report speaks of stays as it is.
        assert (await scene.node()).metadata.annotations[AMPLIFIED] == '{"cpu":"1.50"}'
        await scene.world.run(scene.world.fleet(pools(1)))
        await scene.settle(90)
        assert await scene.offers() is None
        await scene.configure(ON)
        await scene.settle(2)
        assert await scene.offers() is not None
        assert sum(await zone_cpu(scene)) > 0

    perform(script)


def test_zones_offer_what_the_node_does() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure(ON)
        await scene.start()
        await reporting(scene)
        zones = await zone_cpu(scene)
        assert len(zones) == 2
        assert abs(sum(zones) - (await scene.offers())[0]) <= 1000
        nrt = await scene.client.get(NodeResourceTopology, "node-001")
        for zone in nrt.zones:
            names = [each.name for each in zone.resources]
            assert names == sorted(names)
        await scene.configure({"enable": False})
        await scene.settle(2)
        assert await zone_cpu(scene) == [0, 0]

    perform(script)


async def zone_cpu(scene: Scene) -> list[int]:
    nrt = await scene.client.get(NodeResourceTopology, "node-001")
    found = [r for zone in nrt.zones for r in zone.resources if r.name == BATCH[0]]
    for each in found:
        assert each.capacity == each.allocatable == each.available
    return [each.available.value() for each in found if each.available is not None]
