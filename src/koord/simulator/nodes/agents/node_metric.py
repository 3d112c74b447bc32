# SPDX-License-Identifier: Apache-2.0
"""NodeMetric statuses: what the agent of each machine would have measured and predicted.

Usage is sampled for all machines at once and kept in rings; a report averages the rings over the
windows that the node's NodeMetric asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.agent.states.effective_specs import effective_metric_spec
from koord.api.kinds.nodemetric import NodeMetricSpec
from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord.api.timestamps import seconds_text
from koord.base.documents import Document
from koord.kernels.quantity import Format, Quantity, Rounding
from koord.kernels.series import SeriesStore, Summaries
from koord.simulator.nodes.agents.usage_model import CPUAndMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.nodemetric import NodeMetricCollectPolicy
    from koord.simulator.nodes.agents.usage_model import PodLoad, PodUsageModel, UsageReading
    from koord.simulator.nodes.machine import SimulatedMachine


SAMPLE_SECONDS = 10.0
_KEPT_SECONDS = 3600
_STATISTICS = ("p50", "p90", "p95", "p99")
_SHARES = (0.5, 0.9, 0.95, 0.99)
# Whole MiB: how finely memory is measured here.
_MEMORY_STEP = 1 << 20
_PEAK_MARGIN = 1.1
_GPU_CORE_SHARE, _GPU_MEMORY_SHARE = 0.7, 0.6


class CollectPolicy(NamedTuple):
    """How one node reports.

    Args:
        window_seconds: of the plain averages.
        interval_seconds: between two reports.
        durations: windows of the statistics, each in seconds and as it was written.
    """

    window_seconds: int = 300
    interval_seconds: int = 60
    durations: tuple[tuple[float, str], ...] = ((300, "5m0s"), (600, "10m0s"), (1800, "30m0s"))


def policy_of(requested: NodeMetricCollectPolicy | None) -> CollectPolicy:
    """What a NodeMetric asks for, as an agent takes it: within bounds, over its defaults."""
    policy = effective_metric_spec(NodeMetricSpec(metric_collect_policy=requested))
    found = policy.metric_collect_policy
    assert found is not None, "has defaults"
    aggregate = found.node_aggregate_policy
    durations = aggregate.durations if aggregate is not None else []
    return CollectPolicy(
        found.aggregate_duration_seconds or 0,
        found.report_interval_seconds or 0,
        tuple((each.nanoseconds / 1e9, str(each)) for each in durations),
    )


class _Rings:
    """CPU and memory of some rows over time."""

    def __init__(self) -> None:
        self._store = SeriesStore(int(_KEPT_SECONDS / SAMPLE_SECONDS) + 1)
        self.cpu = np.empty(0, np.int64)
        self.memory = np.empty(0, np.int64)

    def add(self, rows: int) -> None:
        self.cpu, self.memory = (
            np.append(ids, [self._store.add() for _ in range(rows)]).astype(np.int64)
            for ids in (self.cpu, self.memory)
        )

    def keep(self, rows: Sequence[int | None]) -> None:
        """Takes the given rows in the new order; None is a new one, the rest is forgotten."""
        kept = {row for row in rows if row is not None}
        for gone in set(range(len(self.cpu))) - kept:
            self._store.remove(int(self.cpu[gone]))
            self._store.remove(int(self.memory[gone]))
        self.cpu, self.memory = (
            np.fromiter(
                (self._store.add() if row is None else ids[row] for row in rows),
                np.int64,
                len(rows),
            )
            for ids in (self.cpu, self.memory)
        )

    def append(self, time_ms: int, cpu: Any, memory: Any) -> None:
        self._store.append(time_ms, self.cpu, cpu)
        self._store.append(time_ms, self.memory, memory)

    def summarize(
        self, rows: Any, start_ms: int, end_ms: int, shares: Sequence[float] = ()
    ) -> tuple[Summaries, Summaries]:
        cpu, memory = (
            self._store.summarize(ids[rows], start_ms, end_ms, shares)
            for ids in (self.cpu, self.memory)
        )
        return cpu, memory


class NodeMetricMeter:
    """Samples a load and reports on it.

    Args:
        machines: in the order of the load's rows.
        load: what is sampled; its pods are set through :meth:`set_pods`.
        cold_start_seconds: age from which a pod's peak is predicted.
    """

    def __init__(
        self, machines: Sequence[SimulatedMachine], load: PodUsageModel, cold_start_seconds: float
    ) -> None:
        self._machines = machines
        self._load = load
        self._cold_start_seconds = cold_start_seconds
        self._nodes, self._system, self._pods = _Rings(), _Rings(), _Rings()
        self._nodes.add(len(machines))
        self._system.add(len(machines))
        self._allocatable = [_amounts(machine.allocatable) for machine in machines]

    def set_pods(self, pods: Sequence[PodLoad]) -> None:
        """Replaces the pods; those of the same UID keep what was measured."""
        rows = {pod.uid: row for row, pod in enumerate(self._load.pods)}
        self._pods.keep([rows.get(pod.uid) for pod in pods])
        self._load.set_pods(pods)
        self._on_node: dict[int, list[int]] = {}
        for row, pod in enumerate(pods):
            self._on_node.setdefault(pod.node, []).append(row)

    def sample(self, now: float) -> UsageReading:
        """Takes one sample of everything.

        Args:
            now: wall time in seconds.
        """
        reading = self._load.read(now)
        time_ms = int(now * 1000)
        self._nodes.append(time_ms, reading.node_cpu, reading.node_memory)
        self._system.append(time_ms, reading.system_cpu, reading.system_memory)
        self._pods.append(time_ms, reading.pod_cpu, reading.pod_memory)
        return reading

    def statuses(
        self, rows: Sequence[int], policies: Sequence[CollectPolicy], now: float
    ) -> list[Document]:
        """The NodeMetric status of each machine asked for.

        Args:
            rows: of the machines.
            policies: how each of them reports.
            now: wall time in seconds.
        """
        end = int(now * 1000)
        found: list[Document] = [{} for _ in rows]
        for window in sorted({policy.window_seconds for policy in policies}):
            at = [i for i, policy in enumerate(policies) if policy.window_seconds == window]
            averages = self._averages([rows[i] for i in at], end - window * 1000, end)
            for i, document in zip(at, averages, strict=True):
                found[i] = document
        windows = {duration for policy in policies for duration in policy.durations}
        for duration in sorted(windows):
            at = [i for i, policy in enumerate(policies) if duration in policy.durations]
            self._aggregate([rows[i] for i in at], [found[i] for i in at], duration, end)
        for row, document in zip(rows, found, strict=True):
            document["updateTime"] = seconds_text(now)
            self._predict(row, document, now)
        return found

    def _averages(self, rows: Sequence[int], start: int, end: int) -> list[Document]:
        index = np.asarray(rows, np.intp)
        nodes = self._nodes.summarize(index, start, end)
        system = self._system.summarize(index, start, end)
        pods = [pod for row in rows for pod in self._on_node.get(row, [])]
        pod_cpu, pod_memory = self._pods.summarize(np.asarray(pods, np.intp), start, end)
        used = {
            pod: _measured(pod_cpu.avg[i], pod_memory.avg[i])
            for i, pod in enumerate(pods)
            if pod_cpu.count[i]
        }
        found: list[Document] = []
        for i, row in enumerate(rows):
            if not nodes[0].count[i]:
                found.append({})
                continue
            whole, own = (_measured(part[0].avg[i], part[1].avg[i]) for part in (nodes, system))
            mine = [pod for pod in self._on_node.get(row, []) if pod in used]
            mine.sort(key=lambda pod: (self._load.pods[pod].namespace, self._load.pods[pod].name))
            found.append(self._status(row, whole, own, {pod: used[pod] for pod in mine}))
        return found

    def _status(
        self, row: int, whole: CPUAndMemory, own: CPUAndMemory, used: dict[int, CPUAndMemory]
    ) -> Document:
        machine = self._machines[row]
        pods = {pod: self._load.pods[pod] for pod in used}
        usage: Document = {"resources": _resources(whole)}
        cards = _cards(machine, list(pods.values()))
        if cards:
            usage["devices"] = cards
        zones = machine.numa_nodes
        node_metric = {
            "nodeUsage": usage,
            "systemUsage": {"resources": _resources(own)},
            "aggregatedNodeUsages": [],
            "aggregatedSystemUsages": [],
            "numaUsages": [
                {
                    "numaNodeID": zone,
                    "nodeUsage": {"resources": _resources(_share(whole, zones))},
                    "systemUsage": {"resources": _resources(_share(own, zones))},
                }
                for zone in range(zones)
            ],
            **_summary([(whole, *_bounds(pods.values()))]),
        }
        podsmetric = [
            {
                "namespace": pod.namespace,
                "name": pod.name,
                "priority": str(pod.priority_class),
                "qos": str(pod.qos),
                "podUsage": {"resources": _resources(used[index])},
            }
            for index, pod in pods.items()
        ]
        by_class: dict[bool, list[tuple[CPUAndMemory, CPUAndMemory, CPUAndMemory]]] = {
            True: [],
            False: [],
        }
        for index, pod in pods.items():
            by_class[pod.best_effort].append((used[index], pod.requests, pod.limits))
        return {
            "nodeMetric": node_metric,
            "podsMetric": podsmetric,
            "beMetric": _summary(by_class[True]),
            "lsMetric": _summary(by_class[False]),
            "podMetrics": [_pod_summary(pod, used[index]) for index, pod in pods.items()],
        }

    def _aggregate(
        self,
        rows: Sequence[int],
        documents: Sequence[Document],
        duration: tuple[float, str],
        end: int,
    ) -> None:
        """Adds the statistics of one window to each document."""
        seconds, written = duration
        index = np.asarray(rows, np.intp)
        start = end - int(seconds * 1000)
        for field, rings in (
            ("aggregatedNodeUsages", self._nodes),
            ("aggregatedSystemUsages", self._system),
        ):
            cpu, memory = rings.summarize(index, start, end, _SHARES)
            for i, document in enumerate(documents):
                if not document:
                    continue
                enough = cpu.newest_ms[i] - cpu.oldest_ms[i] >= seconds * 500
                usage: Document = {name: {} for name in ("avg", *_STATISTICS)}
                if enough and cpu.count[i]:
                    values = [(cpu.avg[i], memory.avg[i])]
                    values += zip(cpu.percentiles[i], memory.percentiles[i], strict=True)
                    for name, pair in zip(usage, values, strict=True):
                        usage[name] = {"resources": _resources(_measured(*pair))}
                told = {"usage": usage, "duration": written}
                document["nodeMetric"][field].append(told)

    def _predict(self, row: int, document: Document, now: float) -> None:
        """Adds what Prod pods request and will not use: the rule of the agent's two predictors.

        A pod's peak is what its demand model can reach at most.
        """
        pods = [self._load.pods[pod] for pod in self._on_node.get(row, [])]
        eligible = [pod for pod in pods if pod.eligible]
        allocatable, system = self._allocatable[row], self._load.system_peak(row)
        reclaimable, peak = [], []
        for resource in range(2):
            unreclaimable = unpredicted = idle = requested = known = 0
            for pod in eligible:
                request = pod.requests[resource]
                requested += request
                use = _peak(pod)[resource]
                known += use
                if now - pod.created_seconds <= self._cold_start_seconds:
                    unpredicted += request
                    continue
                highest = int(use * _PEAK_MARGIN)
                unreclaimable += highest
                idle += max(0, request - highest)
            by_pods = min(max(0, allocatable[resource] - unreclaimable), idle)
            top = int((system[resource] + known) * _PEAK_MARGIN)
            by_class = min(max(0, allocatable[resource] - top), max(0, requested - top))
            reclaimable.append(min(by_pods, by_class))
            peak.append(max(unreclaimable + unpredicted, top))
        for name, amounts in (("prodReclaimableMetric", reclaimable), ("prodPeakMetric", peak)):
            document[name] = {"resource": {"resources": _resources(CPUAndMemory(*amounts))}}


def _peak(pod: PodLoad) -> CPUAndMemory:
    cpu = int(pod.requests.cpu_milli * pod.demand.peak_cpu)
    memory = int(pod.requests.memory * pod.demand.memory)
    return CPUAndMemory(
        min(cpu, pod.limits.cpu_milli) if pod.limits.cpu_milli else cpu,
        min(memory, pod.limits.memory) if pod.limits.memory else memory,
    )


def _cards(machine: SimulatedMachine, pods: Sequence[PodLoad]) -> list[Document]:
    """What of each card is used, by those who hold it."""
    found = []
    for gpu in machine.gpus:
        core = memory = 0
        for pod in pods:
            for held in pod.cards:
                if held.minor == gpu.minor:
                    core += held.resources.get(GPU_CORE, Quantity()).value(Rounding.UP)
                    memory += held.resources.get(GPU_MEMORY, Quantity()).value(Rounding.UP)
        used = int(min(memory, gpu.memory_bytes) * _GPU_MEMORY_SHARE)
        resources = {
            GPU_CORE: str(int(min(core, 100) * _GPU_CORE_SHARE)),
            GPU_MEMORY: _memory(used),
            GPU_MEMORY_RATIO: str(100 * used // gpu.memory_bytes if gpu.memory_bytes else 0),
        }
        found.append({"type": "gpu", "id": gpu.uuid, "minor": gpu.minor, "health": True,
                      "resources": resources})  # fmt: skip
    return found


def _pod_summary(pod: PodLoad, used: CPUAndMemory) -> Document:
    """Usage by container: the pod's, split as its requests are."""
    parts = len(pod.containers)
    total = CPUAndMemory(*(sum(each[1][i] for each in pod.containers) for i in range(2)))
    containers = []
    for name, request, limit in pod.containers:
        cpu, memory = (
            used[i] * request[i] // total[i] if total[i] else used[i] // parts for i in range(2)
        )
        usage = CPUAndMemory(cpu, memory // _MEMORY_STEP * _MEMORY_STEP)
        containers.append({"name": name, **_summary([(usage, request, limit)])})
    return {"podRef": {"namespace": pod.namespace, "name": pod.name}, "containers": containers}


def _bounds(pods: Any) -> tuple[CPUAndMemory, CPUAndMemory]:
    """The sums of requests and of limits."""
    pods = list(pods)
    return (
        CPUAndMemory(*(sum(pod.requests[i] for pod in pods) for i in range(2))),
        CPUAndMemory(*(sum(pod.limits[i] for pod in pods) for i in range(2))),
    )


def _summary(parts: Sequence[tuple[CPUAndMemory, CPUAndMemory, CPUAndMemory]]) -> Document:
    """Sums of (usage, request, limit)."""
    columns = [
        CPUAndMemory(*(sum(part[k][i] for part in parts) for i in range(2))) for k in range(3)
    ]
    names = ("usage", "request", "limit")
    return {name: _resources(each) for name, each in zip(names, columns, strict=True)}


def _share(amounts: CPUAndMemory, parts: int) -> CPUAndMemory:
    memory = amounts.memory // parts // _MEMORY_STEP * _MEMORY_STEP
    return CPUAndMemory(amounts.cpu_milli // parts, memory)


def _measured(cores: float, memory: float) -> CPUAndMemory:
    return CPUAndMemory(int(cores * 1000), int(memory) // _MEMORY_STEP * _MEMORY_STEP)


def _amounts(resources: dict[str, str]) -> CPUAndMemory:
    cpu, memory = (Quantity.parse(resources[name]) for name in ("cpu", "memory"))
    return CPUAndMemory(cpu.milli(Rounding.DOWN), memory.value(Rounding.DOWN))


def _resources(amounts: CPUAndMemory) -> Document:
    return {
        "cpu": str(Quantity.from_milli(amounts.cpu_milli)),
        "memory": _memory(amounts.memory),
    }


def _memory(amount: int) -> str:
    return str(Quantity.from_value(amount, Format.BINARY_SI))
