# SPDX-License-Identifier: Apache-2.0
"""A service wakes up among best-effort hogs, works, and sleeps again.

How fast suppression is, is counted in the agent's own rounds, from the first whose reading shows
the service at work: on a machine whose CPUs are taken away by others a second of the clock says
nothing of the agent.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.scenes import measure
from tests.scenes.cpulist import ids
from tests.scenes.daemon import Agent
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import World

_WATCH_SECONDS = 6.0
_RECOVER_SECONDS = 60.0
_STRATEGY = "cpusuppress"
# A reading that was taken while the service woke up shows a part of what it uses.
_AT_WORK = 0.8
_STEADY_ROUNDS, _MOST_ROUNDS = 4, 30
Rounds = list[dict[str, str]]


def run(world: World, policy: str, hogs: int = 0, service: int = 0, threshold: int = 65) -> Any:
    """The service's CPU alone and beside hogs; what best-effort pods were allowed when.

    Args:
        world: empty.
        policy: of suppression.
        hogs: processes that want a CPU each; 0 for as many as there are CPUs.
        service: processes that want 80 % of one; 0 for half as many as there are CPUs.
        threshold: percent of the node that all may use together.
    """
    loads = ["burn 80"] * (service or world.cpus // 2)
    cpu = str(len(loads))
    world.put_node()
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True,
            "cpuSuppressThresholdPercent": threshold,
            "cpuSuppressPolicy": policy,
        }
    )
    # Nothing is busy yet: an emulated machine starts programs slowly enough without.
    batch = world.runtime.start(pod("hogs", [], "BE"))
    agent = Agent(world)
    alone = world.runtime.start(pod("alone", loads, "LS", {"cpu": cpu}))
    time.sleep(1)
    without = measure.over(alone.pids, _WATCH_SECONDS)
    world.runtime.stop(alone)
    world.runtime.add(batch.containers[0], ["burn 100"] * (hogs or world.cpus))
    idle = _settled(world, agent, policy)
    before = len(agent.rounds(_STRATEGY))
    present = world.runtime.start(pod("service", loads, "LS", {"cpu": cpu}))
    agent.wait_rounds(_STRATEGY, _STEADY_ROUNDS)
    beside, hogs_beside = measure.together([present.pids, batch.pids], _WATCH_SECONDS)
    busy = _settled(world, agent, policy)
    rounds = agent.rounds(_STRATEGY)[before:]
    troubles = agent.troubles()
    world.runtime.stop(present)
    wait_until(
        "best-effort pods recover", _RECOVER_SECONDS,
        lambda: _allowed(world, policy) >= idle * 0.9,
    )  # fmt: skip
    return {
        "alone": without.got, "beside": beside.got, "hogs_beside": hogs_beside.got,
        "idle": idle, "busy": busy, "recovered": _allowed(world, policy),
        "rounds_to_fall": rounds_to_fall(rounds, world.cpus),
        "rounds": [_figures(each) for each in rounds], "troubles": troubles,
    }  # fmt: skip


def rounds_to_fall(rounds: Rounds, cpus: int) -> int | None:
    """How many rounds after the service showed all that it left was all that hogs were allowed.

    The first round that shows it counts as one; None where no round does, or they were allowed more
    to the end.
    """
    seen = [_figures(each) for each in rounds]
    steady = statistics.median(each["service"] for each in seen[-_STEADY_ROUNDS:])
    if not steady:
        return None
    first = next(i for i, each in enumerate(seen) if each["service"] >= _AT_WORK * steady)
    for i in range(first, len(seen)):
        # What differs by a hundredth of the node is left as it is; CPUs are whole.
        left = max(seen[first]["left"], seen[i]["left"]) + 0.01 * cpus
        if seen[i]["allowed"] <= (-(-left // 1) if "cpus" in rounds[i] else left):
            return i - first + 1
    return None


def _figures(seen: dict[str, str]) -> dict[str, float]:
    """Of a round, in CPUs: the service's use, what it left, and what hogs were allowed."""
    quota = "quota_us" in seen
    return {
        "service": float(seen["service_cores"]),
        "left": int(seen["measured_milli"]) / 1000,
        "allowed": int(seen["quota_us"]) / 100_000 if quota else float(len(ids(seen["cpus"]))),
    }


def _allowed(world: World, policy: str) -> float:
    """CPUs that best-effort pods may use."""
    tree = world.tree
    directory = tree.hierarchy.kubepods + "/kubepods-besteffort.slice"
    if policy == "cpuset":
        return float(len(ids(tree.cpus(directory))))
    quota = tree.number(directory, "cpu.cfs_quota_us")
    return world.cpus if quota < 0 else quota / 100_000


def _settled(world: World, agent: Agent, policy: str) -> float:
    """What they are allowed once it stays the same for some rounds."""
    seen: list[float] = []
    while len(seen) < _MOST_ROUNDS:
        agent.wait_rounds(_STRATEGY, 1)
        seen.append(_allowed(world, policy))
        last = seen[-_STEADY_ROUNDS:]
        if len(seen) > _STEADY_ROUNDS and max(last) - min(last) <= 0.05 * world.cpus:
            break
    return seen[-1]
