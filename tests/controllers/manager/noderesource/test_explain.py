# SPDX-License-Identifier: Apache-2.0
"""What the manager answers about a node, and that it is what it has written there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tests.controllers.manager.noderesource.scene import BATCH, MID, ON, Scene, perform, pools

HELD = "node.koordinator.sh/thirdPartyAllocations"


def asked(scene: Scene, name: str = "node-001") -> Any:
    """The answer as it goes over the wire."""
    return msgspec.json.decode(msgspec.json.encode(scene.controller.explain(name)))


def test_the_sums_are_what_the_node_shows() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({**ON, "midUnallocatedPercent": 10})
        await scene.start()
        await scene.world.run(scene.world.fleet(pools(1)))
        labels = {"koordinator.sh/qosClass": "LSE"}
        await scene.world.pod("web", "node-001", metadata={"labels": labels})
        await scene.world.pod(
            "spark", "node-001", metadata={"labels": {"koordinator.sh/qosClass": "BE"}}
        )
        held = {"name": "yarn", "priority": "koord-batch", "resources": {BATCH[0]: "1000"}}
        await scene.annotate("node-001", annotations={HELD: json.dumps({"allocations": [held]})})
        await scene.settle(900)
        answer = asked(scene)
        account = answer["account"]
        for pair, names in ((account["batch"], BATCH), (account["mid"], MID)):
            for one in pair.values():
                assert sum(line["amount"] for line in one["lines"]) == one["offered"]
            assert answer["shown"] == answer["shown"] | dict(
                zip(names, await scene.offers(names=names), strict=True)
            )
        [pod] = account["batch"]["cpu"]["pods"]
        assert (pod["pod"], pod["by"], pod["amount"]) == ("default/web", "notLent", 2000)
        assert answer["thirdParties"] == [{"name": "yarn", "cpuMilli": 1000, "memoryBytes": 0}]
        # What is written lags behind what is offered by no more than the threshold.
        offered = account["batch"]["cpu"]["offered"]
        shown = answer["shown"][BATCH[0]]
        assert abs(shown - (offered - 1000)) <= 0.1 * shown
        assert [zone["number"] for zone in account["zones"]] == [0, 1]

    perform(script)


def test_usage_is_told_by_class() -> None:
    async def script(scene: Scene) -> None:
        await scene.start()
        await scene.world.run(scene.world.fleet(pools(1)))
        await scene.world.pod("web", "node-001")
        labels = {"koordinator.sh/qosClass": "BE"}
        await scene.world.pod("spark", "node-001", metadata={"labels": labels})
        await scene.settle(600)
        usage = {each["what"]: each for each in asked(scene)["usage"]}
        assert list(usage) == ["node", "system", "LS", "BE"]
        parts = sum(usage[what]["cpuMilli"] for what in ("system", "LS", "BE"))
        assert abs(usage["node"]["cpuMilli"] - parts) <= 3
        assert (usage["LS"]["pods"], usage["BE"]["pods"]) == (1, 1)
        assert usage["LS"]["requestCpuMilli"] == 2000
        assert usage["system"]["pods"] is None

    perform(script)


def test_the_last_hour_is_remembered_with_its_gaps() -> None:
    async def script(scene: Scene) -> None:
        await scene.configure({**ON, "degradeTimeMinutes": 3})
        await scene.start()
        begun = scene.world.clock.wall_seconds()
        task = await scene.world.run(scene.world.fleet(pools(1)))
        await scene.settle(300)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await scene.settle(400)
        past = asked(scene)["history"]
        assert begun <= past["sinceSeconds"] <= begun + 60
        reasons = [step["reason"] for step in past["steps"]]
        assert reasons[0] == "noMetric"
        assert reasons[-1] == "expired"
        assert "" in reasons
        answer = asked(scene)
        assert answer["account"]["reason"] == "expired"
        assert answer["account"]["batch"] is None
        assert set(answer["shown"].values()) == {None}
        # An hour later what was in force then is all that is known, and it is told.
        await scene.settle(7200)
        past = asked(scene)["history"]
        assert len(past["steps"]) == 1
        assert past["sinceSeconds"] == scene.world.clock.wall_seconds() - 3600

    perform(script)


def test_a_node_that_is_not_there() -> None:
    async def script(scene: Scene) -> None:
        await scene.start()
        with pytest.raises(KeyError, match="cannot find node nobody"):
            scene.controller.explain("nobody")

    perform(script)
