# SPDX-License-Identifier: Apache-2.0
"""Runs a workload under a policy and keeps what a table or a plot needs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from koord.kernels.devices import Fragmentation, PodShape, TypicalPods
from koord.kernels.placement import GPU_MILLI, NodeTable, Placer, Replay, ReplayRows
from koord.simulator.openb import result_tables
from koord.simulator.openb.trace import TraceNode, TracePod
from koord.simulator.openb.workload import TraceWorkload

PODS_A_NODE = 1001
CHUNK = 1024
WEIGHTS = {"cpu": 1, "memory": 1}


@dataclass(frozen=True, slots=True)
class ReplayedNodes:
    """Every node at the end of a run, in the order of the node list."""

    names: list[str]
    models: list[str]
    cpu_milli: NDArray[np.int64]
    cpu_free_milli: NDArray[np.int64]
    gpu_milli: NDArray[np.int64]
    gpu_free_milli: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run: a policy under a workload."""

    policy: str
    workload: TraceWorkload
    rows: ReplayRows
    nodes: ReplayedNodes
    gpus: int
    seconds: float

    @property
    def pods_submitted(self) -> int:
        """Arrivals."""
        return len(self.rows.node)

    @property
    def pods_failed(self) -> int:
        """Arrivals that fitted nowhere."""
        return int(np.count_nonzero(self.rows.node < 0))

    @property
    def cpu_allocated_percent(self) -> float:
        """Allocated CPU at the end, in percent of all."""
        capacity = int(self.nodes.cpu_milli.sum())
        used = capacity - int(self.nodes.cpu_free_milli.sum())
        return round(100 * used / capacity, 2) if capacity else 0.0

    @property
    def gpu_allocated_percent(self) -> result_tables.Table:
        """Allocated GPU milli in percent of all, by arrived percent; two decimals."""
        return result_tables.allocation(self.rows, self.gpus)

    @property
    def fragmented_percent(self) -> result_tables.Table:
        """Fragmentation amount in percent of all GPU milli, by arrived percent; two decimals."""
        return result_tables.fragmentation(self.rows, self.gpus)

    @property
    def fragmentation_ratio(self) -> result_tables.Table:
        """Fragmentation amount in percent of what is free, by arrived percent."""
        return result_tables.fragmentation_ratio(self.rows, self.gpus)

    def as_json(self) -> dict[str, object]:
        """The run as the command line prints it."""
        workload = self.workload
        origin = {"order": workload.order} if workload.order else {"seed": workload.seed}
        return {
            "policy": self.policy,
            **origin,
            "pods_submitted": self.pods_submitted,
            "pods_failed": self.pods_failed,
            "gpu_allocated_percent": _text_keys(self.gpu_allocated_percent),
            "fragmented_percent": _text_keys(self.fragmented_percent),
            "fragmentation_ratio": _text_keys(self.fragmentation_ratio),
            "cpu_allocated_percent": self.cpu_allocated_percent,
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True, slots=True)
class Experiment:
    """A cluster and a pod list.

    Attributes:
        nodes: the cluster.
        pods: the original list.
        distinct: one pod of each kind that asks for the same.
        kinds: for each pod its index in ``distinct``.
        fragmentation: typical pods are counted over the whole list, before resampling.
    """

    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]
    distinct: Sequence[TracePod]
    kinds: NDArray[np.intp]
    fragmentation: Fragmentation

    @classmethod
    def of(cls, nodes: Sequence[TraceNode], pods: Sequence[TracePod]) -> Experiment:
        """Sorts the pods into kinds and counts the typical ones."""
        typical = TypicalPods.count(Counter(pod.shape for pod in pods))
        kind_of: dict[tuple[PodShape, int], int] = {}
        distinct: list[TracePod] = []
        for pod in pods:
            if (pod.shape, pod.memory_mib) not in kind_of:
                kind_of[pod.shape, pod.memory_mib] = len(distinct)
                distinct.append(pod)
        kinds = [kind_of[pod.shape, pod.memory_mib] for pod in pods]
        return cls(nodes, pods, distinct, np.array(kinds), Fragmentation(typical))

    def run(
        self, policy: str, workload: TraceWorkload, progress: Callable[[int], None] = lambda _: None
    ) -> RunResult:
        """Places every arrival of the workload, or drops it where it fits nowhere.

        Args:
            policy: one of :func:`koord.kernels.placement.policy_names`.
            workload: arrivals and node ranks.
            progress: called with the number of pods placed since its last call.
        """
        table = node_table(self.nodes)
        table.set_ranks(workload.ranks)
        shapes = np.array([intern_shape(table, pod) for pod in self.distinct], np.uint32)
        arrivals = shapes[self.kinds[workload.arrivals]]
        seed = workload.seed or 0
        start = time.perf_counter()
        placer = Placer(table, policy, seed=seed, fragmentation=self.fragmentation, weights=WEIGHTS)
        replay = Replay(placer, self.fragmentation)
        for first in range(0, len(arrivals), CHUNK):
            chunk = arrivals[first : first + CHUNK]
            replay.run(chunk)
            progress(len(chunk))
        rows = replay.finish()
        seconds = time.perf_counter() - start
        gpus = sum(node.gpus for node in self.nodes)
        return RunResult(policy, workload, rows, node_state(table, self.nodes), gpus, seconds)


def node_table(nodes: Sequence[TraceNode]) -> NodeTable:
    """An empty cluster."""
    table = NodeTable(["cpu", "memory", "pods"])
    for node in nodes:
        capacity = {"cpu": node.cpu_milli, "memory": node.memory_mib, "pods": PODS_A_NODE}
        table.add_node(node.name, capacity, gpus=node.gpus, model=node.model)
    return table


def intern_shape(table: NodeTable, pod: TracePod) -> int:
    """The id of what a pod of the trace asks for."""
    shape = pod.shape
    return table.shape(
        {"cpu": shape.cpu_milli, "memory": pod.memory_mib, "pods": 1},
        gpus=shape.gpu_count,
        gpu_milli=shape.gpu_milli or GPU_MILLI,
        models=[model for model in shape.gpu_spec.split("|") if model],
    )


def node_state(table: NodeTable, nodes: Sequence[TraceNode]) -> ReplayedNodes:
    """Every node of a table as it is now."""
    return ReplayedNodes(
        names=[node.name for node in nodes],
        models=[node.model for node in nodes],
        cpu_milli=table.capacity("cpu"),
        cpu_free_milli=table.free("cpu"),
        gpu_milli=table.native.gpus_total_sums(),
        gpu_free_milli=table.native.gpus_free_sums(),
    )


def _text_keys(table: result_tables.Table) -> dict[str, float | None]:
    return {str(cell): value for cell, value in table.items()}
