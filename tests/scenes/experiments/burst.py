# SPDX-License-Identifier: Apache-2.0
"""Burst, normalization and suppression all at once, on pods that ask for all of it."""

from __future__ import annotations

import time
from typing import Any

from tests.scenes.daemon import Agent
from tests.scenes.runtime import Pod, pod, wait_until
from tests.scenes.world import World

_RATIO = 1.25
_ROUNDS_SECONDS, _PATIENCE_SECONDS = 15.0, 60.0


def run(world: World) -> Any:
    """A service that is throttled at its limit; every state of its files, sampled often."""
    limits = {"cpu": "400m", "memory": "64Mi"}
    service = world.runtime.start(pod("service", ["burn 60"], "LS", {"cpu": "200m"}, limits))
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
    world.runtime.start(pod("batch", ["burn 100"], "BE", amounts, amounts))
    world.put_node(annotations={"node.koordinator.sh/cpu-normalization-ratio": str(_RATIO)})
    world.put_slo(
        resourceUsedThresholdWithBE={
            "enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cfsQuota",
        },
        cpuBurstStrategy={
            "policy": "auto", "cpuBurstPercent": 200, "cfsQuotaBurstPercent": 300,
            "sharePoolThresholdPercent": 90,
        },
    )  # fmt: skip
    agent = Agent(world, gates="CPUBurst=true,CPUNormalization=true,BECPUSuppress=true")
    base = int(-(-40_000 // _RATIO))
    states = _watch(world, service, base)
    raised = states[-1]
    world.put_slo(
        resourceUsedThresholdWithBE={"enable": False}, cpuBurstStrategy={"policy": "none"}
    )
    wait_until(
        f"quota of {base} without burst, {state_of(world, service)}", 60,
        lambda: state_of(world, service)["quota"] == base,
    )  # fmt: skip
    time.sleep(2)
    return {
        "base": base,
        "raised": raised,
        "most": max(state["quota"] for state in states),
        "inconsistent": [state for state in states if not is_consistent(state)],
        "last": state_of(world, service),
        "troubles": agent.troubles(),
    }


def _watch(world: World, service: Pod, base: int) -> list[dict[str, Any]]:
    """States of some rounds; of more where nothing was raised, as on a node that others fill."""
    states: list[dict[str, Any]] = []
    start = time.monotonic()
    while (passed := time.monotonic() - start) < _PATIENCE_SECONDS:
        if passed > _ROUNDS_SECONDS and any(state["quota"] > base for state in states):
            break
        state = state_of(world, service)
        if not states or states[-1] != state:
            states.append(state)
        time.sleep(0.02)
    return states


def state_of(world: World, service: Pod) -> dict[str, int]:
    """Quotas and bursts of a pod and its container, all of one moment.

    Between two equal readings nothing was written: what one has read of a file still stood when
    the last was read. One reading alone may have a quota of before and a burst of after a write.
    """
    before = None
    while (state := _read(world, service)) != before:
        before = state
    return state


def _read(world: World, service: Pod) -> dict[str, int]:
    tree, inner = world.tree, service.containers[0].directory
    return {
        "pod_quota": tree.number(service.directory, "cpu.cfs_quota_us"),
        "quota": tree.number(inner, "cpu.cfs_quota_us"),
        "burst": tree.number(inner, "cpu.cfs_burst_us"),
        "pod_burst": tree.number(service.directory, "cpu.cfs_burst_us"),
    }


def is_consistent(state: dict[str, int]) -> bool:
    pod_quota, quota = state["pod_quota"], state["quota"]
    parent_holds = pod_quota < 0 or 0 < quota <= pod_quota
    within = quota < 0 or state["burst"] <= quota
    return parent_holds and within and (pod_quota < 0 or state["pod_burst"] <= pod_quota)
