# SPDX-License-Identifier: Apache-2.0
"""Tenants of the node attack koordlet; a good tenant's pods keep what they have."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.hostile.node_pods import FORGED_LINE, NodePods, claims
from tests.scenes.cpulist import ids
from tests.scenes.daemon import Agent
from tests.scenes.pod_sources import KubeletPods, ServerPods
from tests.scenes.real_apiserver import RealApiServer
from tests.scenes.runtime import Pod, pod, wait_until
from tests.scenes.world import World

STATUS = "scheduling.koordinator.sh/resource-status"
# All that obeys pods, whatever is on by default.
_GATES = ",".join(
    f"{name}=true"
    for name in (
        "CPUBurst", "CgroupReconcile", "OOMScoreAdj", "GPUEnvInject", "RDMADeviceInject",
        "CoreSched", "Resctrl",
    )
)  # fmt: skip
_ATTACKS = 3
_ROUND_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
_QUOTA = 50_000
# More than any limit here.
_FREE = 2**62
_SLO = {"resourceUsedThresholdWithBE": {"enable": False}}
_PATIENCE_SECONDS = 60.0


class _Watcher(threading.Thread):
    """Looks at what the good pods have, again and again.

    Attributes:
        less: what a pod once had less of than in the beginning, each once.
    """

    def __init__(self, world: World, pods: list[Pod]) -> None:
        super().__init__(daemon=True)
        self._world, self._pods = world, pods
        self._ending = threading.Event()
        self.before = self._values()
        self.less: list[str] = []
        self.looks = 0

    def run(self) -> None:
        """See :class:`threading.Thread`."""
        while not self._ending.wait(_LOOK_SECONDS):
            self.looks += 1
            for name, value in self._values().items():
                if value < self.before[name]:
                    told = f"{name}: {value}, before {self.before[name]}"
                    if told not in self.less:
                        self.less.append(told)

    def stop(self) -> None:
        """Ends it."""
        self._ending.set()
        self.join()

    def _values(self) -> dict[str, int]:
        """Of every good pod and its container, each the larger the better."""
        tree, found = self._world.tree, {}
        for each in self._pods:
            for directory in (each.directory, each.containers[0].directory):
                where = f"{each.name} {directory.rpartition('/')[2][:12]}"
                quota = tree.number(directory, "cpu.cfs_quota_us")
                found[f"{where} quota"] = _FREE if quota < 0 else quota
                found[f"{where} shares"] = tree.number(directory, "cpu.shares")
                found[f"{where} memory"] = tree.number(directory, "memory.limit_in_bytes")
            inner = each.containers[0].directory
            found[f"{each.name} cpus"] = len(ids(tree.cpus(inner)))
            score = Path(f"/proc/{each.pids[0]}/oom_score_adj").read_text(encoding="ascii")
            found[f"{each.name} OOM score"] = -int(score)
        return found


def run(world: World, seed: int, seconds: float, server: str = "embedded") -> Any:
    """Quiet for a while, then three attacks of a round a second, with quiet after each."""
    if server == "real":
        world.api_server = RealApiServer
    own = str(world.cpus - 1)
    world.put_node()
    pods = ServerPods(world) if server == "real" else KubeletPods(world)
    good = [pods.start(each) for each in _good(own)]
    hostile = NodePods(seed, own, good[0].uid)
    world.put_slo(**_SLO)
    agent = Agent(world, _GATES, force_seconds=5, flags=pods.flags)
    _wait_for_hooks(world, good, own)
    watcher = _Watcher(world, good)
    watcher.start()
    attack = _Attack(world, pods, agent, hostile)
    figures: dict[str, Any] = {"quiet": attack.quiet(5.0), "memory": [attack.resident()]}
    figures["attacked"], figures["ignored"] = [], []
    thieves = [pods.start(each) for each in _thieves(own)]
    for _ in range(_ATTACKS):
        took, most = attack.run(seconds)
        figures["attacked"] += took
        figures["ignored"] += agent.status()["ignoredAnnotations"]
        pods.tell([])
        attack.quiet(3.0)
        figures["memory"] += [most, attack.resident()]
    figures["thieves"] = [world.tree.cpus(each.containers[0].directory) for each in thieves]
    figures["refusals"] = pods.refusals()
    watcher.stop()
    pods.mistakes(attack.check)
    world.put_slo(**_SLO)
    _wait_for_hooks(world, good, own)
    return {
        **figures,
        "own": world.tree.cpus(good[0].containers[0].directory),
        "less": watcher.less,
        "looks": watcher.looks,
        "alive": agent.alive,
        "health": attack.health,
        "asked": sorted(set(world.kubelet.served)),
        "may ask": list(pods.asked),
        "running": world.runtime.running(),
        "kinds": hostile.kinds,
        "log_bytes": agent.log.stat().st_size,
        "forged_lines": [line for line in agent.lines() if line.startswith(FORGED_LINE)],
        "tracebacks": [line for line in agent.lines() if "Traceback" in line],
    }


class _Attack:
    """Rounds of a tenant's pods, and how koordlet does meanwhile.

    Attributes:
        health: how long each of its answers about its health took, seconds.
    """

    def __init__(
        self, world: World, pods: KubeletPods | ServerPods, agent: Agent, hostile: NodePods
    ) -> None:
        self._world, self._pods, self._agent, self._hostile = world, pods, agent, hostile
        self.health: list[float] = []

    def run(self, seconds: float) -> tuple[list[float], int]:
        """Latencies of good pods meanwhile, and the most memory that koordlet had."""
        found, most = [], 0
        # By rounds, so that memory after one attack compares with that after another.
        with ThreadPoolExecutor(1) as others:
            for _ in range(2 * max(1, round(seconds / 2 / _ROUND_SECONDS))):
                self._hostile.change()
                telling = others.submit(self._pods.tell, self._hostile.documents)
                found += self.quiet(_ROUND_SECONDS, telling.done)
                telling.result()
                self.check()
                most = max(most, self.resident())
        return found, most

    def quiet(self, seconds: float, done: Callable[[], bool] = lambda: True) -> list[float]:
        """From the start of a good batch pod to its limit, one after the other for so long."""
        found, ends = [], time.monotonic() + seconds
        while time.monotonic() < ends or not done():
            name = f"web-{time.monotonic_ns()}"
            fresh = self._pods.start(pod(name, [], "BE", _BATCH, _BATCH))
            inner = fresh.containers[0].directory

            def limited(directory: str = inner) -> bool:
                return self._world.tree.number(directory, "cpu.cfs_quota_us") == _QUOTA

            found.append(wait_until("a new pod's limit", _PATIENCE_SECONDS, limited))
            self._pods.stop(fresh)
        return found

    def check(self) -> None:
        """It answers about its health."""
        began = time.monotonic()
        self._agent.check_health()
        self.health.append(time.monotonic() - began)

    def resident(self) -> int:
        """Bytes of memory that it has."""
        fields = Path(f"/proc/{self._agent.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def _good(own: str) -> list[Pod]:
    """One with a CPU of its own, a service with limits, a batch pod."""
    whole = {"cpu": "1", "memory": "64Mi"}
    bound = {STATUS: json.dumps({"cpuset": own})}
    return [
        pod("bound", ["burn 10"], "LSR", whole, whole, annotations=bound),
        pod("service", ["burn 10"], "LS", {"cpu": "500m"}, {"cpu": "1", "memory": "64Mi"}),
        pod("batch", ["burn 5"], "BE", _BATCH, _BATCH),
    ]


def _thieves(own: str) -> list[Pod]:
    """Pods with cgroups of their own that claim what the good ones have."""
    asked = {"cpu": "1", "memory": "64Mi"}
    return [
        pod("thief-bound", [], "LSR", asked, asked, annotations=claims(own)),
        pod("thief-service", [], "LS", {"cpu": "100m"}, {}, annotations=claims(own)),
        pod("thief-batch", [], "BE", _BATCH, _BATCH, annotations=claims(own)),
    ]


def _wait_for_hooks(world: World, good: list[Pod], own: str) -> None:
    bound, service, batch = (each.containers[0].directory for each in good)
    # What the pod with a CPU of its own leaves to pods that share.
    others = [*range(world.cpus - 1)]

    def done() -> bool:
        tree = world.tree
        quotas = tree.number(bound, "cpu.cfs_quota_us"), tree.number(batch, "cpu.cfs_quota_us")
        shared = ids(tree.cpus(service)) == others
        return quotas == (-1, _QUOTA) and tree.cpus(bound) == own and shared

    wait_until("the good pods have what is theirs", _PATIENCE_SECONDS, done)
