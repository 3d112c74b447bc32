# SPDX-License-Identifier: Apache-2.0
"""Pure decisions a second: ``python -m benchmarks.scheduler_decisions --nodes 5000 --case spread``.

All stock plugins, no API server: decide, reserve, count the pod on its node, and on to the next.
Seconds are of this process's CPU, after a tenth of the pods has warmed what is kept, with Python's
garbage collector set as the program sets it. Nodes are in three zones.

Other cases take the whole shipped profile from the queue to the end of the binding: see
``scheduler_profile.py``, and with an API server in the process ``scheduler_inprocess.py``. Case
``restart`` prints what the first decision after a restart costs: ``scheduler_restart.py``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from benchmarks import scheduler_inprocess, scheduler_profile, scheduler_restart
from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.kinds.service import Service
from koord.base.memory.garbage_collection import collect_rarely
from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.stock import Stock

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
SHAPES = 10


def cluster(nodes: int, tainted: bool = False) -> Stock:
    """A stock scheduler over empty nodes; one in ten is tainted if asked for."""
    stock = Stock()
    for index in range(nodes):
        labels = {ZONE: f"zone-{index % 3}", "disk": "ssd" if index % 2 else "hdd"}
        taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        more = {"taints": taints} if tainted and index % 10 == 0 else {}
        stock.add(node(f"node-{index:05}", cpu="64", memory="256Gi", labels=labels, **more))
    return stock


def _plain(group: int) -> dict[str, Any]:
    return {}


def _affinity(group: int) -> dict[str, Any]:
    wanted = {"key": "disk", "operator": "In", "values": ["ssd"]}
    liked = {"key": ZONE, "operator": "In", "values": [f"zone-{group % 3}"]}
    return {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]},
        "preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 10, "preference": {"matchExpressions": [liked]}}],
    }}}  # fmt: skip


def _hard_spread(group: int) -> dict[str, Any]:
    selector = {"matchLabels": {"app": f"app-{group}"}}
    return {"topologySpreadConstraints": [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": selector}
        for key, skew in ((ZONE, 1), (HOSTNAME, 5))
    ]}  # fmt: skip


def _pod_affinity(group: int) -> dict[str, Any]:
    own = {"labelSelector": {"matchLabels": {"app": f"app-{group}"}}, "topologyKey": HOSTNAME}
    other = {"matchLabels": {"app": f"app-{(group + 1) % SHAPES}"}}
    near = {"labelSelector": other, "topologyKey": ZONE}
    if group % 2:
        far = {"requiredDuringSchedulingIgnoredDuringExecution": [own]}
    else:
        weighted = [{"weight": 50, "podAffinityTerm": own}]
        far = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    return {"affinity": {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                        [{"weight": 20, "podAffinityTerm": near}]},
        "podAntiAffinity": far,
    }}  # fmt: skip


CASES: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": _plain,
    "differing": _plain,
    "affinity": _affinity,
    "spread": _affinity,
    "hardspread": _hard_spread,
    "podaffinity": _pod_affinity,
}


def waiting(stock: Stock, case: str, pods: int) -> list[PodInfo]:
    """Pods of ten workloads, one after the other; Services select them in case ``spread``.

    In case ``differing`` no two of them ask for the same.
    """
    templates = []
    shapes = pods if case == "differing" else SHAPES
    for group in range(shapes):
        labels = {"app": f"app-{group}"}
        if case == "spread":
            meta = {"name": f"app-{group}", "namespace": "default"}
            document = {"metadata": meta, "spec": {"selector": labels}}
            stock.views.view(Service).put(convert(document, Service, "Service"))
        requests = {"cpu": f"{100 + 10 * group}m", "memory": "256Mi"}
        container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
        spec = {"containers": [container], "schedulerName": "koord-scheduler", **CASES[case](group)}
        templates.append((labels, spec))
    found = []
    for index in range(pods):
        labels, spec = templates[index % shapes]
        meta = {"name": f"pod-{index}", "namespace": "default", "uid": f"{index}", "labels": labels}
        pod = convert({"metadata": meta, "spec": spec, "status": {}}, Pod, "Pod")
        found.append(stock.world.shapes.info(pod))
    return found


def run(stock: Stock, pods: list[PodInfo]) -> int:
    """Places pods; how many fitted somewhere."""
    placed = 0
    decider = stock.decider
    for pod in pods:
        decision = decider.decide(pod)
        if decision.row >= 0 and decider.assume(decision) is None:
            placed += 1
    return placed


def measure(nodes: int, pods: int, case: str) -> tuple[float, int]:
    """CPU seconds a decision, and how many of the pods were placed."""
    stock = cluster(nodes, tainted=case in ("affinity", "spread"))
    queue = waiting(stock, case, pods)
    warm = max(SHAPES, pods // 10)
    placed = run(stock, queue[:warm])
    collect_rarely()
    start = time.process_time()
    placed += run(stock, queue[warm:])
    return (time.process_time() - start) / (pods - warm), placed


def seconds_a_pod(case: str, nodes: int, pods: int) -> float:
    """CPU seconds a pod of any case but ``inprocess``."""
    if case in WHOLE:
        return scheduler_profile.seconds_a_pod(WHOLE[case], nodes, pods)
    return measure(nodes, pods, case)[0]


# Cases of the whole profile by their names there; "spread" is one of the stock plugins here.
WHOLE = {name: name for name in scheduler_profile.CASES if name != "spread"}
WHOLE["shippedspread"] = "spread"


def main() -> None:
    """Prints decisions a second for each number of nodes."""
    every = [*CASES, *WHOLE, "restart", "inprocess"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--pods-a-node", type=int, default=scheduler_restart.PODS_A_NODE)
    parser.add_argument("--case", choices=[*every, "all"], default="plain")
    options = parser.parse_args()
    for case in every if options.case == "all" else [options.case]:
        for nodes in options.nodes:
            if case == "restart":
                split = scheduler_restart.measure(nodes, pods_a_node=options.pods_a_node)
                print(f"{case:14} {nodes:6} nodes:", *split.lines(), sep="\n", flush=True)
                continue
            more = ""
            if case == "inprocess":
                cost = scheduler_inprocess.measure(nodes, options.pods)
                seconds = cost.each
                more = f", deciding {cost.deciding * 1e6:.1f}; once {cost.once * 1e3:.0f} ms"
            else:
                seconds = seconds_a_pod(case, nodes, options.pods)
            rate = f"{1 / seconds:8.0f} pods/s, {seconds * 1e6:8.1f} us each{more}"
            print(f"{case:14} {nodes:6} nodes: {rate}", flush=True)


if __name__ == "__main__":
    main()
