# SPDX-License-Identifier: Apache-2.0
"""The agent is killed at any moment, and another one takes over."""

from __future__ import annotations

import random
import time
from typing import Any

from tests.scenes.daemon import Agent
from tests.scenes.experiments.edits import STATUS
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import World

_FILES = ("cpu.cfs_quota_us", "cpu.shares", "memory.limit_in_bytes")


def run(world: World, kills: int, seed: int = 1) -> Any:
    """What all files say before, and after each kill."""
    last = str(world.cpus - 1)
    whole = {"cpu": "1", "memory": "64Mi"}
    world.runtime.start(
        pod(
            "bound",
            ["burn 10"],
            "LSR",
            whole,
            whole,
            annotations={STATUS: f'{{"cpuset":"{last}"}}'},
        )
    )
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
    batch = world.runtime.start(pod("batch", ["idle"], "BE", amounts, amounts))
    world.put_node()
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cfsQuota",
        }
    )  # fmt: skip
    agent = Agent(world)
    inner = batch.containers[0].directory
    wait_until(
        "the batch pod's memory limit", 60,
        lambda: world.tree.number(inner, "memory.limit_in_bytes") == 64 * 2**20,
    )  # fmt: skip
    time.sleep(5)
    before = _state(world)
    chance = random.Random(seed)
    for _ in range(kills):
        agent.kill()
        # While nobody looks, a limit is edited.
        world.tree.write(inner, memory__limit_in_bytes=60 * 2**20, cpu__shares=99)
        agent.start(wait=False)
        time.sleep(chance.uniform(0.5, 4.0))
    agent.kill()
    agent.start()
    wait_until("the state converges", 90, lambda: _state(world) == before)
    return {"before": before, "after": _state(world), "troubles": agent.troubles()}


def _state(world: World) -> dict[str, Any]:
    """What the pods' files say; suppression's own quota moves with usage and is left out."""
    found: dict[str, Any] = {}
    for one in world.runtime.pods:
        for name, directory in (
            (one.name, one.directory), (f"{one.name}/main", one.containers[0].directory)
        ):  # fmt: skip
            for resource in _FILES:
                found[f"{name} {resource}"] = world.tree.number(directory, resource)
            found[f"{name} cpus"] = world.tree.cpus(directory)
    return found
