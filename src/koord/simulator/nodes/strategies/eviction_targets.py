# SPDX-License-Identifier: Apache-2.0
"""What each evicting feature wants of all machines: columns, by the agent's own decisions.

A feature that a machine's settings leave out or set wrongly wants nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.cpuevict import decision as satisfaction
from koord.agent.strategies.cpusuppress.decision import UNSET
from koord.agent.strategies.eviction import release_amounts, victim_order
from koord.agent.strategies.eviction.tasks import REQUESTED, USED
from koord.agent.strategies.memoryevict.decision import best_effort_order
from koord.api.protocol.resources import BATCH_CPU, CPU, MEMORY
from koord.simulator.nodes.strategies.node_rows import CPU_NAMES, MEMORY_NAMES
from koord.simulator.nodes.strategies.pod_rows import BATCH, FEATURES, NATIVE

if TYPE_CHECKING:
    from koord.simulator.nodes.agents.usage_model import UsageReading
    from koord.simulator.nodes.strategies.column_table import Bools, ColumnTable, Floats, Ints
    from koord.simulator.nodes.strategies.node_rows import NodeRow
    from koord.simulator.nodes.strategies.pod_rows import StrategyPods
    from koord.simulator.nodes.strategies.slo_rows import SLORow
    from koord.simulator.nodes.strategies.usage_windows import UsageWindows


@dataclass(frozen=True, slots=True, eq=False)
class EvictionInputs:
    """What a round is decided upon.

    Attributes:
        reading: usage now.
        windows: of CPU figures, up to now.
        real_limit_milli: what the best-effort tier may use, a row a machine.
    """

    reading: UsageReading
    pods: StrategyPods
    nodes: ColumnTable[NodeRow]
    slos: ColumnTable[SLORow]
    windows: UsageWindows
    real_limit_milli: Floats


@dataclass(frozen=True, slots=True, eq=False)
class EvictionTarget:
    """What a feature wants.

    Attributes:
        target: whether used or requested amounts are to be released.
        release: by resource, a row a machine; only positive amounts count.
        victims: who may go, a row a pod.
        order: of some rows of pods: their places in the order of eviction, machine by machine.
        amounts: what each pod releases, by resource, a row a pod.
    """

    target: str
    release: Mapping[str, Ints]
    victims: Bools
    order: Callable[[Ints], Ints]
    amounts: Mapping[str, Ints]


def be_cpu_evict(now: EvictionInputs) -> EvictionTarget:
    """``BECPUEvict``: best-effort pods get too little of the CPU they asked for."""
    slos, columns, node = now.slos, now.pods.columns, now.pods.node
    limit = now.real_limit_milli
    by_allocatable = slos["by_allocatable"].astype(bool)
    offered = now.nodes["cpu_2"]
    offered = np.where(offered < 0, -1, np.maximum(offered, 1)).astype(np.float64)
    average, last, enough = now.windows.tiers(
        slos["window_seconds"], limit, np.where(by_allocatable, offered, np.nan)
    )
    config = satisfaction.SatisfactionThresholds(
        slos["satisfied_lower"], slos["satisfied_percent"], slos["be_usage_percent"]
    )
    due = satisfaction.releases(average, last, config)
    due = np.where(enough & (slos["satisfied_lower"] != UNSET), due, 0)
    used = _milli(now.reading.pod_cpu)

    def ordered(rows: Ints) -> Ints:
        return victim_order.by_share(
            node[rows], columns["own_priority"][rows], used[rows], columns["batch_milli"][rows]
        )

    victims = columns["labelled"].astype(bool) & _allowed(now.pods, "BECPUEvict")
    return EvictionTarget(
        REQUESTED, {BATCH_CPU: due}, victims, ordered, {BATCH_CPU: columns["batch_milli"]}
    )


def cpu_allocatable_evict(now: EvictionInputs) -> EvictionTarget:
    """``CPUAllocatableEvict``: more CPU is requested than allocatable."""
    return _promised(now, "CPUAllocatableEvict", "cpu", CPU_NAMES, as_ratio=False)


def memory_allocatable_evict(now: EvictionInputs) -> EvictionTarget:
    """``MemoryAllocatableEvict``: more memory is requested than allocatable."""
    return _promised(now, "MemoryAllocatableEvict", "memory", MEMORY_NAMES, as_ratio=True)


def cpu_evict(now: EvictionInputs) -> EvictionTarget:
    """``CPUEvict``: a machine uses too much CPU."""
    slos = now.slos
    average = now.windows.node_average(slos["window_seconds"])
    due = release_amounts.by_usage(
        _milli(average), now.nodes["cpu_milli"], slos["cpu_percent"], slos["cpu_lower"]
    )
    due = np.where((slos["cpu_percent"] != UNSET) & _has(slos, "usage"), due, 0)
    used = _milli(now.reading.pod_cpu)
    return EvictionTarget(
        USED, {CPU: due}, _up_to_priority(now, "CPUEvict", "usage"), _heaviest(now, used),
        {CPU: used},
    )  # fmt: skip


def be_memory_evict(now: EvictionInputs) -> EvictionTarget:
    """``BEMemoryEvict``: a machine's memory is full, and best-effort pods are to go."""
    columns, node = now.pods.columns, now.pods.node
    used = now.reading.pod_memory.astype(np.int64)

    def ordered(rows: Ints) -> Ints:
        names = [now.pods.pods[row].state.pod.metadata.name for row in rows.tolist()]
        rank = {name: at for at, name in enumerate(sorted(set(names)))}
        ranks = np.array([rank[name] for name in names], np.int64)
        return best_effort_order(node[rows], columns["own_priority"][rows], used[rows], ranks)

    victims = columns["labelled"].astype(bool) & _allowed(now.pods, "BEMemoryEvict")
    return EvictionTarget(USED, {MEMORY: _full(now)}, victims, ordered, {MEMORY: used})


