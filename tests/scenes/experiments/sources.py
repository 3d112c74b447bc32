# SPDX-License-Identifier: Apache-2.0
"""The agent's sources go away or talk nonsense; pods are under suppression meanwhile."""

from __future__ import annotations

import time
from typing import Any

from tests.scenes.daemon import Agent
from tests.scenes.kubelet import Mood
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import World

_LOOK_SECONDS = 4.0


def run(world: World) -> Any:
    """For each trouble: who still runs, and what the agent still does."""
    cpu = str(world.cpus)
    world.runtime.start(pod("service", ["burn 50"], "LS", {"cpu": cpu}))
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
    batch = world.runtime.start(pod("batch", ["burn 20"], "BE", amounts, amounts))
    world.put_node()
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cfsQuota",
            "memoryEvictThresholdPercent": 95,
        }
    )  # fmt: skip
    agent = Agent(world, gates="BEMemoryEvict=true", force_seconds=2)
    inner = batch.containers[0].directory

    def limited() -> bool:
        return world.tree.number(inner, "memory.limit_in_bytes") == 64 * 2**20

    wait_until("the batch pod's limit", 60, limited)
    found = {}
    for mood in (Mood.HANG, Mood.ERROR, Mood.GARBAGE, Mood.EMPTY):
        world.kubelet.set(mood)
        time.sleep(_LOOK_SECONDS)
        found[str(mood)] = _look(world, agent, inner)
        world.kubelet.set(Mood.WELL)
    world.kubelet.stop()
    time.sleep(_LOOK_SECONDS)
    found["refused"] = _look(world, agent, inner)
    world.kubelet.start()
    world.api.pause()
    time.sleep(_LOOK_SECONDS)
    found["api hangs"] = _look(world, agent, inner)
    world.api.resume()
    world.api.kill()
    time.sleep(_LOOK_SECONDS)
    found["api gone"] = _look(world, agent, inner)
    world.api.start()
    world.hide("/proc/stat")
    wait_until(
        "nothing is measured", 60,
        lambda: "node_cpu_usage" in agent.strategy("cpusuppress")["error"],
    )  # fmt: skip
    found["nothing measured"] = _look(world, agent, inner, measured=False)
    world.show()
    world.put_slo(resourceUsedThresholdWithBE={"enable": False})
    quota = world.tree.hierarchy.kubepods + "/kubepods-besteffort.slice"
    wait_until("suppression ends", 90, lambda: world.tree.number(quota, "cpu.cfs_quota_us") == -1)
    return {"found": found, "quota_in_the_end": world.tree.number(quota, "cpu.cfs_quota_us")}


def _look(world: World, agent: Agent, inner: str, measured: bool = True) -> dict[str, Any]:
    """Edits a limit by hand: an agent that lives puts it back from what it knows.

    While usage is measured, suppression goes on too.
    """
    if measured:
        wait_until("a round of suppression", 30, lambda: not agent.strategy("cpusuppress")["error"])
    world.tree.write(inner, memory__limit_in_bytes=60 * 2**20)
    back = wait_until(
        "a limit comes back", 30,
        lambda: world.tree.number(inner, "memory.limit_in_bytes") == 64 * 2**20,
    )  # fmt: skip
    return {
        "running": world.runtime.running(),
        "alive": agent.alive,
        "error": agent.strategy("cpusuppress")["error"],
        "back": back,
        "quota": world.tree.number(
            world.tree.hierarchy.kubepods + "/kubepods-besteffort.slice", "cpu.cfs_quota_us"
        ),
        "refused": world.kubelet.refused,
    }
