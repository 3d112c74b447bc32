# SPDX-License-Identifier: Apache-2.0
"""What a cluster's batch and mid resources cost to work out: ``python -m benchmarks.manager``.

CPU seconds of one thread. Columns are filled from random numbers, as they stand when every object
has been read; objects through the ledger are measured apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.api.sloconfig import config as slo
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.controllers.manager.overcommit.formulas import batch, mid, sums, zones
from koord.controllers.manager.overcommit.objects import node_columns, strategy_columns
from koord.controllers.manager.overcommit.objects.pod_terms import PodFlag, PodTerms
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.models import overcommit as model

NODES, PODS_A_NODE, ZONES = 10_000, 30, 2
NOW = 1_800_000_000.0
GIB = 1 << 30
STRATEGY = {
    "enable": True,
    "cpuReclaimThresholdPercent": 65,
    "memoryReclaimThresholdPercent": 65,
    "cpuCalculatePolicy": "maxUsageRequest",
    "midUnallocatedPercent": 10,
}


class Columns(NamedTuple):
    """A cluster, as the formulas take it."""

    nodes: node_columns.NodeColumns
    terms: PodTerms
    settings: strategy_columns.StrategyColumns
    zones: zones.ZoneColumns


def columns(count: int, a_node: int = PODS_A_NODE, seed: int = 1) -> Columns:
    """So many nodes, with so many pods each."""
    rng = np.random.default_rng(seed)
    pods, units = count * a_node, np.array([[1], [1 << 22]])
    found = node_columns.empty(count)
    found.capacity[:] = [[96_000], [384 * GIB]]
    found.kubelet_reserved[:] = [[1_000], [2 * GIB]]
    found.system[:] = rng.integers(0, 3_000, (2, count)) * [[1], [1 << 20]]
    found.used[:] = rng.integers(0, 60_000, (2, count)) * [[1], [1 << 22]]
    found.reclaimable[:] = rng.integers(0, 20_000, (2, count)) * [[1], [1 << 22]]
    found.reported[:] = 0
    found.updated[:] = NOW
    flags = np.array(
        [PodFlag.HIGH | PodFlag.FIRM | PodFlag.MEASURED, PodFlag.HIGH | PodFlag.FIRM, 0], np.uint8
    )
    terms = PodTerms(
        rng.permutation(np.repeat(np.arange(count), a_node)),
        rng.choice(flags, pods, p=[0.7, 0.1, 0.2]),
        rng.integers(0, 3_000, (2, pods)) * units,
        rng.integers(0, 2_000, (2, pods)) * units,
        rng.choice(np.array([0, 1, 2], np.uint64), pods),
    )
    there = zones.empty(ZONES, count)
    there.present[:] = True
    there.capacity[:] = [[[48_000]], [[192 * GIB]]]
    strategy = convert(STRATEGY, ColocationStrategy, "benchmark")
    return Columns(
        found, terms, strategy_columns.columns([strategy_columns.of(strategy)] * count), there
    )


def work_out(cluster: Columns, now: float = NOW) -> Any:
    """Every node's batch and mid resources, and those of its zones."""
    here, terms, said, there = cluster
    reasons = node_columns.degraded(here, said, now)
    totals = sums.of(terms, len(reasons))
    return (
        batch.offer(here, totals, said, reasons),
        mid.offer(here, totals, said, reasons),
        zones.offer(there, here, zones.sums_by_zone(there, terms), totals, said, reasons),
    )


def plain(cluster: Columns) -> list[model.Node]:
    """The same cluster, as the plain model describes it."""
    found = []
    here, terms, _, _ = cluster
    for row in range(here.capacity.shape[1]):
        cpu, memory = here.capacity[:, row].tolist()
        cpu_kept, memory_kept = here.kubelet_reserved[:, row].tolist()
        found.append(
            model.Node(
                (cpu, memory), (cpu - cpu_kept, memory - memory_kept), dict(STRATEGY),
                system=_pair(here.system, row), used=_pair(here.used, row),
                reclaimable=_pair(here.reclaimable, row),
                zones=[model.Zone(n, (48_000, 192 * GIB)) for n in range(ZONES)],
            )
        )  # fmt: skip
    for at, (row, flags, mask) in enumerate(
        zip(terms.node.tolist(), terms.flags.tolist(), terms.zones.tolist(), strict=True)
    ):
        name = str(at)
        numa = [n for n in range(ZONES) if mask >> n & 1]
        high = flags & PodFlag.HIGH
        found[row].pods.append(
            model.Pod(
                name, class_label="koord-prod" if high else "koord-batch",
                request=_pair(terms.request, at), numa=numa,
            )
        )  # fmt: skip
        if not high or flags & PodFlag.MEASURED:
            found[row].metrics[name] = model.Metric(_pair(terms.used, at))
    return found


def _pair(amounts: Any, row: int) -> model.Pair:
    cpu, memory = amounts[:, row].tolist()
    return cpu, memory


# Through objects.


def a_node(number: int) -> Node:
    amounts = {"cpu": "96", "memory": f"{384 * GIB}"}
    meta = {"name": f"node-{number}", "labels": {"pool": str(number % 4)}}
    status = {"capacity": amounts, "allocatable": amounts}
    return convert({"metadata": meta, "status": status}, Node, "benchmark")


