# SPDX-License-Identifier: Apache-2.0
"""Somebody edits a container's CPUs and limits by hand."""

from __future__ import annotations

import json
from typing import Any

from tests.scenes.daemon import Agent
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import World

_FORCE_SECONDS = 5
STATUS = "scheduling.koordinator.sh/resource-status"


def run(world: World) -> Any:
    """A pod with CPUs of its own and a batch pod; what comes back and after how long."""
    last = str(world.cpus - 1)
    bound = world.runtime.start(
        pod(
            "bound", ["burn 10"], "LSR", {"cpu": "1", "memory": "64Mi"},
            {"cpu": "1", "memory": "64Mi"}, annotations={STATUS: json.dumps({"cpuset": last})},
        )
    )  # fmt: skip
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
    batch = world.runtime.start(pod("batch", ["burn 10"], "BE", amounts, amounts))
    world.put_node()
    world.put_slo(resourceUsedThresholdWithBE={"enable": False})
    agent = Agent(world, force_seconds=_FORCE_SECONDS)
    tree = world.tree
    of_bound, of_batch = bound.containers[0].directory, batch.containers[0].directory

    def state() -> dict[str, Any]:
        return {
            "cpus": tree.cpus(of_bound),
            "bound_quota": tree.number(of_bound, "cpu.cfs_quota_us"),
            "quota": tree.number(of_batch, "cpu.cfs_quota_us"),
            "pod_quota": tree.number(batch.directory, "cpu.cfs_quota_us"),
            "shares": tree.number(of_batch, "cpu.shares"),
            "memory": tree.number(of_batch, "memory.limit_in_bytes"),
        }

    wanted = {
        "cpus": last, "bound_quota": -1, "quota": 50_000, "pod_quota": 50_000,
        "memory": 64 * 2**20,
    }  # fmt: skip
    wait_until(
        f"the agent's values {wanted}, {state()}", 60, lambda: state().items() >= wanted.items()
    )
    before = state()
    every = f"0-{world.cpus - 1}"
    tree.write(of_bound, cpuset__cpus=every)
    tree.write(of_batch, cpu__cfs_quota_us=20_000, cpu__shares=77)
    tree.write(of_batch, memory__limit_in_bytes=60 * 2**20)
    edited = state()
    back = wait_until(f"what was edited comes back to {before}", 60, lambda: state() == before)
    return {
        "before": before,
        "edited": edited,
        "changed": ["cpus", "quota", "shares", "memory"],
        "back_after_reconciles": back / _FORCE_SECONDS,
        "after": state(),
        "troubles": agent.troubles(),
    }
