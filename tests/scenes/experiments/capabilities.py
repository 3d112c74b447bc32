# SPDX-License-Identifier: Apache-2.0
"""What koordlet does that a process without capabilities may not."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Any

from koord.agent.host.cgroup_driver import ask_kubelet
from koord.agent.host.kernel.perf import PerfCounters
from koord.agent.host.kernel.resctrl_mount import mount
from tests.scenes.capabilities import call_confined, permitted
from tests.scenes.daemon import Agent
from tests.scenes.runtime import Pod, pod, wait_until
from tests.scenes.world import World

NOBODY = 65534
# What the runtime gives a container, and what its pod asks for.
RAISED, LOWERED = (950, 970), (0, -500)
_SECONDS = 60.0
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def run(world: World) -> Any:
    """One look at each act: those of the program by what it changes, those of a call by its word.

    The containers are another user's, and koordlet is to kill one of them and to have the kernel
    kill the other later than the runtime said.
    """
    whole = {"cpu": "100m", "memory": "100Mi"}
    raised = pod("raised", ["idle"], "LS", {"memory": "100Mi"})
    lowered = pod("lowered", ["idle"], "LS", whole, whole)
    percent = world.memory_bytes // 100
    batch = pod("batch", [f"hold {20 * percent}"], "BE", priority=5000)
    for each, scores in ((raised, RAISED), (lowered, LOWERED), (batch, RAISED)):
        container = each.containers[0]
        container.user, container.oom_score = NOBODY, scores[0]
        if each is not batch:
            each.annotations["koordinator.sh/oom-score-adj"] = str(scores[1])
        world.runtime.start(each)
    world.put_node()
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True,
            "memoryEvictThresholdPercent": 15,
            "memoryEvictLowerPercent": 10,
        }
    )
    agent = Agent(world, gates="BEMemoryEvict=true,OOMScoreAdj=true")
    wait_until("batch is to go", _SECONDS, lambda: _evictions(agent))
    for each, wanted in ((raised, RAISED[1]), (lowered, LOWERED[1])):
        wait_until("a score is set or refused", _SECONDS, partial(_scored, agent, each, wanted))
    agent.wait_rounds("memoryevict", 2)
    return {
        "kill": not batch.running,
        "raise": _score(raised) == RAISED[1],
        "lower": _score(lowered) == LOWERED[1],
        "paranoid": int(_PARANOID.read_text(encoding="ascii")),
        "absent": sorted(set(_held(world)) - permitted()),
        "refused": _refused(agent),
        "driver": _driver(world),
        "counters": call_confined(_held(world), lambda: _count(world)),
        "mount": call_confined(_held(world), lambda: _mount(world)),
    }


def _held(world: World) -> list[str]:
    return list(world.capabilities or [])


def _evictions(agent: Agent) -> list[str]:
    return [line for line in agent.lines() if "evicting" in line and "default/batch" in line]


def _scored(agent: Agent, service: Pod, wanted: int) -> bool:
    refused = any(service.directory in each for each in _refused(agent))
    return refused or _score(service) == wanted


def _score(service: Pod) -> int:
    path = Path(f"/proc/{service.pids[0]}/oom_score_adj")
    return int(path.read_text(encoding="ascii"))


def _refused(agent: Agent) -> list[str]:
    """What the agent says that it was refused."""
    failures = [f"{each['directory']}: {each['error']}" for each in agent.status()["failures"]]
    return failures + [line for line in agent.lines() if "Operation not permitted" in line]


def _driver(world: World) -> str:
    """What is found out of who listens on a kubelet's port: here this process, which may all."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]

        def ask() -> str:
            listening.close()  # the confined process's own: else it would find itself
            return ask_kubelet("/proc", port)

        return call_confined(_held(world), ask)


def _count(world: World) -> str:
    with PerfCounters(str(world.tree.parts[0]), [0]):
        return "counts"


def _mount(world: World) -> str:
    mount("tmpfs", str(world.folder), 0)
    return "mounted"
