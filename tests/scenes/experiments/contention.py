# SPDX-License-Identifier: Apache-2.0
"""How long a service waits for a CPU while best-effort processes leave less and less of them free.

No agent runs: what is seen is the kernel's scheduler, which a simulation of busy machines is held
against. ``python -m tests.scenes.record contention`` keeps the figures of the guest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from koord.kernels.cgroup_path import KubeQos, qos_directory
from tests.scenes import measure
from tests.scenes.cpulist import ids
from tests.scenes.runtime import Pod, pod
from tests.scenes.world import World

_SETTLE_SECONDS = 0.5
_PERIOD_US = 100_000
_SERVICE_SHARES, _BATCH_SHARES = 1024, 2
_PACED_A_CPU = 2


class Condition(NamedTuple):
    """How best-effort processes are held.

    Attributes:
        shares: of their class; that of the service has 1024.
        by_quota: they want a CPU each, within a quota as suppression sets it; else two for each CPU
            work a part of every 10 ms.
    """

    shares: int
    by_quota: bool


CONDITIONS = {
    "usual weight, paced": Condition(_SERVICE_SHARES, by_quota=False),
    "batch weight, paced": Condition(_BATCH_SHARES, by_quota=False),
    "batch weight, quota": Condition(_BATCH_SHARES, by_quota=True),
}
FREE_PERCENT = (30, 20, 10, 5, 0, -50)


def run(
    world: World,
    cpus: str = "2,4",
    service_percent: Sequence[int] = (40, 40),
    free_percent: Sequence[int] = FREE_PERCENT,
    conditions: Sequence[str] = tuple(CONDITIONS),
    windows: int = 5,
) -> list[dict[str, Any]]:
    """A point for each condition and each part of the CPUs that is to be left free.

    Args:
        world: on cgroup v2, where one write moves all pods to the CPUs.
        cpus: what all pods share.
        service_percent: of a CPU, wanted by each process of the service.
        free_percent: of the CPUs, left by best-effort processes if all get what they want; where it
            is negative they want more than there is.
        conditions: of :data:`CONDITIONS`.
        windows: of a second, in which a point is watched. The middle of them counts: CPUs that are
            taken from the guest for a moment look like work of whoever runs on them.

    Returns:
        Of each point the condition, what was wanted and granted in CPUs, weights as the kernel
        says them, the share of the CPUs that nobody used, and the share of its time on a run queue
        that the service waited.
    """
    tree, count = world.tree, len(ids(cpus))
    tree.write(tree.hierarchy.kubepods, cpuset__cpus=cpus)
    wanted = sum(service_percent) / 100
    loads = [f"burn {percent}" for percent in service_percent]
    service = world.runtime.start(pod("service", loads, "LS", {"cpu": str(wanted)}))
    found = []
    for name in conditions:
        for free in free_percent:
            left = round(count * (100 - free) / 100 - wanted, 3)
            hogs = _start_hogs(world, CONDITIONS[name], count, left)
            time.sleep(_SETTLE_SECONDS)
            found.append(
                {
                    "condition": name,
                    "cpus": count,
                    "wanted_cpu": wanted,
                    "be_wanted_cpu": left,
                    **_watched(service, hogs, count, windows),
                    "service_weight": _weight(world, KubeQos.BURSTABLE),
                    "be_weight": _weight(world, KubeQos.BEST_EFFORT),
                }
            )
            world.runtime.stop(hogs)
    return found


def _start_hogs(world: World, condition: Condition, cpus: int, wanted: float) -> Pod:
    """Best-effort processes that want so many CPUs together."""
    processes = cpus if condition.by_quota else cpus * _PACED_A_CPU
    percent = 100 if condition.by_quota else round(100 * wanted / processes)
    hogs = world.runtime.start(pod("hogs", [f"burn {percent}"] * processes, "BE"))
    # The runtime has given the classes the shares that a kubelet does.
    quota = round(wanted * _PERIOD_US) if condition.by_quota else -1
    tree = world.tree
    tree.write(_class(world, KubeQos.BURSTABLE), cpu__shares=_SERVICE_SHARES)
    tree.write(
        _class(world, KubeQos.BEST_EFFORT), cpu__shares=condition.shares, cpu__cfs_quota_us=quota
    )
    return hogs


def _watched(service: Pod, hogs: Pod, cpus: int, windows: int) -> dict[str, float]:
    """Each figure's median over windows."""
    seen = [measure.together([service.pids, hogs.pids], 1.0) for _ in range(windows)]
    rows = {
        "free_cpu_share": [max(0.0, 1 - (got.got + taken.got) / cpus) for got, taken in seen],
        "granted_cpu": [got.got for got, _ in seen],
        "run_delay_share": [1 - got.part for got, _ in seen],
        "be_granted_cpu": [taken.got for _, taken in seen],
    }
    return {name: round(statistics.median(row), 4) for name, row in rows.items()}


def _weight(world: World, qos: KubeQos) -> int:
    return int(world.tree.text(_class(world, qos), "cpu.shares"))


def _class(world: World, qos: KubeQos) -> str:
    return qos_directory(world.tree.driver, qos).strip("/")
