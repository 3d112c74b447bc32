# SPDX-License-Identifier: Apache-2.0
"""Best-effort pods beside a pod that has CPUs to itself, while the load goes up and down."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.scenes.cpulist import ids
from tests.scenes.daemon import Agent
from tests.scenes.experiments.edits import STATUS
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import World


def run(world: World, exclusive: str) -> Any:
    """Every set of CPUs that best-effort cgroups had, seen from when the agent is ready."""
    count = str(len(ids(exclusive)))
    whole = {"cpu": count, "memory": "64Mi"}
    alone = world.runtime.start(
        pod("alone", ["burn 10"], "LSE", whole, whole,
            annotations={STATUS: json.dumps({"cpuset": exclusive})})
    )  # fmt: skip
    hogs = world.runtime.start(pod("hogs", ["burn 50"] * 4, "BE"))
    world.put_node()
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset",
        }
    )  # fmt: skip
    agent = Agent(world)
    root = world.tree.hierarchy.kubepods + "/kubepods-besteffort.slice"
    taken = set(ids(exclusive))
    wait_until(
        "best-effort pods leave the exclusive CPUs", 60,
        lambda: not taken & set(ids(world.tree.cpus(root))),
    )  # fmt: skip
    places = [root, hogs.directory, hogs.containers[0].directory]
    sizes, overlaps = [], []
    for load in (0, 3):
        service = world.runtime.start(pod("service", ["burn 80"] * load or ["idle"], "LS"))
        for _ in range(25):
            for place in places:
                cpus = ids(world.tree.cpus(place))
                overlaps += sorted(taken & set(cpus))
            sizes.append(len(ids(world.tree.cpus(root))))
            time.sleep(0.2)
        world.runtime.stop(service)
    return {
        "overlaps": overlaps,
        "least": min(sizes),
        "most": max(sizes),
        "own": world.tree.cpus(alone.containers[0].directory),
        "troubles": agent.troubles(),
    }
