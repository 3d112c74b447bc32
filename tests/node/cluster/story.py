# SPDX-License-Identifier: Apache-2.0
"""What happens on the node of a cluster, as figures.

``python -m tests.node.cluster.story ORDER``
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import urllib.request
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from koord.kernels.cpuset import CPUSet
from tests.node.cluster.control_plane import NODE
from tests.node.cluster.static_policy import switch_policy, take_over
from tests.node.cluster.upkeep import resize_in_place, restart_kubelet
from tests.node.cluster.visitor import Document, Visitor
from tests.node.machine import PATIENCE, until
from tests.scenes.experiments.suppress import rounds_to_fall

_BATCH_CPU = "kubernetes.io/batch-cpu"
_STATUS = "scheduling.koordinator.sh/resource-status"
_RESERVED = "scheduling.koordinator.sh/reservation-allocated"
_GATES = "BECPUEvict=true"
# Nobody here waits for a minute.
_CONFIGURATION = {
    "colocation-config": {
        "enable": True, "cpuReclaimThresholdPercent": 90, "metricReportIntervalSeconds": 1,
        "metricAggregateDurationSeconds": 10, "resourceDiffThreshold": 0.05,
    },
    "resource-threshold-config": {
        "clusterStrategy": {
            "enable": True, "cpuSuppressPolicy": "cfsQuota", "cpuSuppressThresholdPercent": 70,
            "cpuEvictBESatisfactionLowerPercent": 50, "cpuEvictBESatisfactionUpperPercent": 60,
            "cpuEvictTimeWindowSeconds": 5,
        }
    },
}  # fmt: skip
_SYSTEM = "koordinator-system"
_SPIN = "while :; do :; done"
_STEADY_ROUNDS = 3


def become_ready(world: Visitor) -> None:
    """The kubelet's node is ready, and koordlet reads its pods over HTTPS."""
    world.node.start_kubelet()
    world.found["node"] = until("the node is ready", world.ready_node)
    world.say("node ready")
    data = {name: json.dumps(section) for name, section in _CONFIGURATION.items()}
    meta = {"name": "slo-controller-config", "namespace": _SYSTEM}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    world.create("configmaps", _SYSTEM, document)
    start_koordlet(world)


def start_koordlet(world: Visitor) -> None:
    """With the gate and the flags of the whole story."""
    world.node.start_koordlet(
        _GATES, "--only-evict-by-api", "--cpu-evict-cool-time-seconds", "2",
        "--kubelet-sync-interval", "1s",
    )  # fmt: skip
    world.say("koordlet serves the runtime")


def report_and_offer(world: Visitor) -> None:
    """NodeMetric and NodeSLO go round; the node offers batch resources."""
    group = "slo.koordinator.sh/v1alpha1"
    running = {pod["metadata"]["name"] for pod in world.all_pods()}

    def reported() -> Document | None:
        found = world.get(f"{group}/nodemetrics", "", NODE)
        names = {each["name"] for each in found.get("status", {}).get("podsMetric") or ()}
        return found if names >= running else None

    world.found["offered"] = until("batch CPUs are offered", lambda: world.amount(_BATCH_CPU))
    world.found["metric"] = until("all pods are reported", reported)
    world.found["slo"] = world.get(f"{group}/nodeslos", "", NODE)
    world.say("batch CPUs are offered")


def place_services(world: Visitor) -> None:
    """Plain manifests: pods are changed by profiles, placed, and run as koord wants."""
    world.kubectl("apply", f"--filename={world.manifest('workloads')}")
    for app in ("bound", "web"):
        world.found[app] = until(f"{app} runs", partial(world.running, "default", app))
    name = world.found["bound"]["metadata"]["name"]
    world.found["bound says"] = until("it says", lambda: world.kubectl("logs", name).split())
    status = json.loads(world.found["bound"]["metadata"]["annotations"][_STATUS])
    world.found["chosen"] = str(CPUSet.parse(status["cpuset"]))
    files = {f: world.read(f, world.found["bound"]) for f in ("cpuset.cpus", "cpu.cfs_quota_us")}
    world.found["bound files"] = files
    world.say("services run")


