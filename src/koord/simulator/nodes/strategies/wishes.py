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
from koord.agent.strategies.eviction import order, release
from koord.agent.strategies.eviction.tasks import REQUESTED, USED
from koord.agent.strategies.memoryevict.decision import best_effort_order
from koord.api.protocol.resources import BATCH_CPU, CPU, MEMORY
from koord.simulator.nodes.strategies.hosts import CPU_NAMES, MEMORY_NAMES
from koord.simulator.nodes.strategies.members import BATCH, FEATURES, NATIVE

if TYPE_CHECKING:
    from koord.simulator.nodes.strategies.hosts import Host
    from koord.simulator.nodes.strategies.members import Members
    from koord.simulator.nodes.strategies.settings import Setting
    from koord.simulator.nodes.strategies.table import Bools, Floats, Ints, Table
    from koord.simulator.nodes.strategies.windows import Windows
    from koord.simulator.nodes.usage import Reading


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a round is decided upon.

    Attributes:
        reading: usage now.
        windows: of CPU figures, up to now.
        real_limit_milli: what the best-effort tier may use, a row a machine.
    """

    reading: Reading
    members: Members
    hosts: Table[Host]
    wanted: Table[Setting]
    windows: Windows
    real_limit_milli: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
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


def unsatisfied(now: Round) -> Wanted:
    """``BECPUEvict``: best-effort pods get too little of the CPU they asked for."""
    wanted, figures, node = now.wanted, now.members.figures, now.members.node
    limit = now.real_limit_milli
    by_allocatable = wanted["by_allocatable"].astype(bool)
    offered = now.hosts["cpu_2"]
    offered = np.where(offered < 0, -1, np.maximum(offered, 1)).astype(np.float64)
    average, last, enough = now.windows.tiers(
        wanted["window_seconds"], limit, np.where(by_allocatable, offered, np.nan)
    )
    config = satisfaction.Satisfaction(
        wanted["satisfied_lower"], wanted["satisfied_percent"], wanted["be_usage_percent"]
    )
    due = satisfaction.releases(average, last, config)
    due = np.where(enough & (wanted["satisfied_lower"] != UNSET), due, 0)
    used = _milli(now.reading.pod_cpu)

    def ordered(rows: Ints) -> Ints:
        return order.by_share(
            node[rows], figures["own_priority"][rows], used[rows], figures["batch_milli"][rows]
        )

    victims = figures["labelled"].astype(bool) & _allowed(now.members, "BECPUEvict")
    return Wanted(
        REQUESTED, {BATCH_CPU: due}, victims, ordered, {BATCH_CPU: figures["batch_milli"]}
    )


def promised_cpu(now: Round) -> Wanted:
    """``CPUAllocatableEvict``: more CPU is requested than allocatable."""
    return _promised(now, "CPUAllocatableEvict", "cpu", CPU_NAMES, as_ratio=False)


def promised_memory(now: Round) -> Wanted:
    """``MemoryAllocatableEvict``: more memory is requested than allocatable."""
    return _promised(now, "MemoryAllocatableEvict", "memory", MEMORY_NAMES, as_ratio=True)


def busy(now: Round) -> Wanted:
    """``CPUEvict``: a machine uses too much CPU."""
    wanted = now.wanted
    average = now.windows.node_average(wanted["window_seconds"])
    due = release.by_usage(
        _milli(average), now.hosts["cpu_milli"], wanted["cpu_percent"], wanted["cpu_lower"]
    )
    due = np.where((wanted["cpu_percent"] != UNSET) & _has(wanted, "usage"), due, 0)
    used = _milli(now.reading.pod_cpu)
    return Wanted(
        USED, {CPU: due}, _up_to_priority(now, "CPUEvict", "usage"), _heaviest(now, used),
        {CPU: used},
    )  # fmt: skip


def best_effort_memory(now: Round) -> Wanted:
    """``BEMemoryEvict``: a machine's memory is full, and best-effort pods are to go."""
    figures, node = now.members.figures, now.members.node
    used = now.reading.pod_memory.astype(np.int64)

    def ordered(rows: Ints) -> Ints:
        names = [now.members.members[row].state.pod.metadata.name for row in rows.tolist()]
        rank = {name: at for at, name in enumerate(sorted(set(names)))}
        ranks = np.array([rank[name] for name in names], np.int64)
        return best_effort_order(node[rows], figures["own_priority"][rows], used[rows], ranks)

    victims = figures["labelled"].astype(bool) & _allowed(now.members, "BEMemoryEvict")
    return Wanted(USED, {MEMORY: _full(now)}, victims, ordered, {MEMORY: used})


