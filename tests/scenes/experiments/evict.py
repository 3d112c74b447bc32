# SPDX-License-Identifier: Apache-2.0
"""Memory runs short: which best-effort pods go, in which order, and how many."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from tests.scenes.daemon import Agent
from tests.scenes.runtime import Pod, pod, wait_until
from tests.scenes.world import World

_ROUNDS = 4
# Longer than a pause between two evictions.
_QUIET_ROUNDS = 8
_WATCH_SECONDS = 12.0


def run(world: World, unknown: bool = False) -> Any:
    """Three best-effort pods and a service; then another service takes memory.

    Of the pods with low priority one is larger. Neither is enough alone, both are.

    Args:
        world: empty.
        unknown: whether the agent must not know who runs when memory runs short, and then not how
            much is used.
    """
    start = world.runtime.start
    percent = world.memory_bytes // 100
    start(pod("small", [f"hold {8 * percent}"], "BE", priority=5000))
    large = start(pod("large", [f"hold {12 * percent}"], "BE", priority=5000))
    start(pod("important", [f"hold {14 * percent}"], "BE", priority=5900))
    start(pod("calm", [f"hold {5 * percent}"], "LS", {"memory": "100Mi"}))
    world.put_node()
    threshold = _used() // percent + 8
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True,
            "memoryEvictThresholdPercent": threshold,
            "memoryEvictLowerPercent": threshold - 13,
        }
    )
    agent = Agent(world, gates="BEMemoryEvict=true")
    agent.wait_rounds("memoryevict", _ROUNDS)
    before = world.runtime.running()
    greedy = pod("greedy", [f"hold {10 * percent}"], "LS", {"memory": "100Mi"})
    if unknown:
        return {"threshold": threshold, "found": _unknown(world, agent, greedy)}
    start(greedy)
    wait_until("enough are evicted", 60, lambda: _used() / percent < threshold)
    agent.wait_rounds("memoryevict", _QUIET_ROUNDS)
    return {
        "before": before,
        "order": _evicted(agent),
        "after": world.runtime.running(),
        "left": sorted(world.tree.all_pids(large.directory)),
        "used_percent": _used() / percent,
        "threshold": threshold,
    }


def _unknown(world: World, agent: Agent, greedy: Pod) -> dict[str, Any]:
    """The kubelet falls silent and memory runs short; then pods are known and memory is not."""
    percent = world.memory_bytes // 100
    world.kubelet.stop()
    wait_until("the pods are old", 90, lambda: "age" in agent.strategy("memoryevict")["error"])
    world.runtime.start(greedy)
    time.sleep(_WATCH_SECONDS)
    found = {"old pods": {**_look(world, agent), "used_percent": _used() / percent}}
    world.hide("/proc/meminfo")
    wait_until("nothing is measured", 60, lambda: "nodeMemoryBytes" not in agent.status()["usage"])
    world.kubelet.start()
    wait_until(
        "the pods are known", 60, lambda: "age" not in agent.strategy("memoryevict")["error"]
    )
    time.sleep(_WATCH_SECONDS)
    found["unknown usage"] = _look(world, agent)
    return found


def _look(world: World, agent: Agent) -> dict[str, Any]:
    return {
        "order": _evicted(agent),
        "running": world.runtime.running(),
        "last": str(agent.strategy("memoryevict")),
    }


def _evicted(agent: Agent) -> list[str]:
    """Names of the pods that the agent evicted, in its order."""
    text = agent.log.read_text(encoding="utf-8")
    return re.findall(r"evicting.*pod=default/(\w+)", text)


def _used() -> int:
    figures = {
        line.split(":")[0]: int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        if line.split()[1].isdigit()
    }
    return figures["MemTotal"] - figures["MemAvailable"]
