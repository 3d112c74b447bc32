# SPDX-License-Identifier: Apache-2.0
"""Decisions for all machines at once against plain models, and against one machine at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.feature_gates import feature_gates
from koord.agent.strategies.cpusuppress.decision import UNKNOWN, UNSET
from koord.agent.strategies.eviction import allocatable_eviction, thresholds
from koord.api import Node, Pod, decode_as
from koord.api.kinds.meta import Object
from koord.api.kinds.nodeslo import NodeSLO
from koord.base.clock import VirtualClock
from koord.simulator.nodes.agents.usage_model import PodUsageModel, pod_load
from koord.simulator.nodes.demand import DemandModel, UsageDemand
from koord.simulator.nodes.machine import SimulatedMachine, machines
from koord.simulator.nodes.pools import NodePool, NodePools
from koord.simulator.nodes.strategies import eviction_targets
from koord.simulator.nodes.strategies.column_table import ColumnTable
from koord.simulator.nodes.strategies.enforcement import Enforcement
from koord.simulator.nodes.strategies.eviction_targets import EvictionInputs
from koord.simulator.nodes.strategies.node_rows import CPU_NAMES, MEMORY_NAMES, NodeRow, node_row
from koord.simulator.nodes.strategies.pod_rows import FEATURES, StrategyPods, strategy_pod
from koord.simulator.nodes.strategies.slo_rows import SLORow, slo_row
from koord.simulator.nodes.strategies.usage_windows import UsageWindows
from tests.models import agent_strategies_suppress as suppress_model

# Nothing in it depends on which row a machine has.
MODEL = DemandModel(system=UsageDemand(cpu=0.05, noise=0.0, memory=0.03))
CPUS = 16
GI = 1 << 30
ALL_GATES = ",".join(f"{name}=true" for name in FEATURES)


@dataclass
class Asked:
    """Stands for the API and a recorder: who was to go, in order."""

    names: list[str] = field(default_factory=list)

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        raise AssertionError("nothing is sent: no task runs")

    def event(self, about: Object, event_type: Any, reason: str, message: str) -> None:
        raise AssertionError("nothing was sent")


def some_machines(count: int) -> list[SimulatedMachine]:
    return machines(
        NodePools(pools=[NodePool(name="node", count=count, cpu=CPUS, memory="64Gi")]), 1
    )


def node_of(milli: int = 15_500, **allocatable: int) -> Node:
    document = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {
            "capacity": {"cpu": CPUS, "memory": 64 * GI},
            "allocatable": {"cpu": f"{milli}m", "memory": 62 * GI, **allocatable},
        },
    }  # fmt: skip
    return decode_as(document, Node)


def slo_of(**fields: Any) -> NodeSLO:
    spec = {"resourceUsedThresholdWithBE": fields, "cpuBurstStrategy": {"policy": "auto"}}
    document = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
                "metadata": {"name": "n"}, "spec": spec}  # fmt: skip
    return decode_as(document, NodeSLO)


def pod_of(name: str, kind: str, cpu_milli: int, memory: int, share: float, **more: Any) -> Pod:
    """A pod of class ``ls``, ``be`` (batch resources) or ``mid``."""
    prefix = {"ls": "", "be": "kubernetes.io/batch-", "mid": "kubernetes.io/mid-"}[kind]
    cpu = f"{cpu_milli}m" if kind == "ls" else str(cpu_milli)
    amounts = {f"{prefix}cpu": cpu, f"{prefix}memory": str(memory)}
    usage = f'{{"cpu": {share}, "amplitude": 0, "noise": 0.1, "memory": 0.9}}'
    labels = {"koordinator.sh/qosClass": "BE" if kind == "be" else "LS"}
    if more.get("agreed"):
        labels["koordinator.sh/eviction-enabled"] = "true"
    annotations = {"simulator.koord/usage": usage,
                   "koordinator.sh/eviction-priority": str(more.get("rank", 0))}  # fmt: skip
    if more.get("refuses"):
        annotations["koordinator.sh/eviction-policy"] = '["Other"]'
    document = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels,
                     "annotations": annotations},
        "spec": {
            "priority": {"ls": 9500, "be": 5500, "mid": 7500}[kind] - int(more.get("below", 0)),
            "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}],
        },
        "status": {"phase": "Running"},
    }  # fmt: skip
    return decode_as(document, Pod)


class Site:
    """Machines of which each has its pods, its Node and its NodeSLO, decided upon together."""

    def __init__(self, places: Sequence[tuple[Sequence[Pod], NodeSLO | None, Node]]) -> None:
        self.clock = VirtualClock(1_900_000_000.0)
        found = some_machines(len(places))
        load = PodUsageModel([CPUS] * len(found), [64 * GI] * len(found), MODEL, seed=1)
        self.asked = Asked()
        gates = feature_gates(ALL_GATES)
        self.made = Enforcement(found, load, gates, self.asked, self.asked, self.clock)
        pods = [(pod, row) for row, (here, _, _) in enumerate(places) for pod in here]
        load.set_pods(pod_load(pod, row, MODEL, 1) for pod, row in pods)
        self.made.set_pods([strategy_pod(pod) for pod, _ in pods], [row for _, row in pods])
        for row, (_, slo, node) in enumerate(places):
            self.made.nodes.put(row, node_row(node))
            self.made.set_slo(row, slo.spec if slo else None)
        self.load = load

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.made.step()
            # So that a few turns last longer than evictions cool down.
            self.clock.advance(7.0)

    def state(self, row: int) -> tuple[object, ...]:
        """What there is to say of a machine."""
        made = self.made.suppression
        reading = self.load.read(self.clock.wall_seconds())
        pods = [pod.uid for pod in self.load.pods if pod.node == row]
        at = [index for index, pod in enumerate(self.load.pods) if pod.node == row]
        evicted = {name: n for (node, name), n in self.made.evicted.items() if node == row}
        evictor = self.made._evictors.get(row)
        fates = [evictor.fate(uid) for uid in pods] if evictor else [None] * len(pods)
        return (
            int(made.quota_us[row]), int(made.count[row]), int(made.allowed_milli[row]),
            reading.pod_cpu[at].tolist(), evicted, fates,
        )  # fmt: skip


percent = st.integers(10, 95)
drawn_slos = st.none() | st.builds(
    lambda high, width, fields: slo_of(
        **fields,
        memoryEvictThresholdPercent=high, memoryEvictLowerPercent=high - width,
        cpuEvictThresholdPercent=high, cpuEvictLowerPercent=high - width,
        cpuAllocatableEvictThresholdPercent=high, cpuAllocatableEvictLowerPercent=high - width,
        memoryAllocatableEvictThresholdPercent=high,
        memoryAllocatableEvictLowerPercent=high - width,
    ),
    percent,
    st.integers(0, 20),
    st.fixed_dictionaries(
        {"enable": st.sampled_from([True, True, True, False])},
        optional={
            "cpuSuppressThresholdPercent": percent,
            "cpuSuppressMinPercent": st.integers(0, 30),
            "cpuSuppressPolicy": st.sampled_from(["cfsQuota", "cpuset"]),
            "cpuEvictBESatisfactionLowerPercent": st.integers(20, 60),
            "cpuEvictBESatisfactionUpperPercent": st.integers(60, 90),
            "cpuEvictPolicy": st.sampled_from(["evictByAllocatable", "evictByRealLimit"]),
            "cpuEvictTimeWindowSeconds": st.sampled_from([1, 5, 1000]),
            "evictEnabledPriorityThreshold": st.integers(5000, 9999),
            "allocatableEvictPriorityThreshold": st.integers(5000, 7999),
        },
    ),
)  # fmt: skip
drawn_kinds = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["ls", "be", "be", "mid"]),
        "cpu_milli": st.integers(100, 8000),
        "memory": st.integers(1 << 20, 12 * GI),
        "share": st.floats(0.1, 2).map(lambda share: round(share, 2)),
        "agreed": st.booleans(),
        "refuses": st.sampled_from([False, False, True]),
        "rank": st.integers(-1, 1),
        "below": st.integers(0, 2),
    }
)
drawn_nodes = st.builds(
    lambda milli, cpu, memory: node_of(
        milli, **{"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": memory}
    ),
    st.integers(8_000, 16_000),
    st.integers(0, 20_000),
    st.integers(0, 64 * GI),
)
drawn_places = st.lists(
    st.tuples(st.lists(drawn_kinds, max_size=4), drawn_slos, drawn_nodes), min_size=1, max_size=3
)


def places_of(drawn: list[Any]) -> list[tuple[list[Pod], NodeSLO | None, Node]]:
    return [
        ([pod_of(f"{row}-{at}", **fields) for at, fields in enumerate(pods)], slo, node)
        for row, (pods, slo, node) in enumerate(drawn)
    ]


@given(drawn_places, st.integers(1, 6))
def test_all_at_once_is_each_by_itself(drawn: list[Any], turns: int) -> None:
    places = places_of(drawn)
    together = Site(places)
    together.run(turns)
    for row, place in enumerate(places):
        alone = Site([place])
        alone.run(turns)
        assert together.state(row) == alone.state(0)


@given(drawn_places, st.integers(1, 6))
def test_suppression_is_that_of_the_plain_model(drawn: list[Any], turns: int) -> None:
    places = places_of(drawn)
    site = Site(places)
    before: list[int | None] = [None] * len(places)
    quota, count = [-1] * len(places), [CPUS] * len(places)
    for _ in range(turns):
        reading = site.load.read(site.clock.wall_seconds())
        site.made.step()
        for row, (pods, slo, node) in enumerate(places):
            wanted = slo_row(slo.spec) if slo else SLORow()
            if not wanted.enabled or not pods:
                continue
            # Kubernetes takes a pod without native requests for best effort, whatever its label.
            used = [
                (float(reading.pod_cpu[at]), strategy_pod(pod).state.kube_qos == "BestEffort")
                for at, (pod, there) in enumerate(
                    (p, r) for r, q in enumerate(places) for p in q[0]
                )
                if there == row
            ]
            least = None if wanted.suppress_least == UNSET else wanted.suppress_least
            now = suppress_model.allowed(
                float(reading.node_cpu[row]), used, [], CPUS * 1000, node_row(node).reserved_milli,
                wanted.suppress_percent, least,
            )  # fmt: skip
            milli = suppress_model.smoothed(now, before[row])
            before[row] = now
            if wanted.by_quota:
                target, write = suppress_model.quota(milli, quota[row], CPUS * 1000)
                quota[row] = target if write else quota[row]
            else:
                count[row] = sum(suppress_model.counts(milli, count[row], CPUS, 0, CPUS))
            assert int(site.made.suppression.allowed_milli[row]) == milli
        assert site.made.suppression.quota_us.tolist() == quota
        assert site.made.suppression.count.tolist() == count
        site.clock.advance(1.0)
    told = site.made.suppression.allowed_milli != UNKNOWN
    assert told.tolist() == [known is not None for known in before]


@pytest.mark.parametrize(
    ("build", "feature", "native", "names"),
    [
        (eviction_targets.cpu_allocatable_evict, "CPUAllocatableEvict", "cpu", CPU_NAMES),
        (
            eviction_targets.memory_allocatable_evict,
            "MemoryAllocatableEvict",
            "memory",
            MEMORY_NAMES,
        ),
    ],
)
@given(drawn=drawn_places)
def test_requests_are_counted_as_the_agent_counts(
    build: Any, feature: str, native: str, names: tuple[str, ...], drawn: list[Any]
) -> None:
    places = places_of(drawn)
    pods = [(pod, row) for row, (here, _, _) in enumerate(places) for pod in here]
    members = StrategyPods([strategy_pod(pod) for pod, _ in pods], [row for _, row in pods])
    load = PodUsageModel([CPUS] * len(places), [64 * GI] * len(places), MODEL, seed=1)
    load.set_pods(pod_load(pod, row, MODEL, 1) for pod, row in pods)
    rows = [slo_row(slo.spec) if slo else SLORow() for _, slo, _ in places]
    round_ = EvictionInputs(
        load.read(0.0), members,
        ColumnTable(NodeRow._fields, [node_row(node) for _, _, node in places]),
        ColumnTable(SLORow._fields, rows), UsageWindows(0), np.zeros(len(places)),
    )  # fmt: skip
    found = build(round_)
    for row, (here, _, node) in enumerate(places):
        wanted = rows[row]
        threshold = getattr(wanted, f"{native}_promised_percent")
        release = {name: int(found.release[name][row]) for name in names}
        release = {name: amount for name, amount in release.items() if amount}
        if threshold == UNSET or not wanted.has_promised_priority:
            assert not release
            continue
        limits = thresholds.ThresholdRange(threshold, getattr(wanted, f"{native}_promised_lower"))
        states = [members.pods[members.row[pod.metadata.uid]].state for pod in here]
        wish = allocatable_eviction.allocatable_request(
            feature, native, node, states, limits, wanted.promised_priority,
            {state.uid: 0.0 for state in states},
        )  # fmt: skip
        assert release == wish.release
        chosen = np.flatnonzero(found.victims & (members.node == row))
        ordered = [members.pods[at].state for at in chosen[found.order(chosen)].tolist()]
        assert ordered == list(wish.victims)
        for state in ordered:
            column = {name: int(found.amounts[name][members.row[state.uid]]) for name in names[1:]}
            told = {name: amount for name, amount in wish.amounts(state).items() if amount}
            assert {name: amount for name, amount in column.items() if amount} == told


def test_machines_together_cost_far_less_than_one_by_one() -> None:
    count, turns = 200, 20
    slo = slo_of(enable=True, cpuSuppressPolicy="cfsQuota", memoryEvictThresholdPercent=95)
    places = [
        ([pod_of(f"{row}-{at}", kind, 1000, GI, 1.0) for at, kind in enumerate(("ls", "be"))],
         slo, node_of())
        for row in range(count)
    ]  # fmt: skip

    def cpu_seconds(site: Site) -> float:
        site.run(2)
        begun = time.process_time()
        site.run(turns)
        return time.process_time() - begun

    together, one = cpu_seconds(Site(places)), cpu_seconds(Site(places[:1]))
    assert together < one * count / 5


def test_a_priority_of_0_orders_best_effort_pods_as_it_is() -> None:
    figures = strategy_pod(pod_of("zero", "be", 1000, GI, 0.5, below=5500)).row
    assert (figures.priority, figures.own_priority) == (5500, 0)