def use_reservation(world: Visitor) -> None:
    """A pod takes what was reserved for it."""
    path = ("scheduling.koordinator.sh/v1alpha1/reservations", "", "kept")

    def is_in(phase: str) -> Document | None:
        found = world.get(*path)
        return found if found["status"].get("phase") == phase else None

    world.found["reservation"] = until("the reservation is kept", lambda: is_in("Available"))
    world.kubectl("apply", f"--filename={world.manifest('expected')}")
    pod = until("its pod runs", lambda: world.running("default", "expected"))
    world.found["expected"] = json.loads(pod["metadata"]["annotations"][_RESERVED])

    def owners() -> list[Document]:
        found: list[Document] = world.get(*path)["status"].get("currentOwners") or []
        return found

    world.found["owners"] = until("it says who uses it", owners)
    world.say("reservation used")


def reach_containers(world: Visitor) -> None:
    """Through the API server to the kubelet."""
    name = world.found["web"]["metadata"]["name"]
    world.found["logs"] = world.kubectl("logs", name).strip()
    world.found["exec"] = world.kubectl("exec", name, "--", "/bin/echo", "it is I").strip()
    url = "http://127.0.0.1:9316/metrics"
    with urllib.request.urlopen(url, timeout=20 * PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    start = "koordlet_kubelet_request_duration_seconds_count"
    world.found["kubelet calls"] = [line for line in lines if line.startswith(start)]
    world.say("logs and exec")


def suppress_and_evict(world: Visitor) -> None:
    """The service's load rises to all CPUs but one: batch is held down, then evicted by rule."""
    world.kubectl("delete", "deployment", "bound", "--wait=false")
    until("the bound pod is gone", lambda: not world.pods("default", "bound"))
    until("a whole CPU is offered", lambda: world.amount(_BATCH_CPU) >= 1000)
    world.found["offered later"] = world.amount(_BATCH_CPU)
    world.kubectl("apply", f"--filename={world.manifest('batch')}")
    batch = until("the job runs", lambda: world.running("analytics", "", "job-name=report"))
    world.found["batch"] = batch
    world.found["batch files"] = {
        file: world.read(file, batch) for file in ("cpu.shares", "cpu.cfs_quota_us")
    }
    world.found["batch memory"] = world.read("memory.limit_in_bytes", batch)
    world.say("batch runs")
    world.node.wait_rounds(_STEADY_ROUNDS)
    before = len(world.node.rounds())
    web = world.found["web"]["metadata"]["name"]
    cpus = os.cpu_count() or 1
    spin = f"{{ {_SPIN}; }} >/dev/null 2>&1 & " * max(1, cpus - 1)
    world.kubectl("exec", web, "--", "/bin/sh", "-c", spin)
    world.say("the service works")
    uid = batch["metadata"]["uid"]

    def gone() -> bool:
        pods = world.pods("analytics", "", "job-name=report")
        return uid not in {pod["metadata"]["uid"] for pod in pods}

    until("the batch pod is evicted", gone)
    world.say("batch is evicted")
    world.node.wait_rounds(_STEADY_ROUNDS)
    world.found["rounds"] = world.node.rounds()[before:]
    world.found["rounds to fall"] = rounds_to_fall(world.found["rounds"], cpus)
    status = world.node.status()
    world.found["problems"] = [*status["failures"], *status["hookProblems"]]
    world.found["calls"] = {call["method"]: call["failures"] for call in status["runtime"]["calls"]}
    world.found["evictions"] = [event["message"] for event in world.events("evictPodSuccess")]


STEPS: tuple[Callable[[Visitor], None], ...] = (
    become_ready, place_services, use_reservation, reach_containers, resize_in_place,
    restart_kubelet, report_and_offer, suppress_and_evict, switch_policy, take_over,
)  # fmt: skip


def tell(kind: type[Visitor], steps: Iterable[Callable[[Any], None]]) -> int:
    """Plays steps; writes figures, and what went wrong."""
    order = json.loads(sys.argv[1])
    visitor = kind(order)
    result: dict[str, Any] = {"figures": visitor.found}
    try:
        visitor.begin()
        for step in steps:
            step(visitor)
    except BaseException as error:
        traceback.print_exc()
        result["failure"] = f"{type(error).__name__}: {error}"
    visitor.found["told"] = visitor.troubles()
    for log in sorted(Path(order["scratch"]).glob("*.log")):
        print(f"--- {log.name}\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
    Path(order["result"]).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    status = tell(Visitor, STEPS)
    sys.stdout.flush()
    # What it started ends with the namespace.
    os._exit(status)
