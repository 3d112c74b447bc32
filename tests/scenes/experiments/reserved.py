# SPDX-License-Identifier: Apache-2.0
"""Part of the node is reserved: what best-effort pods and the shared pools still get."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.scenes.cpulist import ids
from tests.scenes.daemon import Agent
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import NODE, World

_PREFIX = "node.koordinator.sh/"


def run(world: World, reservation: dict[str, Any], policy: str) -> Any:
    """Pools as reported, and every set of CPUs or quota that best-effort pods had."""
    world.runtime.start(pod("service", ["burn 10"], "LS", {"cpu": "1"}))
    batch = world.runtime.start(pod("batch", ["burn 20"], "BE"))
    world.put_node(annotations={f"{_PREFIX}reservation": json.dumps(reservation)})
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": policy,
        }
    )  # fmt: skip
    agent = Agent(world)
    report = world.api.wait_for("NodeResourceTopology", NODE)["metadata"]["annotations"]
    directory = world.tree.hierarchy.kubepods + "/kubepods-besteffort.slice"
    wait_until(
        "best-effort pods are suppressed", 60,
        lambda: (world.tree.number(directory, "cpu.cfs_quota_us") > 0) == (policy == "cfsQuota"),
    )  # fmt: skip
    agent.wait_rounds("cpusuppress", 4)
    quotas, sets = [], []
    for _ in range(20):
        quotas.append(world.tree.number(directory, "cpu.cfs_quota_us"))
        sets.append(ids(world.tree.cpus(directory)))
        time.sleep(0.2)
    return {
        "pools": _pools(report, "cpu-shared-pools"),
        "be_pools": _pools(report, "be-cpu-shared-pools"),
        "told": json.loads(report.get(f"{_PREFIX}reservation", "{}")),
        "quota_cores": max(quotas) / 100_000,
        "sets": sorted({tuple(cpus) for cpus in sets}),
        "container": ids(world.tree.cpus(batch.containers[0].directory)),
        "cpus": world.cpus,
        "troubles": agent.troubles(),
    }


def _pools(annotations: dict[str, str], name: str) -> list[int]:
    pools = json.loads(annotations[f"{_PREFIX}{name}"])
    return sorted(cpu for pool in pools for cpu in ids(pool["cpuset"]))