def a_pod(number: int, at: int, made: Pod | None = None) -> Pod:
    """A pod of a node; with another of its workload, one that shares what it is made of."""
    name = f"pod-{number}-{at}"
    found = convert(
        {
            "metadata": {
                "name": name, "namespace": "default", "uid": name,
                "labels": {"koordinator.sh/qosClass": "LS" if at % 5 else "BE"},
            },
            "spec": {
                "nodeName": f"node-{number}",
                "containers": [{"resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}],
            },
            "status": {"phase": "Running", "qosClass": "Burstable"},
        },
        Pod,
        "benchmark",
    )  # fmt: skip
    if made is not None:
        found.spec.containers = made.spec.containers
        found.spec.init_containers = made.spec.init_containers
        found.spec.overhead = made.spec.overhead
    return found


def a_metric(number: int, pods: int, seconds: int) -> NodeMetric:
    usage = {"resources": {"cpu": f"{1000 + seconds}m", "memory": f"{GIB}"}}
    status = {
        "updateTime": f"2027-01-15T08:{seconds // 60:02}:{seconds % 60:02}Z",
        "nodeMetric": {"nodeUsage": usage, "systemUsage": usage},
        "podsMetric": [
            {"name": f"pod-{number}-{at}", "namespace": "default", "podUsage": usage}
            for at in range(pods)
        ],
    }
    found = {"metadata": {"name": f"node-{number}"}, "status": status}
    return convert(found, NodeMetric, "benchmark")


def a_topology(number: int) -> NodeResourceTopology:
    resources = [
        {"name": "cpu", "capacity": "48", "allocatable": "48", "available": "48"},
        {"name": "memory", "capacity": "192Gi", "allocatable": "192Gi", "available": "192Gi"},
    ]
    found = [{"name": f"node-{n}", "type": "Node", "resources": resources} for n in range(ZONES)]
    meta = {"name": f"node-{number}"}
    return convert({"metadata": meta, "zones": found}, NodeResourceTopology, "benchmark")


def configured(percent: int) -> slo.SLOConfig:
    """A configuration with a strategy for one pool of nodes beside the cluster's."""
    text = (
        f'{{"enable": true, "cpuReclaimThresholdPercent": {percent}, "nodeConfigs": '
        '[{"name": "pool", "nodeSelector": {"matchLabels": {"pool": "1"}}, '
        '"memoryReclaimThresholdPercent": 70}]}'
    )
    return slo.load({"colocation-config": text})


class Filled(NamedTuple):
    """A ledger with everything in it, and what filling it took, in CPU seconds by kind."""

    ledger: OvercommitCache
    seconds: dict[str, float]


def filled(count: int, a_node_has: int = PODS_A_NODE) -> Filled:
    """A ledger of so many nodes, from objects that share parts as an informer's do."""
    ledger, found = OvercommitCache(), configured(60)
    made = [a_pod(0, at) for at in range(a_node_has)]
    seconds = dict.fromkeys(("nodes", "pods", "reports", "topologies"), 0.0)

    def timed(kind: str, put: Callable[[Any], object], objects: list[Any]) -> None:
        start = time.thread_time()
        for each in objects:
            put(each)
        seconds[kind] += time.thread_time() - start

    for number in range(count):
        pods = [a_pod(number, at, made[at]) for at in range(a_node_has)]
        timed("nodes", lambda node: ledger.put_node(node, found.colocation(node)), [a_node(number)])
        timed("pods", ledger.put_pod, pods)
        timed("reports", ledger.put_metric, [a_metric(number, a_node_has, 0)])
        timed("topologies", ledger.put_topology, [a_topology(number)])
    return Filled(ledger, seconds)


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def main() -> None:
    cluster = columns(NODES)
    print(f"{NODES} nodes, {NODES * PODS_A_NODE} pods, {ZONES} zones a node; CPU seconds")
    _line("all offers from columns", min(cpu_seconds(lambda: work_out(cluster)) for _ in range(3)))
    ledger, seconds = filled(NODES)
    for kind, took in seconds.items():
        _line(f"ledger from objects: {kind}", took)
    _line("first recompute", cpu_seconds(lambda: ledger.recompute(NOW)))
    news = configured(55)
    _line("a ConfigMap: strategies", cpu_seconds(lambda: ledger.set_strategies(news.colocation)))
    _line("a ConfigMap: recompute", cpu_seconds(lambda: ledger.recompute(NOW)))
    for some in (1, 10, 100, 1000):
        metrics = [a_metric(number, PODS_A_NODE, some % 59 + 1) for number in range(some)]
        start = time.thread_time()
        for metric in metrics:
            ledger.put_metric(metric)
        _line(f"{some} reports: taken in", time.thread_time() - start)
        _line(f"{some} reports: recompute", cpu_seconds(lambda: ledger.recompute(NOW)))
    _line("nothing changed: recompute", cpu_seconds(lambda: ledger.recompute(NOW)))


def _line(what: str, seconds: float) -> None:
    print(f"{what:40}{seconds:10.4f}")


if __name__ == "__main__":
    main()
