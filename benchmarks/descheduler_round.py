# SPDX-License-Identifier: Apache-2.0
"""What a round of the descheduler costs: ``python -m benchmarks.descheduler_round --pods 100000``.

Realistic pods (``tests.kube.pods``) as the descheduler's informer keeps them, nodes with
NodeMetrics, and one profile with LowNodeLoad and five plugins of kubernetes-sigs/descheduler behind
DefaultEvictor. A tenth of the nodes is high. Evictions are taken and nothing comes of them.
``--planned`` plans the rounds, and says for how long at most the rest of the program waits. Prints
one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks.informer_memory import WARM_UP_PODS, synced
from benchmarks.resident import resident_bytes
from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.config.load import decode
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.framework.round import Descheduling
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.planner import PlannedRounds
from koord.controllers.descheduler.pod_projection import DeschedulerPod
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.registry import Registry
from tests.kube.pods import node_name

PODS, NODES = 100_000, 5_000
NOW = datetime(2030, 1, 14, 10, tzinfo=UTC).timestamp()
_HIGH_EVERY = 10
STRATEGIES = {
    "deschedule": [
        "RemovePodsHavingTooManyRestarts", "RemovePodsViolatingNodeTaints",
        "RemovePodsViolatingNodeAffinity", "RemovePodsViolatingInterPodAntiAffinity",
    ],
    "balance": ["RemoveDuplicates", "LowNodeLoad"],
}  # fmt: skip
ARGS: dict[str, Any] = {
    "DefaultEvictor": {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 100},
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"],
    },
    "LowNodeLoad": {
        "lowThresholds": {"cpu": 45, "memory": 55}, "highThresholds": {"cpu": 75, "memory": 80},
        "anomalyCondition": {"consecutiveAbnormalities": 1},
    },
}  # fmt: skip
ONLY_DEFAULT = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}


class Evictions:
    """Takes every eviction."""

    def __init__(self) -> None:
        self.count = 0

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        del pod, request
        self.count += 1
        return True


def descheduling(evictions: Evictions) -> Descheduling:
    """Rounds of the profile."""
    plugins: dict[str, Any] = {
        point: {"enabled": [{"name": name} for name in names]}
        for point, names in STRATEGIES.items()
    }
    profile = {
        "plugins": {**plugins, "filter": ONLY_DEFAULT, "evict": ONLY_DEFAULT},
        "pluginConfig": [{"name": name, "args": args} for name, args in ARGS.items()],
    }
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration",
        "profiles": [profile],
    }  # fmt: skip
    configured = decode(document, "the benchmark", PluginRegistry([]))
    return Descheduling(configured, evictions, VirtualClock(NOW), Supervisor("descheduler"))


def nodes(count: int) -> list[Node]:
    """Nodes that take all pods that are there."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti",
               "nvidia.com/gpu": "8"}  # fmt: skip
    made = [
        {"metadata": {"name": node_name(number), "labels": {"zone": f"z{number % 3}"}},
         "status": {"allocatable": amounts, "capacity": amounts}}
        for number in range(count)
    ]  # fmt: skip
    return [codec.convert(document, Node, "a node", "") for document in made]