def full_memory(now: Round) -> Wanted:
    """``MemoryEvict``: a machine's memory is full."""
    used = now.reading.pod_memory.astype(np.int64)
    due = np.where(_has(now.wanted, "usage"), _full(now), 0)
    victims = _up_to_priority(now, "MemoryEvict", "usage")
    return Wanted(USED, {MEMORY: due}, victims, _heaviest(now, used), {MEMORY: used})


def _full(now: Round) -> Ints:
    wanted = now.wanted
    due = release.by_usage(
        now.reading.node_memory.astype(np.int64),
        now.hosts["memory_bytes"],
        wanted["memory_percent"],
        wanted["memory_lower"],
    )
    return np.where(wanted["memory_percent"] != UNSET, due, 0)


def _promised(
    now: Round, feature: str, resource: str, names: tuple[str, ...], *, as_ratio: bool
) -> Wanted:
    figures, node, wanted = now.members.figures, now.members.node, now.wanted
    nodes, classes = len(now.hosts), len(names)
    counted = figures["priority"] <= wanted["promised_priority"][node]
    cell = node * classes + figures["asks"]
    asked = figures[resource]
    requested, members = (
        np.bincount(cell[counted], weights, nodes * classes).astype(np.int64)
        for weights in (asked[counted], None)
    )
    offered = np.stack([now.hosts[f"{resource}_{at}"] for at in range(classes)], axis=1).ravel()
    due = release.by_requests(
        requested,
        np.maximum(offered, 0),
        np.repeat(wanted[f"{resource}_promised_percent"], classes),
        np.repeat(wanted[f"{resource}_promised_lower"], classes),
        as_ratio=as_ratio,
    ).reshape(nodes, classes)
    valid = (wanted[f"{resource}_promised_percent"] != UNSET) & _has(wanted, "promised")
    due = np.where(valid[:, None] & (members.reshape(nodes, classes) > 0), due, 0)
    # A pod that releases nothing of what is due would be evicted for nothing.
    helps = (due[node, figures["asks"]] > 0) & (figures["asks"] != NATIVE)
    amounts = {
        names[kind]: np.where(helps & (figures["asks"] == kind), asked, 0)
        for kind in range(NATIVE + 1, BATCH + 1)
    }
    return Wanted(
        REQUESTED, {name: due[:, at] for at, name in enumerate(names)},
        _up_to_priority(now, feature, "promised") & helps, _heaviest(now, asked), amounts,
    )  # fmt: skip


def _heaviest(now: Round, weight: Ints) -> Callable[[Ints], Ints]:
    figures, node = now.members.figures, now.members.node

    def ordered(rows: Ints) -> Ints:
        return order.by_priority(
            node[rows],
            figures["eviction_priority"][rows],
            figures["priority"][rows],
            figures["label_priority"][rows],
            weight[rows],
        )

    return ordered


def _up_to_priority(now: Round, feature: str, which: str) -> Bools:
    figures, node = now.members.figures, now.members.node
    agreed = figures["agreed"].astype(bool) & _allowed(now.members, feature)
    return agreed & (figures["priority"] <= now.wanted[f"{which}_priority"][node])


def _allowed(members: Members, feature: str) -> Bools:
    found: Bools = (members.figures["allowed"] >> FEATURES.index(feature)) & 1 == 1
    return found


def _has(wanted: Table[Setting], which: str) -> Bools:
    return wanted[f"has_{which}_priority"].astype(bool)


def _milli(cores: Floats) -> Ints:
    return np.trunc(1000 * cores).astype(np.int64)


CPU_FEATURES: Mapping[str, Callable[[Round], Wanted]] = {
    "BECPUEvict": unsatisfied,
    "CPUAllocatableEvict": promised_cpu,
    "CPUEvict": busy,
}
MEMORY_FEATURES: Mapping[str, Callable[[Round], Wanted]] = {
    "BEMemoryEvict": best_effort_memory,
    "MemoryAllocatableEvict": promised_memory,
    "MemoryEvict": full_memory,
}
"""What evicts for want of CPU and of memory, by feature gate, in the order of a round's tasks."""