def memory_evict(now: EvictionInputs) -> EvictionTarget:
    """``MemoryEvict``: a machine's memory is full."""
    used = now.reading.pod_memory.astype(np.int64)
    due = np.where(_has(now.slos, "usage"), _full(now), 0)
    victims = _up_to_priority(now, "MemoryEvict", "usage")
    return EvictionTarget(USED, {MEMORY: due}, victims, _heaviest(now, used), {MEMORY: used})


def _full(now: EvictionInputs) -> Ints:
    slos = now.slos
    due = release_amounts.by_usage(
        now.reading.node_memory.astype(np.int64),
        now.nodes["memory_bytes"],
        slos["memory_percent"],
        slos["memory_lower"],
    )
    return np.where(slos["memory_percent"] != UNSET, due, 0)


def _promised(
    now: EvictionInputs, feature: str, resource: str, names: tuple[str, ...], *, as_ratio: bool
) -> EvictionTarget:
    columns, node, slos = now.pods.columns, now.pods.node, now.slos
    rows, classes = len(now.nodes), len(names)
    counted = columns["priority"] <= slos["promised_priority"][node]
    cell = node * classes + columns["asks"]
    asked = columns[resource]
    requested, counts = (
        np.bincount(cell[counted], weights, rows * classes).astype(np.int64)
        for weights in (asked[counted], None)
    )
    offered = np.stack([now.nodes[f"{resource}_{at}"] for at in range(classes)], axis=1).ravel()
    due = release_amounts.by_requests(
        requested,
        np.maximum(offered, 0),
        np.repeat(slos[f"{resource}_promised_percent"], classes),
        np.repeat(slos[f"{resource}_promised_lower"], classes),
        as_ratio=as_ratio,
    ).reshape(rows, classes)
    valid = (slos[f"{resource}_promised_percent"] != UNSET) & _has(slos, "promised")
    due = np.where(valid[:, None] & (counts.reshape(rows, classes) > 0), due, 0)
    # A pod that releases nothing of what is due would be evicted for nothing.
    helps = (due[node, columns["asks"]] > 0) & (columns["asks"] != NATIVE)
    amounts = {
        names[kind]: np.where(helps & (columns["asks"] == kind), asked, 0)
        for kind in range(NATIVE + 1, BATCH + 1)
    }
    return EvictionTarget(
        REQUESTED, {name: due[:, at] for at, name in enumerate(names)},
        _up_to_priority(now, feature, "promised") & helps, _heaviest(now, asked), amounts,
    )  # fmt: skip


def _heaviest(now: EvictionInputs, weight: Ints) -> Callable[[Ints], Ints]:
    columns, node = now.pods.columns, now.pods.node

    def ordered(rows: Ints) -> Ints:
        return victim_order.by_priority(
            node[rows],
            columns["eviction_priority"][rows],
            columns["priority"][rows],
            columns["label_priority"][rows],
            weight[rows],
        )

    return ordered


def _up_to_priority(now: EvictionInputs, feature: str, which: str) -> Bools:
    columns, node = now.pods.columns, now.pods.node
    agreed = columns["agreed"].astype(bool) & _allowed(now.pods, feature)
    return agreed & (columns["priority"] <= now.slos[f"{which}_priority"][node])


def _allowed(pods: StrategyPods, feature: str) -> Bools:
    found: Bools = (pods.columns["allowed"] >> FEATURES.index(feature)) & 1 == 1
    return found


def _has(slos: ColumnTable[SLORow], which: str) -> Bools:
    return slos[f"has_{which}_priority"].astype(bool)


def _milli(cores: Floats) -> Ints:
    return np.trunc(1000 * cores).astype(np.int64)


CPU_FEATURES: Mapping[str, Callable[[EvictionInputs], EvictionTarget]] = {
    "BECPUEvict": be_cpu_evict,
    "CPUAllocatableEvict": cpu_allocatable_evict,
    "CPUEvict": cpu_evict,
}
MEMORY_FEATURES: Mapping[str, Callable[[EvictionInputs], EvictionTarget]] = {
    "BEMemoryEvict": be_memory_evict,
    "MemoryAllocatableEvict": memory_allocatable_evict,
    "MemoryEvict": memory_evict,
}
"""What evicts for want of CPU and of memory, by feature gate, in the order of a round's tasks."""