def node_metrics(pods: list[Pod], count: int) -> dict[str, NodeMetric]:
    """Reports that are fresh: every tenth node with pods is high by what its system uses."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.spec.node_name, []).append(pod)
    usage = {"resources": {"cpu": "900m", "memory": "1Gi"}}
    found = {}
    for number in range(count):
        name = node_name(number)
        there = by_node.get(name, [])
        system = "40" if there and number % _HIGH_EVERY == 0 else "1"
        document = {
            "metadata": {"name": name},
            "status": {
                "nodeMetric": {"systemUsage": {"resources": {"cpu": system, "memory": "2Gi"}}},
                "podsMetric": [
                    {"name": pod.metadata.name, "namespace": pod.metadata.namespace,
                     "podUsage": usage}
                    for pod in there
                ],
            },
        }  # fmt: skip
        found[name] = codec.convert(document, NodeMetric, "a metric", "")
        found[name].status.update_time = datetime.fromtimestamp(NOW - 10, UTC)
    return found


def snapshot(pods: list[Pod], count: int) -> ClusterSnapshot:
    """The cluster; a round begins with a new one."""
    return ClusterSnapshot(nodes(count), pods, node_metrics=node_metrics(pods, count))


def again(view: ClusterSnapshot) -> ClusterSnapshot:
    """The same objects as another round sees them: nothing is worked out yet but the pods by node,
    which the program keeps.
    """
    by_node = {node.metadata.name: view.all_pods_on(node.metadata.name) for node in view.nodes}
    return ClusterSnapshot(
        view.nodes, view.pods, node_metrics=view.node_metrics, pods_by_node=by_node
    )


def round_seconds(rounds: Descheduling, view: ClusterSnapshot) -> float:
    """CPU seconds of one round."""
    started = time.process_time()
    record = asyncio.run(rounds.run(view))
    seconds = time.process_time() - started
    assert record.errors == []
    return seconds


def planned_rounds(view: ClusterSnapshot) -> PlannedRounds:
    """Rounds of the profile, planned over the cluster of a snapshot and not carried out."""
    registry, clock = Registry([]), VirtualClock(NOW)
    names = sorted({pod.spec.scheduler_name for pod in view.pods})
    objects = [*view.nodes, *view.pods, *view.node_metrics.values()]
    landing = LandingNodes.of(objects, shipped(registry, *names), registry, clock)
    return PlannedRounds(
        descheduling(Evictions()),
        lambda snapshot: landing,
        {"cpu": 75.0, "memory": 80.0},
        clock.wall_seconds,
        dry_run=True,
    )


async def _longest_wait(ended: asyncio.Event) -> float:
    """The most CPU seconds between two turns of the loop, until something has ended."""
    longest, last = 0.0, time.process_time()
    while not ended.is_set():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest


def plan_seconds(rounds: PlannedRounds, view: ClusterSnapshot) -> tuple[float, float, int]:
    """CPU seconds of one plan, the most of them at a time, and its steps."""

    async def whole() -> tuple[float, float, int]:
        ended = asyncio.Event()
        beside = asyncio.create_task(_longest_wait(ended))
        started = time.process_time()
        plan = await rounds.plan(view)
        seconds = time.process_time() - started
        ended.set()
        assert plan.errors == []
        return seconds, await beside, len(plan.steps)

    return asyncio.run(whole())


def measure_planned(pods: int, count: int, rounds: int) -> dict[str, float]:
    """CPU seconds of planned rounds."""
    informer, _ = asyncio.run(synced(pods, 7, True, DeschedulerPod))
    view = snapshot([pod for _, pod in informer.items()], count)
    made = planned_rounds(view)
    found = [plan_seconds(made, again(view)) for _ in range(rounds)]
    return {
        "pods": pods,
        "nodes": count,
        "steps": found[-1][2],
        "first_round_seconds": round(found[0][0], 3),
        "warm_round_seconds": round(min(each[0] for each in found), 3),
        "longest_wait_seconds": round(min(each[1] for each in found), 3),
    }


def measure(pods: int, count: int, rounds: int) -> dict[str, float]:
    """CPU seconds of rounds, and what the process holds after them."""
    asyncio.run(synced(WARM_UP_PODS, 1, True, DeschedulerPod))
    gc.collect()
    before = resident_bytes()
    informer, _ = asyncio.run(synced(pods, 7, True, DeschedulerPod))
    view = snapshot([pod for _, pod in informer.items()], count)
    gc.collect()
    held = resident_bytes()
    evictions = Evictions()
    made = descheduling(evictions)
    seconds = [round_seconds(made, again(view)) for _ in range(rounds)]
    gc.collect()
    after = resident_bytes()
    return {
        "pods": pods,
        "nodes": count,
        "first_round_seconds": round(seconds[0], 3),
        "warm_round_seconds": round(min(seconds), 3),
        "evictions_a_round": evictions.count // rounds,
        "mib": round(after / 2**20, 1),
        "mib_before": round(before / 2**20, 1),
        "mib_of_rounds": round((after - held) / 2**20, 1),
        "bytes_a_pod": round((after - before) / pods, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--planned", action="store_true")
    given = parser.parse_args()
    how = measure_planned if given.planned else measure
    print(json.dumps(how(given.pods, given.nodes, given.rounds)))


if __name__ == "__main__":
    main()
